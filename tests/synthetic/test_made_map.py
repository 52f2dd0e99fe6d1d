"""The semantic map of a synthetic city, read back."""

import json
from pathlib import Path

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.synthetic import CityFolder
from l5kit.synthetic.map_writer import build_map, lane_id
from l5kit.synthetic.road_network import CAR_CONNECTOR, CAR_LANE
from l5kit.synthetic.scene import GROUND_Z_M, build_town
from support.maps import WORLD_TO_ECEF

LANE_WIDTH_M = 3.5


@pytest.fixture(scope="module")
def semantic_map(city: CityFolder) -> MapAPI:
    world_to_ecef = np.array(json.loads(city.meta.read_text())["world_to_ecef"])
    return MapAPI(str(city.semantic_map), world_to_ecef)


@pytest.fixture(scope="module")
def lanes(semantic_map: MapAPI) -> list[str]:
    return list(semantic_map.bounds_info["lanes"]["ids"])


def test_map_holds_every_kind_of_element(semantic_map: MapAPI, lanes: list[str]) -> None:
    assert len(lanes) > 100
    assert len(semantic_map.bounds_info["crosswalks"]["ids"]) > 10
    kinds = [element.element.WhichOneof("element") for element in semantic_map]
    assert {"lane", "segment", "junction", "traffic_control_element"} == set(kinds)


def test_lanes_have_their_width_and_height(semantic_map: MapAPI, lanes: list[str]) -> None:
    for lane in lanes:
        coords = semantic_map.get_lane_coords(lane)
        width = np.hypot(*(coords["xyz_left"] - coords["xyz_right"])[:, :2].T)
        assert width.min() > 3.3
        assert width.max() < 3.7
        assert np.abs(coords["xyz_left"][:, 2] - GROUND_Z_M).max() < 0.02


def test_a_lane_that_nothing_leads_into_begins_as_a_point_and_has_its_width_after_15_m(tmp_path: Path) -> None:
    """Where a corner leads from a road of few lanes into one of more, the outer one of these has no predecessor."""
    town = build_town(260.0, seed=2)
    lanes = town.network.lanes
    build_map(town.plan, town.network, world_to_ecef=WORLD_TO_ECEF, ground_z_m=0.0).save(tmp_path / "town.pb")
    town_map = MapAPI(str(tmp_path / "town.pb"), WORLD_TO_ECEF)
    entered = set(lanes.to_lane[lanes.kind == CAR_CONNECTOR].tolist())
    widening = set()
    for lane in np.flatnonzero(lanes.kind == CAR_LANE).tolist():
        coords = town_map.get_lane_coords(lane_id(lane, 0))
        width_m = np.hypot(*(coords["xyz_left"] - coords["xyz_right"])[:, :2].T)
        far_m = np.hypot(*(coords["xyz_left"] - coords["xyz_left"][0])[:, :2].T)
        assert width_m[far_m > 15.5] == pytest.approx(LANE_WIDTH_M, abs=0.2)
        if width_m[0] < 0.5:
            widening.add(lane)
            assert (np.diff(width_m) > -0.02).all()
    assert widening
    assert not widening & entered


def test_lanes_ahead_begin_where_the_lane_ends(semantic_map: MapAPI, lanes: list[str]) -> None:
    for lane in lanes:
        ahead = semantic_map.get_lanes_ahead(lane)
        assert ahead
        end = semantic_map.get_lane_coords(lane)["xyz_left"][-1]
        for other in ahead:
            start = semantic_map.get_lane_coords(other)["xyz_left"][0]
            assert np.abs(end - start).max() < 0.3


def test_neighbours_share_a_boundary(semantic_map: MapAPI, lanes: list[str]) -> None:
    pairs = [(lane, semantic_map.get_lane_left(lane)) for lane in lanes]
    pairs = [(lane, left) for lane, left in pairs if left]
    assert pairs
    for lane, left in pairs:
        assert semantic_map.get_lane_right(left) == lane
        shared = semantic_map.get_lane_coords(lane)["xyz_left"] - semantic_map.get_lane_coords(left)["xyz_right"]
        assert np.abs(shared).max() < 0.05


def test_every_lane_has_a_speed_limit(semantic_map: MapAPI, lanes: list[str]) -> None:
    limits = {semantic_map.get_lane_speed_limit(lane) for lane in lanes if lane.startswith("l")}
    assert {round(limit, 1) for limit in limits if limit} >= {11.2, 15.6}


def test_lights_stand_at_lanes_and_their_faces_have_colours(semantic_map: MapAPI, lanes: list[str]) -> None:
    controlled = 0
    for lane in lanes:
        controls = semantic_map.get_lane_traffic_control_ids(lane)
        lights = [c for c in controls if semantic_map.is_traffic_light(c)]
        faces = [c for c in controls if semantic_map.is_traffic_face(c)]
        assert len(faces) == 3 * len(lights)
        controlled += bool(lights)
    assert controlled > 10


def test_recorded_faces_are_in_the_map_and_one_per_light_is_on(city: CityFolder, semantic_map: MapAPI) -> None:
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    faces = dataset.tl_faces[:]
    assert len(faces) > 0
    for face in np.unique(faces["face_id"]):
        assert semantic_map.get_color_for_face(str(face)) in ("RED", "YELLOW", "GREEN")
    status = faces["traffic_light_face_status"]
    assert {tuple(row) for row in status.tolist()} == {(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)}
    for frame in dataset.frames[::25]:
        rows = faces[slice(*frame["traffic_light_faces_index_interval"])]
        for light in np.unique(rows["traffic_light_id"]):
            assert rows["traffic_light_face_status"][rows["traffic_light_id"] == light][:, 0].sum() == 1.0


def test_av_drives_on_lanes_of_the_map(city: CityFolder, semantic_map: MapAPI) -> None:
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    for place in dataset.frames[::20]["ego_translation"]:
        _, distance_m = semantic_map.get_nearest_lane(place[:2])
        assert distance_m < 0.5
