"""The data of the page gives scene and map back, to the millimetre."""

import dataclasses

import numpy as np
import pytest

from l5kit.data import PERCEPTION_LABELS, MapAPI
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.builder import MapBuilder
from l5kit.visualization.map_shapes import MapShapes, Outlines, read_map_shapes
from l5kit.visualization.scene_content import read_scene_content
from l5kit.visualization.viewer.content_bytes import map_bytes, scene_bytes
from support.logs import make_agent, make_agents, make_faces, make_scene
from support.maps import WORLD_TO_ECEF
from support.tolerances import FLOAT32, FLOAT32_LONG

MM = 1e-3
NOBODY = make_agents()


@pytest.fixture(scope="module")
def content(city_log, city_map):
    """A scene of the city with lights."""
    contents = [read_scene_content(city_log, index, map_api=city_map) for index in range(3)]
    return max(contents, key=lambda content: len(content.lights.lanes))


@pytest.fixture(scope="module")
def shapes(city_map):
    return read_map_shapes(city_map.arrays)


def test_a_scene_comes_back(content, unpack):
    facts, arrays = vars(unpack(scene_bytes(content))).values()
    origin_m, agents = np.array(facts["origin_m"]), content.agents
    assert facts["scene_index"] == content.scene_index
    assert (facts["num_frames"], facts["host"]) == (100, content.host)
    assert facts["start_time_ns"] == str(int(content.timestamps_ns[0]))
    assert facts["ego_size_m"] == [4.87, 1.85]
    assert facts["labels"] == list(PERCEPTION_LABELS)
    assert facts["mask"] == {"threshold": 0.5, "distance_av_m": 50, "min_frame_history": 10, "min_frame_future": 1}
    np.testing.assert_allclose(arrays["time_s"], content.times_s, atol=FLOAT32_LONG)
    np.testing.assert_allclose(arrays["ego_xy"] + origin_m, content.ego_positions_m[:, :2], atol=MM)
    np.testing.assert_allclose(arrays["ego_yaw"], content.ego_yaws_rad, atol=FLOAT32)
    np.testing.assert_allclose(arrays["ego_speed"], content.ego_speeds_mps, rtol=FLOAT32)
    np.testing.assert_allclose(arrays["agent_xy"] + origin_m, agents.centroids_m, atol=MM)
    np.testing.assert_array_equal(arrays["agent_starts"], agents.starts)
    np.testing.assert_array_equal(arrays["agent_yaw"], agents.yaws_rad)
    np.testing.assert_array_equal(arrays["agent_extent"], agents.extents_m)
    np.testing.assert_array_equal(arrays["agent_velocity"], agents.velocities_mps)
    np.testing.assert_array_equal(arrays["agent_label"], agents.labels)
    np.testing.assert_array_equal(arrays["agent_probabilities"], agents.label_probabilities)
    np.testing.assert_array_equal(arrays["agent_in_mask"], content.mask.is_in_mask)
    assert [facts["track_ids"][track] for track in arrays["agent_track"]] == [str(i) for i in agents.track_ids.tolist()]
    assert [facts["reasons"][row] for row in arrays["agent_reason"]] == [
        content.mask.reasons[i] for i in content.mask.reason_indices
    ]
    np.testing.assert_array_equal(arrays["light_starts"], content.lights.starts)
    np.testing.assert_array_equal(arrays["light_lanes"], content.lights.lanes)
    np.testing.assert_array_equal(arrays["light_colors"], content.lights.colors)


def test_types_and_shapes_are_those_the_page_reads(content, unpack):
    num_agents, num_lights = len(content.agents.track_ids), len(content.lights.lanes)
    arrays = unpack(scene_bytes(content)).arrays
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "time_s": ("float32", (100,)),
        "ego_xy": ("float32", (100, 2)),
        "ego_yaw": ("float32", (100,)),
        "ego_speed": ("float32", (100,)),
        "agent_starts": ("uint32", (101,)),
        "agent_track": ("uint32", (num_agents,)),
        "agent_xy": ("float32", (num_agents, 2)),
        "agent_yaw": ("float32", (num_agents,)),
        "agent_extent": ("float32", (num_agents, 3)),
        "agent_velocity": ("float32", (num_agents, 2)),
        "agent_label": ("uint8", (num_agents,)),
        "agent_probabilities": ("float32", (num_agents, 17)),
        "agent_in_mask": ("uint8", (num_agents,)),
        "agent_reason": ("uint32", (num_agents,)),
        "light_starts": ("uint32", (101,)),
        "light_lanes": ("uint32", (num_lights,)),
        "light_colors": ("uint8", (num_lights,)),
    }


