"""Made drives: the AV and road users along a few poses, for tests of scores of driving."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers
from l5kit.evaluation.driving.scene_states import ego_states_of_poses
from l5kit.lanes.driving_map import DrivingMap, build_driving_map
from l5kit.lanes.path_positions import follow_routes, follow_tracks
from support.maps import WORLD_TO_ECEF

BODY = EgoBody(length_m=4.0, width_m=2.0, rear_axle_to_centre_m=1.0)
STEP_S = 0.1
LIMIT_MPS = 10.0
LINE_M = 150.0
"""Speed limit of a road with a light, and the position of the light."""


def straight_drive(
    num_frames: int,
    *,
    speed_mps: float = 10.0,
    start_m: Sequence[float] = (0.0, 0.0),
    yaw_rad: float = 0.0,
    course_rad: float | None = None,
) -> EgoStates:
    """Return one scene of the AV, 4 x 2 m, with one speed; it moves along its heading unless given a course."""
    course = yaw_rad if course_rad is None else course_rad
    ways_m = speed_mps * STEP_S * np.arange(num_frames)[:, None]
    positions_m = np.array(start_m, float) + ways_m * [np.cos(course), np.sin(course)]
    return drive_along(positions_m, np.full(num_frames, yaw_rad))


def drive_along(positions_m: Any, yaws_rad: Any) -> EgoStates:
    """Return one scene of the AV at poses, (F, 2) and (F,), ten times a second."""
    yaws = np.array(yaws_rad, float)
    times_s = STEP_S * np.arange(len(yaws))
    return ego_states_of_poses(np.array(positions_m, float)[None], yaws[None], timestamps_s=times_s[None], body=BODY)


def stacked(*drives: EgoStates) -> EgoStates:
    """Return scenes of different lengths as one batch; frames that are not there hold NaN."""
    longest = max(drive.is_there.shape[1] for drive in drives)

    def padded(name: str, fill: Any) -> Any:
        parts = [getattr(drive, name)[0] for drive in drives]
        rows = [np.pad(p, [(0, longest - len(p)), *[(0, 0)] * (p.ndim - 1)], constant_values=fill) for p in parts]
        return np.stack(rows)

    names = ("timestamps_s", "positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2")
    return EgoStates(
        **{name: padded(name, np.nan) for name in names}, is_there=padded("is_there", False), body=drives[0].body
    )


def road_users_at(frames: Sequence[Sequence[dict[str, Any]]]) -> RoadUsers:
    """Return road users given for each frame of all scenes: ``track``, ``at``, and ``yaw``, ``size``, ``v``, ``group``.

    By default a stationary car of 4 x 2 m along x.
    """
    rows = [row for frame in frames for row in frame]
    yaws = [row.get("yaw", 0.0) for row in rows]
    sizes = [row.get("size", (4.0, 2.0)) for row in rows]
    return RoadUsers(
        starts=np.cumsum([0, *map(len, frames)]),
        tracks=np.array([row.get("track", 0) for row in rows], np.int64),
        groups=np.array([row.get("group", RoadUserGroup.VEHICLE) for row in rows], np.int64),
        labels=np.array([row.get("label", -1) for row in rows], np.int64),
        boxes=np.array([(*row["at"], yaw, *size) for row, yaw, size in zip(rows, yaws, sizes, strict=True)]).reshape(
            -1, 5
        ),
        velocities_mps=np.array([row.get("v", (0.0, 0.0)) for row in rows], float).reshape(-1, 2),
    )


ROAD_LANES = ("right", "left", "straight", "turn", "east", "north")
"""Rows of the lanes of :func:`make_road_map`."""


def make_road_map(folder: Path) -> DrivingMap:
    """Return a road of two lanes along x that ends at a junction, from which one gets on to the east and to the north.

    The lanes are 4 m wide. ``right`` and ``left`` go from x = 0 to 100 around y = 0 and 4; from ``right`` one gets on
    over ``straight`` to ``east`` (x = 120 to 220) and over ``turn``, a quarter of a circle of 20 m, to ``north``
    (x = 120, y = 20 to 100). Limits are 10 m/s on the road, 20 to the east and none to the north. A crosswalk is at
    x = 50 to 54, y = -10 to 10.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("right", *straight_lane((0, 0), (100, 0)), lanes_ahead=["straight", "turn"], parent="road")
    builder.add_lane("left", *straight_lane((0, 4), (100, 4)), parent="road")
    builder.add_lane("straight", *straight_lane((100, 0), (120, 0)), lanes_ahead=["east"], parent="junction")
    turns = np.linspace(-np.pi / 2, 0, 40)
    around = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
    middle = np.array([100.0, 20.0, 0.0])
    builder.add_lane(
        "turn", middle + 18 * around, middle + 22 * around, lanes_ahead=["north"], parent="junction", turn_type="LEFT"
    )
    builder.add_lane("east", *straight_lane((120, 0), (220, 0)), parent="road to the east")
    builder.add_lane("north", *straight_lane((120, 20), (120, 100)), parent="road to the north")
    ends = {"road": ((0, 0), (100, 0), 10.0), "road to the east": ((120, 0), (220, 0), 20.0)}
    for name, (start, end, limit_mps) in (ends | {"road to the north": ((120, 20), (120, 100), 0.0)}).items():
        builder.add_segment(name, np.array([(*start, 0.0), (*end, 0.0)]), speed_limit_mps=limit_mps)
    builder.add_junction("junction", lanes=["straight", "turn"])
    builder.add_crosswalk("crosswalk", np.array([[50.0, -10, 0], [54, -10, 0], [54, 10, 0], [50, 10, 0]]))
    builder.save(folder / "road.pb")
    return build_driving_map(MapAPI(str(folder / "road.pb"), WORLD_TO_ECEF))


