"""A road that can be computed by hand, and scenes of an AV that drives along it, for tests of edits."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from l5kit.data import (
    PERCEPTION_LABEL_TO_INDEX,
    FaceRows,
    LogFacts,
    MapAPI,
    SceneArrays,
    Tracks,
    label_probabilities_of,
    spans_as_mask,
    write_log,
)
from l5kit.data.map.builder import MapBuilder
from l5kit.editing import SceneSetting
from support.driving import make_road_map, straight_lane
from support.maps import WORLD_TO_ECEF

FACTS = LogFacts(ego_extent_m=(4.0, 2.0, 1.5))
"""An AV of 4 x 2 m."""

NUM_FRAMES = 60
STEP_NS = 100_000_000


def fork_setting(folder: Path, *, seed: int = 0) -> SceneSetting:
    """The setting of :func:`support.driving.make_road_map`: two lanes along x, and a fork at x = 100."""
    make_road_map(folder)
    return SceneSetting.on(MapAPI(str(folder / "road.pb"), WORLD_TO_ECEF), facts=FACTS, seed=seed)


def lit_setting(folder: Path) -> SceneSetting:
    """The setting of a road along x whose light, of the faces ``red`` and ``green``, has its line at x = 60."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("before", *straight_lane((-50, 0), (60, 0)), parent="road", lanes_ahead=["inside"])
    inside = straight_lane((60, 0), (300, 0))
    builder.add_lane("inside", *inside, parent="junction", traffic_controls=["lamp", "red", "green"])
    builder.add_junction("junction", lanes=["inside"])
    builder.add_traffic_light("lamp", np.array([62.0, 3.0, 4.0]), faces=["red", "green"])
    builder.add_traffic_light_face("red", "signal_red_face")
    builder.add_traffic_light_face("green", "signal_green_face")
    builder.save(folder / "lit.pb")
    return SceneSetting.on(MapAPI(str(folder / "lit.pb"), WORLD_TO_ECEF), facts=FACTS)


def drive_ahead(
    *,
    speed_mps: float = 10.0,
    start_m: Sequence[float] = (10.0, 0.0),
    others: Sequence[dict] = (),
    num_frames: int = NUM_FRAMES,
    faces: FaceRows | None = None,
) -> SceneArrays:
    """A scene whose AV drives along x; agents are dicts of ``start``, ``speed``, ``label``, ``span`` and ``size``."""
    times_s = 0.1 * np.arange(num_frames)

    def line(start: Sequence[float], speed: float) -> np.ndarray:
        return np.asarray(start, float) + np.outer(times_s * speed, [1.0, 0.0])

    labels = [PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{each.get('label', 'CAR')}"] for each in others]
    size = len(others)
    tracks = Tracks(
        track_ids=np.arange(1, size + 1),
        is_valid=spans_as_mask([each.get("span", (0, num_frames)) for each in others], num_frames),
        positions_m=np.array([line(each["start"], each.get("speed", 0.0)) for each in others]).reshape(
            size, num_frames, 2
        ),
        headings_rad=np.zeros((size, num_frames)),
        velocities_mps=np.array([np.tile((each.get("speed", 0.0), 0.0), (num_frames, 1)) for each in others]).reshape(
            size, num_frames, 2
        ),
        sizes_m=np.array([each.get("size", (4.0, 2.0, 1.5)) for each in others]).reshape(size, 3),
        label_probabilities=label_probabilities_of(labels),
    )
    return SceneArrays(
        host="made",
        timestamps_ns=1_600_000_000_000_000_000 + np.arange(num_frames) * STEP_NS,
        ego_positions_m=np.column_stack([line(start_m, speed_mps), np.full(num_frames, 3.0)]),
        ego_rotations=np.broadcast_to(np.eye(3), (num_frames, 3, 3)).copy(),
        agents=tracks.to_agent_rows(),
        tl_faces=FaceRows.none(num_frames) if faces is None else faces,
    )


def track_of(scene: SceneArrays, track: int) -> dict[str, np.ndarray]:
    """Frames, positions, headings, velocities and sizes of a track of a scene."""
    agents = scene.agents
    rows = np.flatnonzero(agents.track_ids == track)
    frames = np.repeat(np.arange(scene.num_frames), np.diff(agents.starts))[rows]
    return {
        "frames": frames,
        "xy": agents.centroids_m[rows],
        "yaw": agents.yaws_rad[rows],
        "v": agents.velocities_mps[rows],
        "size": agents.extents_m[rows],
        "label": agents.labels[rows],
    }


def save_dataset(folder: Path, setting: SceneSetting, scenes: Sequence[SceneArrays]) -> Path:
    """Write a dataset folder with scenes on the map of a setting, and return it."""
    for name in ("scenes", "semantic_map"):
        (folder / name).mkdir(parents=True)
    shutil.copyfile(setting.map_api.protobuf_map_path, folder / "semantic_map" / "semantic_map.pb")
    (folder / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    facts = dataclasses.replace(FACTS, sources=[{"dataset": "made"}])
    with write_log(folder / "scenes" / "sample.zarr", facts=facts) as writer:
        for scene in scenes:
            writer.append(scene)
    return folder