@pytest.mark.parametrize("shift_m", [(0.0, 0.0), (500_000.0, -500_000.0), (-4e6, 4e6)], ids=str)
def test_positions_are_exact_far_from_the_origin_of_the_world(content, unpack, shift_m):
    shifted = dataclasses.replace(
        content,
        ego_positions_m=content.ego_positions_m + np.array([*shift_m, 0.0]),
        agents=dataclasses.replace(content.agents, centroids_m=content.agents.centroids_m + shift_m),
    )
    unpacked = unpack(scene_bytes(shifted))
    origin_m = np.array(unpacked.facts["origin_m"])
    assert np.abs(unpacked.arrays["agent_xy"] + origin_m - shifted.agents.centroids_m).max() < MM
    assert np.abs(unpacked.arrays["ego_xy"] + origin_m - shifted.ego_positions_m[:, :2]).max() < MM
    assert np.abs(origin_m - shifted.ego_positions_m[:, :2].mean(axis=0)).max() < 1000


@pytest.mark.parametrize("shift_m", [500_000.0, -4e6], ids=str)
def test_maps_are_exact_far_from_the_origin_of_the_world(shapes, unpack, shift_m):
    lanes, crosswalks = (
        Outlines(outlines.starts, outlines.points_m + shift_m, outlines.bounds_m + shift_m)
        for outlines in (shapes.lanes, shapes.crosswalks)
    )
    unpacked = unpack(map_bytes(MapShapes(lanes, shapes.lane_left_counts, crosswalks)))
    origin_m = np.array(unpacked.facts["origin_m"])
    assert np.abs(unpacked.arrays["lane_xy"] + origin_m - lanes.points_m).max() < MM
    assert np.abs(unpacked.arrays["crosswalk_xy"] + origin_m - crosswalks.points_m).max() < MM


@pytest.mark.parametrize("damaged_m", [np.nan, np.inf, 1e30, -1e8, 1.7e308, -1.7e308], ids=str)
@pytest.mark.filterwarnings("error")
def test_a_damaged_position_spoils_no_other(unpack, damaged_m):
    log = make_scene(
        [make_agents(make_agent(1, (k + 5e5 + 0.123, 7.0)), make_agent(2, (damaged_m, 0))) for k in range(9)]
    )
    log.frames["ego_translation"][:, 0] += 5e5
    log.frames["ego_translation"][4, :2] = damaged_m
    unpacked = unpack(scene_bytes(read_scene_content(log, 0, map_api=None)))
    origin_m = np.array(unpacked.facts["origin_m"])
    assert np.abs(unpacked.arrays["agent_xy"][::2] + origin_m - log.agents["centroid"][::2]).max() < MM
    expected = log.frames["ego_translation"][:, :2]
    np.testing.assert_allclose((unpacked.arrays["ego_xy"] + origin_m)[[0, 3, 5, 8]], expected[[0, 3, 5, 8]], atol=MM)


@pytest.mark.parametrize(
    "positions_m", [[[np.nan, 0], [0, np.inf]], [[1.7e308, 0], [1.7e308, 0]], [[-1.7e308, 0], [1.7e308, 0]]], ids=str
)
@pytest.mark.filterwarnings("error")
def test_a_scene_whose_positions_all_cannot_be_has_an_origin(unpack, positions_m):
    log = make_scene([make_agents(make_agent(1, (-1.7e308, 1.7e308)))] * 2, positions_m=positions_m)
    assert unpack(scene_bytes(read_scene_content(log, 0, map_api=None))).facts["origin_m"] == [0, 0]


@pytest.mark.filterwarnings("error")
def test_a_map_that_lies_nowhere_has_an_origin(shapes, unpack):
    nowhere = Outlines(shapes.lanes.starts, np.full_like(shapes.lanes.points_m, 1.7e308), shapes.lanes.bounds_m)
    unpacked = unpack(map_bytes(MapShapes(nowhere, shapes.lane_left_counts, shapes.crosswalks)))
    assert unpacked.facts["origin_m"] == [0, 0]


def test_the_av_is_as_large_as_its_log_says(unpack):
    log = make_scene([make_agents()], facts=LogFacts((8.5, 2.5, 3.0)))
    assert unpack(scene_bytes(read_scene_content(log, 0, map_api=None))).facts["ego_size_m"] == [8.5, 2.5]


def test_track_ids_have_all_their_digits(unpack):
    ids = [2**53 + 1, 2**53, 2**64 - 1, 3]
    log = make_scene([make_agents(*(make_agent(track_id) for track_id in ids))])
    unpacked = unpack(scene_bytes(read_scene_content(log, 0, map_api=None)))
    assert unpacked.facts["track_ids"] == ["3", "9007199254740992", "9007199254740993", "18446744073709551615"]
    assert unpacked.arrays["agent_track"].tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("host", ["</script>", "\"'&<b>", "a\u2028b", "\ud800x", "ä\U0001f697", ""], ids=ascii)
