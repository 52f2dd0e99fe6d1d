"""Who may act in an episode: which vehicles beside the AV, in which order, their routes, and what the log has."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.engine.agent_control import AgentControl

VehicleControl = Literal["vehicles", "ego"] | int
"""Who acts beside the AV: all vehicles, none, or those that are nearest at the start."""


@dataclass(frozen=True, eq=False)
class Actors:
    """Who may act in F frames of an episode, those from the one on in which actions begin: the AV, then P vehicles.

    Attributes:
        first_frame: The first of these frames, counted in the scene.
        seats: The seats of the vehicles, int64 (P,).
        tracks: Tracks of all, rows of ``track_ids`` of the bank, -1 for the AV, int64 (1 + P,).
        track_ids: Tracks of the vehicles as in the log, uint64 (P,).
        routes: Paths of all in the bank, int64 (1 + P,).
        last_frames: Their last frames in the episode, counted in the scene, int64 (1 + P,).
        log_poses: World x, y and yaw in each frame, (F, 1 + P, 3); where the log does not have one, the
            last pose before.
        expert_arcs_m: How far these are along their routes, (F, 1 + P).
    """

    first_frame: int
    seats: Int64Array
    tracks: Int64Array
    track_ids: NumericArray
    routes: Int64Array
    last_frames: Int64Array
    log_poses: Float64Array
    expert_arcs_m: Float64Array


def choose_actors(bank: SceneBank, scene: int, frames: range, *, most: int, only_at_start: bool) -> Actors:
    """Return who may act in some frames of a scene.

    These are the AV and vehicles that follow lanes, those first that the log first has within 100 m of its AV; of
    several in one frame the nearest one.

    Args:
        bank: Has the scene, with paths of vehicles.
        scene: Where.
        frames: The frames of the episode from the one on in which actions begin, counted in the scene.
        most: How many vehicles may act.
        only_at_start: Whether only those may that are within 100 m in the first frame.
    """
    begin = int(bank.frame_starts[scene])
    of_bank = slice(begin + frames.start, begin + frames.stop)
    ego_positions = np.column_stack([bank.ego_poses[of_bank], bank.expert_arcs_m[of_bank]])
    routes = np.arange(bank.routes[scene], bank.routes[scene + 1])
    tracks, last_frames = bank.path_tracks[routes], np.minimum(bank.path_last_frames[routes], frames.stop - 1)
    positions, is_there = _logged_positions(bank, of_bank, len(routes) - 1)

    # in which frame each comes near, and how near it is then
    offsets_m = positions[..., :2] - ego_positions[:, None, :2]
    distances_m = np.where(is_there, np.hypot(offsets_m[..., 0], offsets_m[..., 1]), np.inf)
    is_near = distances_m < AgentControl.of_traffic().near_m
    firsts = np.where(is_near.any(axis=0), is_near.argmax(axis=0), len(frames))
    at_first_m = distances_m[np.minimum(firsts, len(frames) - 1), np.arange(len(firsts))]

    may_act = is_there.any(axis=0) & (bank.path_last_frames[routes[1:]] > frames.start)
    if only_at_start:
        may_act &= firsts == 0
    # in the order in which they come near, the nearest first, of those as near the lower track
    order = np.lexsort((tracks[1:], at_first_m, firsts))
    seats = order[may_act[order]][:most]
    actors = np.concatenate([[0], 1 + seats])
    all_positions = np.concatenate([ego_positions[:, None], positions[:, seats]], axis=1)
    return Actors(
        first_frame=frames.start,
        seats=seats,
        tracks=tracks[actors],
        track_ids=bank.track_ids[tracks[1 + seats]],
        routes=routes[actors],
        last_frames=last_frames[actors],
        log_poses=np.ascontiguousarray(all_positions[..., :3]),
        expert_arcs_m=np.ascontiguousarray(all_positions[..., 3]),
    )


def _logged_positions(bank: SceneBank, frames: slice, num_seats: int) -> tuple[Float64Array, BoolArray]:
    """Return where the log has seats in frames of the bank, and in which it has them, (F, T).

    A position is x, y, yaw and the length of the route up to there, (F, T, 4).
    """
    logged = bank.rows
    bounds = logged.starts[frames.start : frames.stop + 1]
    rows = slice(int(bounds[0]), int(bounds[-1]))
    seats, of_rows = logged.seats[rows], np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    is_wanted = seats >= 0
    wanted = of_rows[is_wanted], seats[is_wanted]
    positions = np.zeros((len(bounds) - 1, num_seats, 4))
    is_there = np.zeros(positions.shape[:2], np.bool_)
    positions[wanted] = np.column_stack([logged.boxes[rows][is_wanted, :3], logged.arcs_m[rows][is_wanted]])
    is_there[wanted] = True
    # where the log does not have one it has the last position before
    for frame in range(1, len(positions)):
        is_missing = ~is_there[frame]
        positions[frame, is_missing] = positions[frame - 1, is_missing]
    return positions, is_there
