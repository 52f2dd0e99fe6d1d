"""The tour of a demo: choices, speeds, sheet, film, folder and page."""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.log_facts import LogFacts
from l5kit.dataset import EgoDataset
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.facts import map_counts, summary_facts
from l5kit.visualization.images import write_png
from l5kit.visualization.report_page import PageFigure, PageTable, write_page
from l5kit.visualization.sample_config import SampleForm, sample_config
from l5kit.visualization.showcase import draw_contact_sheet, draw_film, eventful_indices
from l5kit.visualization.tour import SamplingSpeed, measure_sampling, speed_rows

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


class OneTurn:
    """A dataset in which only one sample turns; all others go straight and equally far."""

    def __init__(self, length, turning):
        self.length, self.turning = length, turning

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        x = np.arange(1.0, 6.0)
        return {
            "target_positions": np.column_stack([x, np.zeros(5)]),
            "target_yaws": np.full((5, 1), 1.0 if index == self.turning else 0.0),
            "target_availabilities": np.ones(5),
        }


def test_the_sample_that_turns_is_chosen_in_its_part():
    assert eventful_indices(OneTurn(30, 17), 2).tolist()[1] == 17


@pytest.mark.parametrize(("length", "count", "expected"), [(0, 3, 0), (1, 3, 1), (2, 3, 2), (50, 3, 3)])
def test_there_are_as_many_choices_as_samples_allow(length, count, expected):
    chosen = eventful_indices(OneTurn(length, -1), count).tolist()
    assert len(chosen) == expected
    assert chosen == sorted(set(chosen))
    assert all(0 <= index < length for index in chosen)


def test_choices_of_a_real_dataset_are_samples_of_it(city_files, city_log):
    ego = EgoDataset(sample_config(city_files, map_kind="box", form=SampleForm(), step_time_s=0.1), city_log, None)
    chosen = eventful_indices(ego, 3)
    assert [int(index) // 100 for index in chosen] == [0, 1, 2]


def test_speeds_are_measured_for_every_class_and_map(city_files, city_log):
    calls = []
    speeds = measure_sampling(
        city_files,
        city_log,
        form=SampleForm(raster_size_px=(60, 40), history_num_frames=1),
        num_samples=7,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert [(speed.dataset, speed.map_kind) for speed in speeds] == [
        ("EgoDataset", "semantic"),
        ("AgentDataset", "semantic"),
        ("EgoDataset", "satellite"),
        ("AgentDataset", "satellite"),
    ]
    assert all(speed.num_samples == 7 and speed.image_shape == (7, 40, 60) for speed in speeds)
    assert speeds[0].num_available == 300
    assert all(speed.samples_per_s > 0 for speed in speeds)
    assert calls == [(7, 28), (14, 28), (21, 28), (28, 28)]


def test_samples_per_second_is_their_number_over_the_time():
    assert SamplingSpeed("EgoDataset", "box", 10, 8, 2.0, (3, 4, 5)).samples_per_s == 4.0
    assert SamplingSpeed("EgoDataset", "box", 0, 0, 0.0, ()).samples_per_s == 0.0


def test_speeds_as_cells():
    speed = SamplingSpeed("EgoDataset", "box", 1234, 8, 2.0, (3, 4, 5))
    assert speed_rows([speed]) == [["EgoDataset", "box", "1,234", "3 x 4 x 5", "8", "4"]]


def test_facts_of_a_dataset_and_its_map(city_files, city_log):
    facts = summary_facts(city_log.summary(), LogFacts((5, 2, 1.625)))
    assert facts["Size of the AV"] == "5.00 x 2.00 x 1.62 m"
    assert (facts["Scenes"], facts["Frames"], facts["Recorded time"]) == ("3", "300", "30.0 s")
    assert map_counts(city_files)["lanes"] > 10
    assert map_counts(replace(city_files, meta=None)) == {}


def test_the_contact_sheet_has_a_row_per_class_and_map(city_files, city_log):
    calls = []
    sheet = draw_contact_sheet(
        city_files, city_log, columns=2, progress=lambda done, total: calls.append((done, total))
    )
    assert 2 * 480 < sheet.shape[1] < 3 * 480
    assert 4 * 340 < sheet.shape[0] < 5 * 340
    assert calls[-1] == (8, 8)


def test_the_film_is_of_consecutive_frames_in_bounds(city_files, city_log):
    film = draw_film(city_files, city_log, num_frames=5)
    assert len(film.pictures) == 5
    assert film.title.startswith("scene ")
    assert len(draw_film(replace(city_files, meta=None), city_log, num_frames=1000).pictures) == 100


@pytest.mark.parametrize("draw", [draw_contact_sheet, draw_film])
def test_a_dataset_without_frames_cannot_be_drawn(city_files, draw):
    with pytest.raises(InvalidArgumentError, match="has no frame"):
        draw(city_files, ChunkedDataset.in_memory())


def test_a_scene_of_one_frame_without_agents_is_drawn(city_files, city_log):
    one = city_log.get_scene_dataset(0)
    scenes, frames = one.scenes.copy(), one.frames[:1].copy()
    scenes["frame_index_interval"] = (0, 1)
    frames["agent_index_interval"] = (0, 0)
    frames["traffic_light_faces_index_interval"] = (0, 0)
    lonely = ChunkedDataset.in_memory(scenes=scenes, frames=frames)
    assert draw_contact_sheet(city_files, lonely).shape[1] > 2 * 480
    assert len(draw_film(city_files, lonely).pictures) == 1
    assert [speed.num_samples for speed in measure_sampling(city_files, lonely)] == [1, 0, 1, 0]


def test_the_page_escapes_what_it_is_given_and_holds_its_pictures(tmp_path):
    write_png(tmp_path / "a.png", np.zeros((2, 2, 3), np.uint8))
    write_page(
        tmp_path / "index.html",
        title="A & B",
        subtitle="<path>",
        facts={"Scenes": "3"},
        figures=[PageFigure(tmp_path / "a.png", "Picture", "of $nothing")],
        tables=[PageTable("Numbers", ("Name", "Value"), [("x<y", "1")], "note")],
        footer="end",
    )
    page = (tmp_path / "index.html").read_text("utf-8")
    for text in ("A &amp; B", "&lt;path&gt;", "x&lt;y", "of $nothing", "data:image/png;base64,iVBOR", "<td>1</td>"):
        assert text in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "index.html"]


def test_a_page_whose_picture_is_missing_is_not_written(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_page(
            tmp_path / "index.html",
            title="",
            subtitle="",
            facts={},
            figures=[PageFigure(tmp_path / "none.png", "", "")],
            tables=[],
            footer="",
        )
    assert list(tmp_path.iterdir()) == []