def test_any_host_comes_back(unpack, host):
    log = make_scene([NOBODY])
    log.scenes["host"] = host
    found = unpack(scene_bytes(read_scene_content(log, 0, map_api=None))).facts["host"]
    assert found == host.replace("\ud800", "\ufffd")


def test_a_scene_without_agents_and_lights(unpack):
    unpacked = unpack(scene_bytes(read_scene_content(make_scene([NOBODY] * 2), 0, map_api=None)))
    assert unpacked.facts["track_ids"] == unpacked.facts["reasons"] == []
    assert unpacked.arrays["agent_starts"].tolist() == unpacked.arrays["light_starts"].tolist() == [0, 0, 0]
    assert unpacked.arrays["agent_probabilities"].shape == (0, 17)


# Lights of a part of the map

FACES = [make_faces(), make_faces(G=1), make_faces(R=1), make_faces(R=1, G=1)]
PARTS = {
    "all": (None, [0, 0, 2, 3, 5], [0, 1, 0, 1, 0]),
    "the same": ([0, 1, 2, 3, 4], [0, 0, 2, 3, 5], [0, 1, 0, 1, 0]),
    "the second lane, now the first": ([1, 2], [0, 0, 1, 1, 2], [0, 0]),
    "the first lane": ([0, 4], [0, 0, 1, 2, 3], [0, 0, 0]),
    "neither": ([2, 3], [0, 0, 0, 0, 0], []),
    "none": ([], [0, 0, 0, 0, 0], []),
}


@pytest.mark.parametrize(("lanes", "starts", "numbers"), PARTS.values(), ids=PARTS.keys())
def test_lights_count_the_lanes_that_the_map_holds(lit_map, unpack, lanes, starts, numbers):
    content = read_scene_content(make_scene([NOBODY] * 4, FACES), 0, map_api=lit_map)
    kept = None if lanes is None else np.array(lanes, dtype=np.int64)
    arrays = unpack(scene_bytes(content, lane_indices=kept)).arrays
    assert arrays["light_starts"].tolist() == starts
    assert sorted(arrays["light_lanes"].tolist()) == sorted(numbers)
    whole = unpack(scene_bytes(content)).arrays
    for frame in range(4):
        told = {
            int(lane) if lanes is None else lanes[lane]: int(color)
            for lane, color in zip(
                arrays["light_lanes"][starts[frame] : starts[frame + 1]],
                arrays["light_colors"][starts[frame] : starts[frame + 1]],
                strict=True,
            )
        }
        rows = slice(whole["light_starts"][frame], whole["light_starts"][frame + 1])
        of_all = dict(zip(whole["light_lanes"][rows].tolist(), whole["light_colors"][rows].tolist(), strict=True))
        assert told == {lane: color for lane, color in of_all.items() if lanes is None or lane in lanes}


# Maps


def test_a_map_comes_back(shapes, unpack):
    facts, arrays = vars(unpack(map_bytes(shapes))).values()
    assert (facts["num_lanes"], facts["num_crosswalks"]) == (len(shapes.lanes), len(shapes.crosswalks))
    np.testing.assert_array_equal(arrays["lane_starts"], shapes.lanes.starts)
    np.testing.assert_array_equal(arrays["lane_left_counts"], shapes.lane_left_counts)
    np.testing.assert_array_equal(arrays["crosswalk_starts"], shapes.crosswalks.starts)
    np.testing.assert_allclose(arrays["lane_xy"] + facts["origin_m"], shapes.lanes.points_m, atol=MM)
    np.testing.assert_allclose(arrays["crosswalk_xy"] + facts["origin_m"], shapes.crosswalks.points_m, atol=MM)
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "lane_left_counts": "uint32",
        "lane_starts": "uint32",
        "lane_xy": "float32",
        "crosswalk_starts": "uint32",
        "crosswalk_xy": "float32",
    }


def test_a_map_of_nothing_and_one_of_crosswalks_only(tmp_path, unpack):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.save(tmp_path / "nothing.pb")
    builder.add_crosswalk("a", np.array([[9e3, 0, 0], [9e3 + 3, 0, 0], [9e3 + 3, 4, 0]]))
    builder.save(tmp_path / "crosswalk.pb")
    nothing, crosswalk = (
        unpack(map_bytes(read_map_shapes(MapAPI(str(tmp_path / name), WORLD_TO_ECEF).arrays)))
        for name in ("nothing.pb", "crosswalk.pb")
    )
    assert nothing.facts == {"origin_m": [0.0, 0.0], "num_lanes": 0, "num_crosswalks": 0}
    assert nothing.arrays["lane_xy"].shape == (0, 2)
    assert crosswalk.facts["origin_m"][0] == pytest.approx(9e3, abs=4)
    assert crosswalk.arrays["crosswalk_starts"].tolist() == [0, 3]
