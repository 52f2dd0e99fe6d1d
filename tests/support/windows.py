"""Windows made by hand on a road with two lanes one way and one the other, which ends at a junction with a light."""

import dataclasses
from pathlib import Path

import numpy as np

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.epdms import EpdmsParams, PlanWindows, WindowRoutes
from l5kit.evaluation.epdms.details import WindowDetails
from l5kit.lanes.driving_map import build_driving_map
from l5kit.lanes.lane_paths import make_path_of_lanes
from l5kit.lanes.red_lights import RED, LaneColors
from l5kit.lanes.route_map import mark_route_lanes
from support.driving import STEP_S, drive_along, road_users_at, stacked, straight_lane
from support.maps import WORLD_TO_ECEF

NUM_STATES, NUM_PAST = 41, 15
LANES = ("right", "beside", "oncoming", "straight", "straight beside", "across", "turn", "east", "east beside", "north")
"""Rows of the lanes of :func:`make_crossing`."""

ROUTE = ("right", "straight", "east")


def make_crossing(folder: Path):
    """Return a road along x of lanes 4 m wide, and the junction at its end, x = 100 to 120.

    ``right`` (around y = 0) and ``beside`` (y = 4) go from x = 0 to 100, over ``straight`` and ``straight beside`` to
    ``east`` and ``east beside`` (x = 120 to 220); ``oncoming`` (y = 8) comes back. ``across`` crosses the junction at
    x = 110, and ``turn`` leads from ``right`` to ``north``.
    """
    builder = MapBuilder(WORLD_TO_ECEF)

    def add(name, start, end, ahead, parent):
        builder.add_lane(name, *straight_lane(start, end), lanes_ahead=ahead, parent=parent)

    add("right", (0, 0), (100, 0), ["straight", "turn"], "road")
    add("beside", (0, 4), (100, 4), ["straight beside"], "road")
    add("oncoming", (100, 8), (0, 8), [], "road")
    add("straight", (100, 0), (120, 0), ["east"], "junction")
    add("straight beside", (100, 4), (120, 4), ["east beside"], "junction")
    add("across", (110, -30), (110, 30), [], "junction")
    add("turn", (100, 0), (110, 12), ["north"], "junction")
    add("east", (120, 0), (220, 0), [], "road to the east")
    add("east beside", (120, 4), (220, 4), [], "road to the east")
    add("north", (110, 12), (110, 100), [], "road to the north")
    for name, start, end in (
        ("road", (0, 0), (100, 0)),
        ("road to the east", (120, 0), (220, 0)),
        ("road to the north", (110, 12), (110, 100)),
    ):
        builder.add_segment(name, np.array([(*start, 0.0), (*end, 0.0)]), speed_limit_mps=10.0)
    builder.add_junction("junction", lanes=["straight", "straight beside", "across", "turn"])
    builder.save(folder / "crossing.pb")
    return build_driving_map(MapAPI(str(folder / "crossing.pb"), WORLD_TO_ECEF))


def routes_on(driving_map, *, lanes=ROUTE, names=LANES, red=()):
    """Return the route along lanes, on which some are red in frames: name, first frame and end."""
    paths = make_path_of_lanes(np.array([names.index(lane) for lane in lanes]), driving_map)
    colors = None
    if red:
        rows = [
            [names.index(lane) for lane, first, end in red if first <= frame < end]
            for frame in range(NUM_PAST + NUM_STATES)
        ]
        found = np.array([lane for row in rows for lane in row], np.int64)
        starts = np.cumsum([0, *map(len, rows)])
        colors = LaneColors(np.array([0, len(rows)]), starts, found, np.full(len(found), RED))
    return WindowRoutes(driving_map, paths, mark_route_lanes(paths, driving_map), colors)


def window_along(positions_m, yaws_rad=None, **motion):
    """Return a window of the AV, 4 x 2 m, at positions (41, 2), with some of the arrays of its motion in place."""
    states = drive_along(positions_m, np.zeros(len(positions_m)) if yaws_rad is None else yaws_rad)
    given = {name: np.broadcast_to(values, getattr(states, name).shape).copy() for name, values in motion.items()}
    return dataclasses.replace(states, **given)


def straight_window(speed_mps=10.0, start_m=(5.0, 0.0), yaw_rad=0.0, **motion):
    """Return a window straight on with one speed, from a place where all of the AV is on the road."""
    ways_m = speed_mps * STEP_S * np.arange(NUM_STATES)[:, None]
    positions_m = np.array(start_m, float) + ways_m * [np.cos(yaw_rad), np.sin(yaw_rad)]
    return window_along(positions_m, motion.pop("yaws_rad", np.full(NUM_STATES, yaw_rad)), **motion)


def users_in_each_state(*tracks):
    """Return road users that move with one velocity: ``at`` and ``v`` in the first state, and what rows take."""
    times_s = STEP_S * np.arange(NUM_STATES)
    return road_users_at(
        [
            [
                track
                | {"track": number, "at": np.array(track["at"]) + time_s * np.array(track.get("moves", (0.0, 0.0)))}
                for number, track in enumerate(tracks)
            ]
            for time_s in times_s
        ]
    )


def details_of(*windows, users=None, routes=None, past=None, following=None, params=None):
    """Return windows of one scene that begin in frame 15, with the past that goes straight on into each."""
    states, size = stacked(*windows), len(windows)
    if past is None:
        before = NUM_PAST - np.arange(NUM_PAST)
        velocities_mps = states.speeds_mps[:, :1, None] * states.directions[:, :1]
        past = stacked(
            *(
                dataclasses.replace(
                    drive_along(states.positions_m[row, 0] - STEP_S * before[:, None] * velocities_mps[row], yaws),
                    timestamps_s=-STEP_S * before[None],
                )
                for row, yaws in enumerate(states.yaws_rad[:, :1] + np.zeros(NUM_PAST))
            )
        )
    none = RoadUsers.none(size, NUM_STATES)
    found = PlanWindows(
        states=states,
        past=past,
        road_users=none if users is None else users,
        scenes=np.zeros(size, np.int64),
        frames=np.full(size, NUM_PAST),
        arcs_m=np.full(size, np.nan),
        following=np.full(size, -1) if following is None else np.array(following),
    )
    return WindowDetails(found, routes, params or EpdmsParams())