def make_ring_map(folder: Path, *, radius_m: float, num_lanes: int, is_one_junction: bool) -> DrivingMap:
    """Return a roundabout around the origin, driven to the left, of lanes of one junction or of a segment each.

    The lanes are 4 m wide; the first one begins on the x axis.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    names = [f"ring-{lane}" for lane in range(num_lanes)]
    ends_rad = np.linspace(0, 2 * np.pi, num_lanes + 1)
    for lane, name in enumerate(names):
        turns = np.linspace(ends_rad[lane], ends_rad[lane + 1], 400 // num_lanes)
        around = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
        parent = "ring" if is_one_junction else f"segment-{lane}"
        boundaries_m = (radius_m - 2) * around, (radius_m + 2) * around
        builder.add_lane(name, *boundaries_m, lanes_ahead=[names[(lane + 1) % num_lanes]], parent=parent)
        if not is_one_junction:
            builder.add_segment(parent, radius_m * around[[0, -1]])
    if is_one_junction:
        builder.add_junction("ring", lanes=names)
    builder.save(folder / "ring.pb")
    return build_driving_map(MapAPI(str(folder / "ring.pb"), WORLD_TO_ECEF))


def drive_around(laps: float, *, radius_m: float, step_m: float = 1.0) -> EgoStates:
    """Return a drive around the origin to the left that begins a metre behind the x axis."""
    turns = np.arange(1.0, 1.0 + laps * 2 * np.pi * radius_m, step_m) / radius_m
    return drive_along(radius_m * np.stack([np.cos(turns), np.sin(turns)], axis=-1), turns + np.pi / 2)


def straight_lane(start: Sequence[float], end: Sequence[float]) -> tuple[Any, Any]:
    """Return left and right boundary of a straight lane 4 m wide."""
    ends = np.array([(*start, 0.0), (*end, 0.0)], float)
    ahead = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    to_left = 2.0 * np.array([-ahead[1], ahead[0], 0.0])
    return ends + to_left, ends - to_left


def make_lit_road(folder: Path, *, width_m: float) -> MapAPI:
    """Return a road along x with a light at x = 150, where its first lane ends."""
    builder = MapBuilder(WORLD_TO_ECEF)
    for name, start_m, end_m, ahead in (("first", 0, LINE_M, ["second"]), ("second", LINE_M, 400, [])):
        left, right = (np.array([[start_m, y, 0], [end_m, y, 0]], float) for y in (width_m / 2, -width_m / 2))
        controls = ["T1", "F1"] if name == "first" else []
        builder.add_lane(name, left, right, lanes_ahead=ahead, parent=f"{name} road", traffic_controls=controls)
        ends = np.array([[start_m, 0, 0], [end_m, 0, 0]], float)
        builder.add_segment(f"{name} road", ends, speed_limit_mps=LIMIT_MPS)
    builder.add_traffic_light("T1", np.array([LINE_M, 5.0, 3.0]), faces=["F1"])
    builder.add_traffic_light_face("F1", "signal_red_face")
    path = folder / f"road {width_m}.pb"
    builder.save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


def find_places(paths, routes, poses):
    """Return where vehicles are on their routes, (K, 3), of which nothing was known before."""
    starts, points_m = paths.starts, paths.points_m
    places, row_starts = np.zeros((len(poses), 3)), np.array([0, 1])
    for row in np.flatnonzero(routes >= 0):
        points = points_m[starts[routes[row]] : starts[routes[row] + 1]]
        places[row, 0] = follow_tracks(np.array([0, len(points)]), points, row_starts, poses[row : row + 1, :3])[0]
    follow_routes(paths, routes, poses, places)
    return places
