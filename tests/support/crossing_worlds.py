"""Worlds for drivers of agents that can be computed by hand: two roads that cross, and two lanes side by side."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from l5kit.data import (
    PERCEPTION_LABEL_TO_INDEX,
    FaceRows,
    SceneArrays,
    Tracks,
    label_probabilities_of,
    spans_as_mask,
)
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from support.driving import straight_lane
from support.maps import WORLD_TO_ECEF

STEP_S = 0.1
SIZE_M = (4.0, 2.0, 1.5)


def crossing_map(folder: Path) -> RoadMap:
    """Two lanes of 4 m that cross at the origin, ``east`` along x and ``north`` along y, each from -150 to 250 m."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("east", *straight_lane((-150, 0), (250, 0)), parent="to the east")
    builder.add_lane("north", *straight_lane((0, -150), (0, 250)), parent="to the north")
    return _saved(builder, folder)


def lit_crossing_map(folder: Path) -> RoadMap:
    """The same roads; ``north`` has a light whose line is at y = -12, before the junction with its face ``red``."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("east", *straight_lane((-150, 0), (250, 0)), parent="to the east")
    builder.add_lane("before", *straight_lane((0, -150), (0, -12)), parent="to the north", lanes_ahead=["north"])
    inside = straight_lane((0, -12), (0, 250))
    builder.add_lane("north", *inside, parent="junction", traffic_controls=["lamp", "red"])
    builder.add_junction("junction", lanes=["north"])
    builder.add_traffic_light("lamp", np.array([3.0, -12.0, 4.0]))
    builder.add_traffic_light_face("red", "signal_red_face")
    return _saved(builder, folder)


def two_lane_map(folder: Path, *, in_junction: Sequence[str] = ()) -> RoadMap:
    """Two lanes of 4 m along x, ``right`` at y = 0 and ``left`` at y = 4, from 0 to 400 m; one may change both ways."""
    builder = MapBuilder(WORLD_TO_ECEF)
    parents = {lane: "junction" if lane in in_junction else "road" for lane in ("right", "left")}
    builder.add_lane("right", *straight_lane((0, 0), (400, 0)), change_left="left", parent=parents["right"])
    builder.add_lane("left", *straight_lane((0, 4), (400, 4)), change_right="right", parent=parents["left"])
    if in_junction:
        builder.add_junction("junction", lanes=in_junction)
    return _saved(builder, folder)


def _saved(builder: MapBuilder, folder: Path) -> RoadMap:
    builder.save(folder / "map.pb")
    return RoadMap(MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF))


def moving(start: tuple[float, float], speed_mps: float, yaw_rad: float = 0.0, *, label: str = "CAR") -> dict:
    """A vehicle that drives straight on in the log."""
    return {"start": start, "speed": speed_mps, "yaw": yaw_rad, "label": label}


def batch_of(
    road: RoadMap,
    av: dict,
    agents: Sequence[dict],
    *,
    num_frames: int = 150,
    scene: int = 0,
    faces: FaceRows | None = None,
) -> SceneBatch:
    """A scene with an AV and agents, whose tracks are 1, 2, ... in their order, and the faces of lights."""
    times_s = STEP_S * np.arange(num_frames)

    def line(each: dict) -> np.ndarray:
        heading = np.array([np.cos(each["yaw"]), np.sin(each["yaw"])])
        return np.asarray(each["start"], float) + each["speed"] * times_s[:, None] * heading

    ones = np.ones(num_frames)
    labels = [PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{each['label']}"] for each in agents]
    tracks = Tracks(
        track_ids=np.arange(1, len(agents) + 1),
        is_valid=spans_as_mask([(0, num_frames)] * len(agents), num_frames),
        positions_m=np.stack([line(each) for each in agents]),
        headings_rad=np.stack([each["yaw"] * ones for each in agents]),
        velocities_mps=np.stack(
            [np.outer(ones, each["speed"] * np.array([np.cos(each["yaw"]), np.sin(each["yaw"])])) for each in agents]
        ),
        sizes_m=np.array([SIZE_M] * len(agents)),
        label_probabilities=label_probabilities_of(labels),
    )
    cos, sin = np.cos(av["yaw"]), np.sin(av["yaw"])
    rotation = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    arrays = SceneArrays(
        host="made",
        timestamps_ns=1_600_000_000_000_000_000 + np.arange(num_frames) * 100_000_000,
        ego_positions_m=np.column_stack([line(av), np.zeros(num_frames)]),
        ego_rotations=np.broadcast_to(rotation, (num_frames, 3, 3)).copy(),
        agents=tracks.to_agent_rows(),
        tl_faces=FaceRows.none(num_frames) if faces is None else faces,
    )
    return SceneBatch.of_scenes([arrays.to_records()], scene_indices=[scene], road=road)


def always_on(face: str, light: str, num_frames: int = 150) -> FaceRows:
    """A face of a light that is on in all frames."""
    ones = np.ones(num_frames)
    return FaceRows(
        starts=np.arange(num_frames + 1, dtype=np.int32),
        face_ids=np.full(num_frames, face, "<U16"),
        light_ids=np.full(num_frames, light, "<U16"),
        statuses=np.column_stack([ones, 0 * ones, 0 * ones]).astype(np.float32),
    )


def boxes_of(records, track: int) -> np.ndarray:
    """World x, y, yaw, length and width of a track in each frame, (F, 5), NaN where it is not there."""
    boxes = np.full((len(records.frames), 5), np.nan)
    for frame, (first, stop) in enumerate(records.frames["agent_index_interval"].tolist()):
        rows = records.agents[first:stop]
        for row in rows[rows["track_id"] == track]:
            boxes[frame] = (*row["centroid"], row["yaw"], *row["extent"][:2])
    return boxes


def av_boxes_of(records) -> np.ndarray:
    """Those of the AV."""
    rotations = records.frames["ego_rotation"]
    yaws = np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])
    sizes = np.broadcast_to((4.87, 1.85), (len(yaws), 2))
    return np.column_stack([records.frames["ego_translation"][:, :2], yaws, sizes])
