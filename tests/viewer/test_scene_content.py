"""A scene as arrays: what it holds of the log, which rows are in the agents mask and why, and the lights of lanes."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.index.windows import WindowRows
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.data.scene_arrays import AgentRows
from l5kit.dataset import AgentDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.geometry import yaw_as_rotation33
from l5kit.visualization.controlled_lanes import ControlledLanes
from l5kit.visualization.sample_config import SampleForm, sample_config
from l5kit.visualization.scene_content import (
    MASK_RULE,
    LaneLightRows,
    MaskVerdicts,
    read_scene_content,
)
from l5kit.visualization.visualizer.map_layers import LIGHT_TONES, MapLayers
from support.logs import make_agent, make_agents, make_faces, make_scene, write_with_chunks
from support.random_logs import random_dataset, write_three_arrays
from support.tolerances import FLOAT64_LONG

GREEN, YELLOW, RED = range(3)
NOBODY = make_agents()


@pytest.fixture(scope="module")
def agent_dataset(city_files, city_log, tmp_path_factory):
    """The samples of the city with the usual configuration."""
    cfg = sample_config(city_files, map_kind="box", form=SampleForm(), step_time_s=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L5KIT_CACHE_DIR", str(tmp_path_factory.mktemp("masks")))
        with pytest.warns(RuntimeWarning, match="agents mask"):
            return AgentDataset(cfg, city_log, None)


@pytest.fixture(scope="module")
def contents(city_log, city_map):
    """All scenes of the city."""
    return [read_scene_content(city_log, index, map_api=city_map) for index in range(len(city_log.scenes))]


@pytest.mark.parametrize("scene_index", range(3))
def test_a_scene_holds_what_the_log_does(city_log, contents, scene_index):
    scene, content = city_log.get_scene_dataset(scene_index), contents[scene_index]
    agents = content.agents
    assert (content.scene_index, content.host) == (scene_index, scene.scenes[0]["host"])
    assert content.num_frames == len(scene.frames)
    assert content.timestamps_ns.tolist() == scene.frames["timestamp"].tolist()
    assert content.times_s == pytest.approx(0.1 * np.arange(100), abs=FLOAT64_LONG)
    np.testing.assert_array_equal(content.ego_positions_m, scene.frames["ego_translation"])
    for frame_index, (start, end) in enumerate(scene.frames["agent_index_interval"].tolist()):
        assert agents.rows_of(frame_index) == slice(start, end)
    for name, field in {
        "track_ids": "track_id",
        "centroids_m": "centroid",
        "yaws_rad": "yaw",
        "extents_m": "extent",
        "velocities_mps": "velocity",
        "label_probabilities": "label_probabilities",
    }.items():
        np.testing.assert_array_equal(getattr(agents, name), scene.agents[field], err_msg=name)
    assert agents.track_ids.dtype == np.uint64
    assert agents.labels.tolist() == scene.agents["label_probabilities"].argmax(axis=1).tolist()


@pytest.mark.parametrize("scene_index", range(3))
def test_the_mask_and_its_reasons_are_those_of_the_agent_dataset(city_log, agent_dataset, contents, scene_index):
    first_frame, end_frame = city_log.scenes[scene_index]["frame_index_interval"].tolist()
    agents, mask = contents[scene_index].agents, contents[scene_index].mask
    told = [explained for frame in range(first_frame, end_frame) for explained in agent_dataset.explain_frame(frame)]
    assert len(told) == len(agents.track_ids) > 1000
    assert [explained.track_id for explained in told] == agents.track_ids.tolist()
    assert [explained.is_included for explained in told] == mask.is_in_mask.tolist()
    assert [explained.reason for explained in told] == [mask.reasons[index] for index in mask.reason_indices]
    assert 0 < np.count_nonzero(mask.is_in_mask) < len(told)
    assert len(set(mask.reasons)) == len(mask.reasons) > 10


def test_the_mask_of_all_scenes_is_the_agents_mask(agent_dataset, contents):
    assert np.array_equal(np.concatenate([content.mask.is_in_mask for content in contents]), agent_dataset.agents_mask)


def eventful_scene(num_frames=24, change=15):
    """Agents that are always seen, no road user, far away, missing once, turned at once, and grown at once."""

    def agents_of(frame):
        later = frame >= change
        return [
            make_agent(2**63 + 5, (frame, 3.0)),
            make_agent(2, (frame, 3.0), labels={"UNKNOWN": 1.0}),
            make_agent(3, (frame, 50.0)),
            *([] if frame == change - 1 else [make_agent(4, (frame, 3.0))]),
            make_agent(5, (frame, 3.0), yaw=1.0 if later else 0.0),
            make_agent(6, (frame, 3.0), extent=(9, 9, 1) if later else (4, 2, 1)),
        ]

    return make_scene([agents_of(frame) for frame in range(num_frames)])


def test_reasons_say_what_happened():
    content = read_scene_content(eventful_scene(), 0, map_api=None)
    agents = content.agents
    rows = agents.rows_of(15)
    told = dict(
        zip(
            agents.track_ids[rows].tolist(),
            [content.mask.reasons[i] for i in content.mask.reason_indices[rows]],
            strict=True,
        )
    )
    needed = "10 and 1 are needed"
    assert told == {
        2**63 + 5: f"valid in 15 frames before and 8 after; {needed}",
        2: "not a road user: summed probability of the kept classes is not above 0.5",
        3: "not within 50 m of the AV",
        4: f"valid in 0 frames before and 8 after; {needed}; its track was not seen in the frame before",
        5: f"valid in 0 frames before and 8 after; {needed}; its heading has just jumped",
        6: f"valid in 0 frames before and 8 after; {needed}; its size has just jumped",
    }
    assert content.mask.is_in_mask[rows].tolist() == [True, False, False, False, False, False]
    assert not content.mask.is_in_mask[agents.rows_of(9)].any()
    assert content.mask.is_in_mask[agents.rows_of(10)].tolist() == [True, False, False, True, True, True]
    assert not content.mask.is_in_mask[agents.rows_of(23)].any()


def test_the_rule_is_the_one_of_the_agent_dataset(agent_dataset):
    assert agent_dataset._rule == MASK_RULE


@pytest.mark.parametrize("seed", range(4))
def test_random_scenes_have_the_mask_of_the_agent_dataset(city_files, seed):
    made = random_dataset(np.random.default_rng(seed), 3, max_frames=40, min_frames=12)
    samples = AgentDataset(sample_config(city_files, map_kind="box", form=SampleForm(), step_time_s=0.1), made, None)
    for index in range(len(made.scenes)):
        mask = read_scene_content(made, index, map_api=None).mask
        told = [
            explained
            for frame in range(*made.scenes[index]["frame_index_interval"].tolist())
            for explained in samples.explain_frame(frame)
        ]
        assert [explained.is_included for explained in told] == mask.is_in_mask.tolist()
        assert [explained.reason for explained in told] == [mask.reasons[index] for index in mask.reason_indices]


# Lights

FACES = {
    "none": ({}, {}),
    "off": ({"R": 0, "G": 0}, {}),
    "green controls two lanes": ({"G": 1}, {0: GREEN, 1: GREEN}),
    "yellow before green": ({"G": 1, "Y": 1}, {0: YELLOW, 1: GREEN}),
    "red before yellow": ({"Y": 1, "R": 1}, {0: RED}),
    "red before all, in another order": ({"R": 1, "Y": 1, "G": 1}, {0: RED, 1: GREEN}),
    "a face that the map does not have": ({"elsewhere": 1, "Y": 1}, {0: YELLOW}),
}


@pytest.mark.parametrize(("faces", "lights"), FACES.values(), ids=FACES.keys())
def test_lanes_show_the_colour_furthest_back(lit_map, faces, lights):
    content = read_scene_content(make_scene([NOBODY, NOBODY], [make_faces(), make_faces(**faces)]), 0, map_api=lit_map)
    rows = content.lights.rows_of(1)
    assert content.lights.rows_of(0) == slice(0, 0)
    assert dict(zip(content.lights.lanes[rows].tolist(), content.lights.colors[rows].tolist(), strict=True)) == lights
    assert len(content.lights.lanes[rows]) == len(lights)


def test_lights_are_those_that_the_rasterizer_draws(city_log, city_map, contents):
    """Truth: the faces that the semantic rasterizer finds, each lane with the highest rank of its faces."""
    lights, num_lit = city_map.arrays.lights, 0
    for scene_index, content in enumerate(contents):
        scene = city_log.get_scene_dataset(scene_index)
        starts, stops = scene.frames["traffic_light_faces_index_interval"].T
        active, ends = lights.find_active(WindowRows([scene.tl_faces], starts[:, None], stops[:, None]))
        for frame_index in range(content.num_frames):
            expected = {}
            for face in active[ends[frame_index] : ends[frame_index + 1]].tolist():
                for lane in lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]].tolist():
                    expected[lane] = max(expected.get(lane, 0), int(lights.ranks[face]) - 1)
            rows = content.lights.rows_of(frame_index)
            lanes, colors = content.lights.lanes[rows].tolist(), content.lights.colors[rows].tolist()
            assert dict(zip(lanes, colors, strict=True)) == expected
            assert len(lanes) == len(expected)
            num_lit += len(lanes)
    assert num_lit > 400
    assert {color for content in contents for color in content.lights.colors.tolist()} == {GREEN, YELLOW, RED}


def test_lights_are_those_of_the_pages_of_scenes(city_log, city_map, contents):
    layers, content, scene = MapLayers(city_map.arrays), contents[0], city_log.get_scene_dataset(0)
    bounds_m = city_map.bounds_info["lanes"]["bounds"]
    for frame_index in (0, 50, 99):
        faces = scene.tl_faces[slice(*scene.frames[frame_index]["traffic_light_faces_index_interval"])]
        tones = ["gray"] * len(bounds_m)
        rows = content.lights.rows_of(frame_index)
        for lane, color in zip(content.lights.lanes[rows], content.lights.colors[rows], strict=True):
            tones[lane] = LIGHT_TONES[LIGHT_COLORS[color]]
        center_m = bounds_m.mean(axis=(0, 1))
        near = [
            tone
            for tone, (low, high) in zip(tones, bounds_m, strict=True)
            if (low - 50 < center_m).all() and (center_m < high + 50).all()
        ]
        assert [lane.color for lane in layers.lanes_around(center_m, faces)] == near


def test_lanes_of_a_map_may_be_shared_and_no_map_means_no_lights(lit_map):
    log = make_scene([NOBODY], [make_faces(G=1)])
    controlled = ControlledLanes(lit_map.arrays)
    shared = read_scene_content(log, 0, map_api=lit_map, controlled=controlled)
    own = read_scene_content(log, 0, map_api=lit_map)
    assert shared.lights.lanes.tolist() == own.lights.lanes.tolist() == [0, 1]
    without = read_scene_content(log, 0, map_api=None).lights
    assert (without.starts.tolist(), len(without.lanes), len(without.colors)) == ([0, 0], 0, 0)


def test_a_dataset_of_three_arrays_has_no_lights(tmp_path, lit_map):
    made = random_dataset(np.random.default_rng(2), 2, max_faces=0)
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        opened = ChunkedDataset(write_three_arrays(made, tmp_path / "old.zarr")).open()
    content = read_scene_content(opened, 1, map_api=lit_map)
    assert not content.lights.starts.any()
    np.testing.assert_array_equal(content.agents.centroids_m, made.get_scene_dataset(1).agents["centroid"])


# The AV

WAYS = {
    "even": ([[0, 0], [1, 0], [2, 0]], [10, 10, 10]),
    "central differences": ([[0, 0], [1, 0], [3, 0], [6, 0]], [10, 15, 25, 30]),
    "along both axes": ([[0, 0], [3, 4]], [50, 50]),
    "there and back": ([[0, 0], [1, 0], [0, 0]], [10, 0, 10]),
    "one frame": ([[7, 7]], [0]),
}


@pytest.mark.parametrize(("positions_m", "speeds_mps"), WAYS.values(), ids=WAYS.keys())
def test_speeds_of_the_av_are_those_of_its_positions(positions_m, speeds_mps):
    log = make_scene([NOBODY] * len(positions_m), positions_m=positions_m)
    content = read_scene_content(log, 0, map_api=None)
    assert content.ego_speeds_mps == pytest.approx(speeds_mps)
    assert content.ego_speeds_mps.shape == (len(positions_m),)


def test_no_speed_comes_from_times_that_stand_still():
    log = make_scene([NOBODY] * 3)
    log.frames["timestamp"] = 5
    assert read_scene_content(log, 0, map_api=None).ego_speeds_mps.tolist() == [0, 0, 0]


@pytest.mark.parametrize("yaw_deg", [0, 30, 90, 179, -120])
def test_headings_of_the_av_are_counter_clockwise_from_x(yaw_deg):
    log = make_scene([NOBODY])
    log.frames["ego_rotation"] = yaw_as_rotation33(np.radians(yaw_deg))
    assert np.degrees(read_scene_content(log, 0, map_api=None).ego_yaws_rad) == pytest.approx([yaw_deg])


# Ends and damage


def test_a_scene_may_have_no_agents():
    content = read_scene_content(make_scene([NOBODY] * 3), 0, map_api=None)
    agents = content.agents
    assert agents.starts.tolist() == [0, 0, 0, 0]
    assert (len(agents.track_ids), content.mask.reasons, len(agents.labels)) == (0, (), 0)


def test_negative_scenes_count_from_the_end(city_log):
    assert read_scene_content(city_log, -1, map_api=None).scene_index == 2


def test_a_scene_that_is_not_there_is_an_error(city_log):
    with pytest.raises(InvalidArgumentError, match="3"):
        read_scene_content(city_log, 3, map_api=None)


def test_a_scene_without_a_frame_is_an_error():
    with pytest.raises(CorruptedDataError, match="scene 0 has no frames; l5kit validate"):
        read_scene_content(make_scene([]), 0, map_api=None)


@pytest.mark.parametrize(
    ("interval", "said"),
    [((0, 2), "start"), ((3, 1), "interval"), ((0, 99), "row"), ((-4, 3), "row")],
    ids=str,
)
def test_wrong_intervals_of_agents_are_errors(interval, said):
    log = make_scene([[make_agent(1)], [make_agent(1)], [make_agent(1)]])
    log.frames["agent_index_interval"][1] = interval
    with pytest.raises(CorruptedDataError, match=said):
        read_scene_content(log, 0, map_api=None)


@pytest.mark.parametrize("name", ["frames", "agents"])
def test_a_damaged_chunk_is_named(tmp_path, name):
    made = random_dataset(np.random.default_rng(3), 6, min_frames=4)
    path = write_with_chunks(made, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / name / "1").write_bytes(b"\0" * 300)
    opened = ChunkedDataset(path).open()
    outcomes = []
    for index in range(len(made.scenes)):
        try:
            read_scene_content(opened, index, map_api=None)
            outcomes.append("")
        except CorruptedDataError as error:
            outcomes.append(str(error))
    assert "" in outcomes
    assert any(outcomes)
    assert all(f"a.zarr/{name}/1" in text for text in outcomes if text)


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_not_finite_stay_where_they_are():
    log = make_scene([[make_agent(1, (np.nan, 0.0)), make_agent(2, (2.0, 1.0))]] * 3)
    log.frames["ego_translation"][1] = np.nan
    content = read_scene_content(log, 0, map_api=None)
    assert np.isnan(content.agents.centroids_m[::2, 0]).all()
    assert content.agents.centroids_m[1::2].tolist() == [[2.0, 1.0]] * 3
    assert np.isnan(content.ego_positions_m[1]).all()
    assert not content.mask.is_in_mask.any()


def test_arrays_that_do_not_fit_together_are_refused():
    agents = read_scene_content(eventful_scene(), 0, map_api=None).agents
    with pytest.raises(CorruptedDataError, match=r"needs 3 rows in each array, got \{'lanes': 2\}"):
        LaneLightRows(np.array([0, 3], np.int32), np.zeros(2, np.int32), np.zeros(3, np.uint8))
    with pytest.raises(CorruptedDataError, match="yaws_rad"):
        AgentRows(**{**vars(agents), "yaws_rad": agents.yaws_rad[1:]})
    with pytest.raises(CorruptedDataError, match=r"needs 2 rows in each array, got .*'reason_indices': 3"):
        MaskVerdicts(np.zeros(2, np.bool_), (), np.zeros(3, np.int32))
