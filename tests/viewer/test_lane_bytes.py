"""Lane data of the page besides outlines."""

from itertools import pairwise

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.visualization.viewer.content_bytes import lane_bytes
from support.maps import WORLD_TO_ECEF, lane_lines_m

ARC = np.linspace(0, np.pi / 2, 50)


def arc(radius_m):
    return np.stack([radius_m * np.cos(ARC), radius_m * np.sin(ARC), 0 * ARC], axis=1)


@pytest.fixture(scope="module")
def network_map(tmp_path_factory):
    """Lane ``a`` leads into ``bend`` and into a lane that the map does not have; ``b`` lies on its left."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_light("light", np.array([10.0, 0.0, 4.0]))
    builder.add_segment("street", np.zeros((2, 3)), lanes=["a", "b"], speed_limit_mps=12.5)
    controls = {"traffic_controls": ["light"]}
    builder.add_lane("b", *lane_lines_m(4.0), change_right="a", parent="street")
    builder.add_lane(
        "a", *lane_lines_m(0.0), change_left="b", lanes_ahead=["bend", "gone"], parent="street", **controls
    )
    builder.add_lane("bend", arc(12.0), arc(8.0))
    path = tmp_path_factory.mktemp("network") / "map.pb"
    builder.save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


def lists(arrays, name):
    starts = arrays[f"{name}_starts"]
    return [arrays[name][start:end].tolist() for start, end in pairwise(starts)]


def test_lanes_have_ids_limits_lengths_lights_and_neighbours(network_map, unpack):
    lanes = unpack(lane_bytes(network_map.arrays, network_map.network))
    assert lanes.facts == {"num_lanes": 3, "ids": ["b", "a", "bend", "gone"]}
    arrays = lanes.arrays
    assert arrays["limit_mps"].tolist() == pytest.approx([12.5, 12.5, np.nan], nan_ok=True)
    assert arrays["length_m"] == pytest.approx([40, 40, 10 * np.pi / 2], rel=1e-3)
    assert arrays["has_light"].tolist() == [0, 1, 0]
    assert arrays["left"].tolist() == [-1, 0, -1]
    assert arrays["right"].tolist() == [1, -1, -1]
    assert lists(arrays, "ahead") == [[], [2, 3], []]
    assert lists(arrays, "behind") == [[], [], [1]]


@pytest.mark.parametrize(
    ("numbers", "ids", "left", "ahead", "behind"),
    [
        ([1], ["a", "b", "bend", "gone"], [1], [[2, 3]], [[]]),
        ([0, 2], ["b", "bend", "a"], [-1, -1], [[], []], [[], [2]]),
        ([], [], [], [], []),
    ],
    ids=["one", "two", "none"],
)
def test_neighbours_beyond_some_lanes_have_ids_behind_theirs(network_map, unpack, numbers, ids, left, ahead, behind):
    chosen = np.array(numbers, np.int64)
    lanes = unpack(lane_bytes(network_map.arrays, network_map.network, lane_indices=chosen))
    assert lanes.facts == {"num_lanes": len(numbers), "ids": ids}
    assert lanes.arrays["left"].tolist() == left
    assert lists(lanes.arrays, "ahead") == ahead
    assert lists(lanes.arrays, "behind") == behind


def test_lanes_of_a_city_are_those_of_its_map(city_map, unpack):
    lanes, arrays = unpack(lane_bytes(city_map.arrays, city_map.network)), city_map.arrays
    ids = lanes.facts["ids"]
    for number in range(0, arrays.num_lanes, 17):
        lane_id = arrays.lane_ids[number]
        assert ids[number] == lane_id
        assert [ids[row] for row in lists(lanes.arrays, "ahead")[number]] == city_map.get_lanes_ahead(lane_id)
        assert [ids[row] for row in lists(lanes.arrays, "behind")[number]] == city_map.get_lanes_behind(lane_id)
        left = lanes.arrays["left"][number]
        assert (ids[left] if left >= 0 else None) == city_map.get_lane_left(lane_id)
        assert lanes.arrays["limit_mps"][number] == pytest.approx(city_map.get_lane_speed_limit(lane_id))


def test_some_lanes_of_a_city_keep_their_neighbours(city_map, unpack):
    chosen = np.arange(5, city_map.arrays.num_lanes, 7)
    lanes = unpack(lane_bytes(city_map.arrays, city_map.network, lane_indices=chosen))
    ids, ahead, behind = lanes.facts["ids"], lists(lanes.arrays, "ahead"), lists(lanes.arrays, "behind")
    for number, row in enumerate(chosen.tolist()):
        lane_id = city_map.arrays.lane_ids[row]
        assert [ids[row] for row in ahead[number]] == city_map.get_lanes_ahead(lane_id)
        assert [ids[row] for row in behind[number]] == city_map.get_lanes_behind(lane_id)
