"""Cards of datasets, maps and configurations: their content, escaping, size, and that they never raise."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from l5kit.configs.overrides import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.data.display import html_card, html_table
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.visualization.notebooks import preview, preview_html
from l5kit.visualization.notebooks.shown import image_element
from l5kit.workflows import TrainingConfig
from support.logs import make_agents, make_scene

MAX_CHARACTERS = 100_000
KEYS = {"raster_params": {"semantic_map_key": "semantic_map/semantic_map.pb", "dataset_meta_key": "meta.json"}}


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


def cells_of(html):
    return re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", html)


def test_the_card_of_a_log_tells_its_counts_and_shows_a_moment(log):
    html = log._repr_html_()
    facts = dict(zip(*[iter(cells_of(html))] * 2, strict=True))
    assert facts["scenes"] == "3"
    assert facts["frames"] == "300"
    assert facts["agents"] == f"{len(log.agents):,}"
    assert facts["frames a second"] == "10"
    assert html.count("<img ") == 1
    assert len(html) < MAX_CHARACTERS


def test_without_visualization_the_card_is_the_table_alone(log, monkeypatch):
    monkeypatch.delitem(sys.modules, preview.__name__)
    assert "<img" not in log._repr_html_()
    assert "300" in cells_of(log._repr_html_())


def test_the_card_of_a_map_has_its_lanes_and_a_picture(city):
    card = MapAPI.from_cfg(LocalDataManager(city), KEYS)
    html = card._repr_html_()
    facts = dict(zip(*[iter(cells_of(html))] * 2, strict=True))
    assert facts["lanes"] == f"{len(card.bounds_info['lanes']['ids']):,}"
    assert "<img " in html
    assert len(html) < MAX_CHARACTERS


def test_the_card_of_a_dataset_of_samples_makes_none(city, log, monkeypatch):
    cfg = load_training_config("vector_planner")
    samples = EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(city)))
    monkeypatch.setattr(EgoDatasetVectorized, "get_frame", None)
    html = samples._repr_html_()
    assert {"EgoDatasetVectorized", "300", "30"} <= {*cells_of(html), *re.findall(r"bold\">(\w+)<", html)}
    assert "<img " in html


def test_batches_and_columns_tell_their_shapes(log):
    cfg = load_training_config("raster_planner")
    cfg["model_params"]["future_num_frames"] = 2
    samples = EgoDataset(cfg, log, None)
    for told in (samples.__getitems__([0, 1, 2]), samples.make_columns([0, 1, 2])):
        cells = cells_of(told._repr_html_())
        assert cells[cells.index("target_positions") + 1] == "(3, 2, 2)"


def test_the_card_of_a_configuration_lists_what_was_given():
    html = TrainingConfig.from_cfg(load_training_config("agent_motion"))._repr_html_()
    cells = cells_of(html)
    assert cells[cells.index("raster_params.raster_size") + 1] == "[112, 112]"
    assert "agent_motion" in html


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"frames": np.zeros(4, dtype=[("x", "i4")])}, id="no frames"),
        pytest.param({"scenes": None}, id="no array"),
    ],
)
def test_a_damaged_log_gives_a_card_with_the_error(damage):
    log = make_scene([make_agents({}, {})] * 4)
    for name, array in damage.items():
        setattr(log, name, array)
    assert "error" in cells_of(log._repr_html_())


def test_a_log_with_wrong_intervals_has_its_table():
    log = make_scene([make_agents({}, {})] * 4)
    log.frames["agent_index_interval"][:] = [10**9, 10**10]
    html = log._repr_html_()
    assert "4" in cells_of(html)
    assert "error" not in cells_of(html)


@pytest.mark.parametrize("log", [ChunkedDataset.in_memory(), ChunkedDataset("")], ids=["empty", "not opened"])
def test_an_empty_log_has_a_card_without_a_picture(log):
    html = log._repr_html_()
    assert "0" in cells_of(html)
    assert "<img" not in html


def test_little_of_a_large_log_is_read(log, monkeypatch):
    """A card reads the first scene's row, some frames and the agents of one frame."""
    read = []
    rows_of = preview.rows_of
    monkeypatch.setattr(
        preview, "rows_of", lambda array, rows, **options: read.append(rows) or rows_of(array, rows, **options)
    )
    preview_html(log)
    assert [rows.stop - rows.start for rows in read[:2]] == [1, 100]
    (agents,) = read[2:]
    assert agents.stop - agents.start < 200


def test_text_is_escaped_and_long_text_cut():
    card = html_card("<b>", lambda: {"<script>": "</td>\ud800" + "x" * 10_000})
    assert "<script>" not in card
    assert "<b>" not in card
    assert "&lt;/td&gt;?" in card
    assert len(card) < 2_000
    table = html_table("<i>", ["&"], [["<u>"]])
    assert "<i>" not in table
    assert "<u>" not in table


def test_what_fails_is_told_and_never_raised():
    def fail():
        raise RuntimeError("no <luck>")

    assert "RuntimeError: no &lt;luck&gt;" in html_card("x", fail, subject=object())
    assert html_card("x", dict, subject=object()) == html_card("x", dict)


def test_a_log_on_a_server_has_no_picture(log, monkeypatch):
    monkeypatch.setattr(log, "path", "s3://bucket/log.zarr")
    assert preview_html(log) == ""


def test_a_picture_that_does_not_compress_stays_small():
    noise = np.random.default_rng(0).integers(0, 256, (240, 360, 3), dtype=np.uint8)
    assert len(image_element(noise, text="noise")) < MAX_CHARACTERS
