"""Small log: three seconds with a map, just enough for every kind of sample, mask and map query."""

import json
from pathlib import Path

import numpy as np

from l5kit._types import Int64Array
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, TL_FACE_LABEL_TO_INDEX
from l5kit.data.map.builder import MapBuilder
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset

_NUM_FRAMES = 32
_START_NS = 1_600_000_000_000_000_000
_FRAME_PERIOD_NS = 100_000_000
_FACE, _LIGHT = "green", "light"
_LANE_WIDTH_M = 4.0

_WORLD_TO_ECEF = np.array(
    [[0.0, 0.0, 1.0, 6_378_137.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)
"""World frame with its origin where the equator meets the prime meridian."""


def write_small_log(folder: Path) -> DatasetFiles:
    """Write the small log, its map and its ``meta.json`` into an empty folder, in the published layout."""
    for name in ("scenes", "semantic_map"):
        (folder / name).mkdir()
    # a road of three straight lanes with points 10 m apart, the first controlled by a light; a crosswalk
    builder = MapBuilder(_WORLD_TO_ECEF)
    builder.add_traffic_light(_LIGHT, np.array([[60.0, 6.0, 5.0]]), faces=[_FACE])
    builder.add_traffic_light_face(_FACE, kind="signal_green_face")
    x_m = np.linspace(-60.0, 80.0, 15)
    for lane in range(3):
        sides_m = ((lane + 0.5) * _LANE_WIDTH_M, (lane - 0.5) * _LANE_WIDTH_M)
        left, right = (np.column_stack([x_m, np.full(len(x_m), y_m), np.zeros(len(x_m))]) for y_m in sides_m)
        builder.add_lane(f"lane {lane}", left, right, traffic_controls=[_LIGHT, _FACE] if lane == 0 else [])
    builder.add_crosswalk("crosswalk", np.array([[30.0, -3, 0], [34.0, -3, 0], [34.0, 9, 0], [30.0, 9, 0]]))
    builder.save(folder / "semantic_map" / "semantic_map.pb")
    meta = {"world_to_ecef": _WORLD_TO_ECEF.tolist(), "ecef_to_aerial": np.linalg.inv(_WORLD_TO_ECEF).tolist()}
    (folder / "meta.json").write_text(json.dumps(meta), "utf-8")

    # A scene in which the AV and two cars drive along the road and a pedestrian walks beside it. The pedestrian has no
    # logged velocity, so it is computed from the positions.
    times_s = np.arange(_NUM_FRAMES) / 10
    starts_m = np.array([(20.0, 0.0), (-5.0, _LANE_WIDTH_M), (15.0, -6.0)])
    velocities_mps = np.array([(8.0, 0.0), (9.0, 0.0), (1.0, 0.2)])
    labels = ("PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_PEDESTRIAN")
    num_tracks = len(starts_m)
    agents = np.zeros((_NUM_FRAMES, num_tracks), AGENT_DTYPE)
    agents["centroid"] = starts_m + times_s[:, None, None] * velocities_mps
    agents["velocity"][:, :2] = velocities_mps[:2]
    agents["extent"] = [(4.5, 1.9, 1.6), (4.5, 1.9, 1.6), (0.6, 0.6, 1.7)]
    agents["track_id"] = np.arange(1, num_tracks + 1)
    for track, label in enumerate(labels):
        agents["label_probabilities"][:, track, PERCEPTION_LABEL_TO_INDEX[label]] = 1.0
    faces = np.zeros(_NUM_FRAMES, TL_FACE_DTYPE)
    faces["face_id"], faces["traffic_light_id"] = _FACE, _LIGHT
    faces["traffic_light_face_status"][:, TL_FACE_LABEL_TO_INDEX["ACTIVE"]] = 1.0
    frames = np.zeros(_NUM_FRAMES, FRAME_DTYPE)
    frames["timestamp"] = _START_NS + np.arange(_NUM_FRAMES) * _FRAME_PERIOD_NS
    frames["agent_index_interval"] = _intervals(num_tracks)
    frames["traffic_light_faces_index_interval"] = _intervals(1)
    frames["ego_translation"][:, 0] = 8.0 * times_s
    frames["ego_rotation"] = np.eye(3)
    scenes = np.zeros(1, SCENE_DTYPE)
    scenes["frame_index_interval"], scenes["host"] = (0, _NUM_FRAMES), "host-a000"
    scenes["start_time"], scenes["end_time"] = _START_NS, frames["timestamp"][-1]
    log = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents.reshape(-1), tl_faces=faces)
    log.save(folder / "scenes" / "sample.zarr")
    return find_dataset_files(folder)


def _intervals(rows_per_frame: int) -> Int64Array:
    """Return the rows [start, end) of each frame, (F, 2)."""
    ends = rows_per_frame * np.arange(1, _NUM_FRAMES + 1)
    return np.column_stack([ends - rows_per_frame, ends])
