"""The names that trajdata imports from L5Kit exist, and read a synthetic city like trajdata does.

trajdata converts datasets into one form. It uses only the seven names below, at their paths of L5Kit 1.5: a reader of
logs and of maps, in world coordinates and without rasters.
"""

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.configs.config import load_metadata
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.data.map.api import InterpolationMethod, MapAPI
from l5kit.data.proto import road_network_pb2
from l5kit.geometry import rotation33_as_yaw
from support.cities import NUM_FRAMES, NUM_SCENES, small_city
from support.tolerances import FLOAT32

STEP_S = 0.1


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> LocalDataManager:
    folder = tmp_path_factory.mktemp("trajdata") / "city"
    small_city(folder)
    return LocalDataManager(str(folder))


@pytest.fixture(scope="module")
def log(city: LocalDataManager) -> ChunkedDataset:
    return ChunkedDataset(city.require("scenes/sample.zarr")).open()


@pytest.fixture(scope="module")
def map_api(city: LocalDataManager) -> MapAPI:
    metadata = load_metadata(city.require("meta.json"))
    return MapAPI(city.require("semantic_map/semantic_map.pb"), np.array(metadata["world_to_ecef"], dtype=np.float64))


@pytest.mark.parametrize("scene_index", range(NUM_SCENES))
def test_the_av_of_a_scene(log: ChunkedDataset, scene_index: int) -> None:
    """Positions and headings of all frames, and speeds from them."""
    scene = log.scenes[scene_index]
    start, end = scene["frame_index_interval"]
    frames = log.frames[start:end]
    assert len(frames) == NUM_FRAMES
    positions_m = frames["ego_translation"]
    yaws_rad = np.array([rotation33_as_yaw(frame["ego_rotation"]) for frame in frames])
    assert positions_m.shape == (NUM_FRAMES, 3)
    assert np.diff(frames["timestamp"]).tolist() == pytest.approx([STEP_S * 1e9] * (NUM_FRAMES - 1), rel=0.01)
    velocities_mps = np.diff(positions_m[:, :2], axis=0) / STEP_S
    speeds_mps = np.linalg.norm(velocities_mps, axis=1)
    moves = speeds_mps > 1.0
    directions_rad = np.arctan2(velocities_mps[moves, 1], velocities_mps[moves, 0])
    turns_rad = (directions_rad - yaws_rad[:-1][moves] + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(turns_rad).max(initial=0.0) < 0.2
    assert isinstance(str(scene["host"]), str)
    assert int(scene["start_time"]) <= int(scene["end_time"])


def test_the_agents_of_a_scene_by_track(log: ChunkedDataset) -> None:
    """One scene at a time, in memory; rows of a track are joined over the frames."""
    scene = log.get_scene_dataset(1)
    tracks: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for number, frame in enumerate(scene.frames):
        first, end = frame["agent_index_interval"]
        for agent in scene.agents[first:end]:
            label = int(np.argmax(agent["label_probabilities"]))
            tracks[int(agent["track_id"])].append((number, *agent["centroid"], agent["yaw"], *agent["extent"], label))
    assert sum(map(len, tracks.values())) == len(scene.agents)
    assert max(map(len, tracks.values())) == NUM_FRAMES
    for rows in tracks.values():
        assert len({row[0] for row in rows}) == len(rows)
        steps_m = [np.hypot(b[1] - a[1], b[2] - a[2]) for a, b in itertools.pairwise(rows)]
        assert max(steps_m, default=0.0) < 10.0


def test_the_lights_of_a_frame(log: ChunkedDataset, map_api: MapAPI) -> None:
    statuses = {}
    for frame in log.frames[:20]:
        for face in log.tl_faces[slice(*frame["traffic_light_faces_index_interval"])]:
            statuses[str(face["face_id"])] = int(np.argmax(face["traffic_light_face_status"]))
    assert statuses
    colors = {map_api.get_color_for_face(face_id).lower() for face_id in statuses}
    assert colors <= {"red", "green", "yellow"}
    assert all(map_api.is_traffic_face(face_id) for face_id in statuses)


def lanes_of(map_api: MapAPI) -> list[Any]:
    return [element for element in map_api if map_api.is_lane(element)]


def test_lanes_in_world_coordinates(map_api: MapAPI, log: ChunkedDataset) -> None:
    """Boundaries as they are, and the three lines of a lane resampled, by metre and to a number of points."""
    lanes = lanes_of(map_api)
    ids = map_api.bounds_info["lanes"]["ids"]
    assert [map_api.id_as_str(element.id) for element in lanes] == ids
    midlines = []
    for lane_id, bounds in zip(ids, map_api.bounds_info["lanes"]["bounds"], strict=True):
        coords = map_api.get_lane_coords(lane_id)
        points_m = np.concatenate([coords["xyz_left"], coords["xyz_right"]])
        np.testing.assert_allclose([points_m[:, :2].min(axis=0), points_m[:, :2].max(axis=0)], bounds, atol=FLOAT32)
        by_number = map_api.get_lane_as_interpolation(lane_id, 10, InterpolationMethod.INTER_ENSURE_LEN)
        assert [by_number[f"xyz_{side}"].shape for side in ("left", "right", "midlane")] == [(10, 3)] * 3
        by_metre = map_api.get_lane_as_interpolation(lane_id, 1.0, InterpolationMethod.INTER_METER)
        steps_m = np.linalg.norm(np.diff(by_metre["xyz_midlane"], axis=0), axis=1)
        np.testing.assert_allclose(steps_m, 1.0, atol=0.05)
        midlines.append(by_metre["xyz_midlane"][:, :2])
    all_points_m = np.concatenate(midlines)
    for frame in log.frames[::50]:  # the AV drives on one of them
        assert np.linalg.norm(all_points_m - frame["ego_translation"][:2], axis=1).min() < 3.0


def test_how_lanes_hang_together(map_api: MapAPI) -> None:
    """Lanes ahead, neighbours, parents and controls, from the messages themselves."""
    ids = set(map_api.bounds_info["lanes"]["ids"])
    num_ahead = num_beside = 0
    for element in lanes_of(map_api):
        assert element.HasField("element")
        assert element.element.HasField("lane")
        lane: Any = element.element.lane
        assert isinstance(lane, road_network_pb2.Lane)
        end_m = map_api.get_lane_coords(map_api.id_as_str(element.id))["xyz_left"][-1]
        for ahead in lane.lanes_ahead:
            lane_id = MapAPI.id_as_str(ahead)
            assert lane_id in ids
            assert np.linalg.norm(map_api.get_lane_coords(lane_id)["xyz_left"][0] - end_m) < 1.0
            num_ahead += 1
        for beside in (lane.adjacent_lane_change_left, lane.adjacent_lane_change_right):
            assert isinstance(beside, road_network_pb2.GlobalId)
            if beside.id:
                assert MapAPI.id_as_str(beside) in ids
                num_beside += 1
        parent = map_api[MapAPI.id_as_str(lane.parent_segment_or_junction)].element
        assert parent.HasField("segment") or parent.HasField("junction")
        assert all(MapAPI.id_as_str(control) for control in lane.traffic_controls)
    assert num_ahead > 0
    assert num_beside > 0


def test_crosswalks_in_world_coordinates(map_api: MapAPI) -> None:
    crosswalks = [element for element in map_api if map_api.is_crosswalk(element)]
    assert crosswalks
    for element in crosswalks:
        assert element.element.traffic_control_element.HasField("pedestrian_crosswalk")
        assert len(map_api.get_crosswalk_coords(map_api.id_as_str(element.id))["xyz"]) >= 3


def test_the_file_of_the_map_is_read_with_the_messages_alone(city: LocalDataManager, map_api: MapAPI) -> None:
    fragment: Any = road_network_pb2.MapFragment()
    fragment.ParseFromString(Path(city.require("semantic_map/semantic_map.pb")).read_bytes())
    assert len(fragment.elements) == len(map_api)
    kinds = {element.element.WhichOneof("element") for element in fragment.elements}
    assert {"lane", "segment", "junction", "traffic_control_element"} <= kinds
    lane = next(element.element.lane for element in fragment.elements if element.element.HasField("lane"))
    left = lane.left_boundary
    points_m = map_api.unpack_deltas_cm(
        left.vertex_deltas_x_cm, left.vertex_deltas_y_cm, left.vertex_deltas_z_cm, lane.geo_frame
    )
    lane_id = next(MapAPI.id_as_str(element.id) for element in lanes_of(map_api))
    np.testing.assert_array_equal(points_m, map_api.get_lane_coords(lane_id)["xyz_left"])
