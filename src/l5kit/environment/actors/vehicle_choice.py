"""Vehicles that may act in an episode: which they are, in which order, their routes and what the log has of them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch

__all__ = ["ActingVehicles", "VehicleControl", "choose_vehicles", "num_of_control"]

VehicleControl = Literal["vehicles", "ego"] | int
"""Who acts beside the AV: all vehicles, none, or those that are nearest at the start."""


@dataclass(frozen=True, eq=False)
class ActingVehicles:
    """The P vehicles that may act in an episode of F frames.

    Attributes:
        tracks: Their rows in the track table of the batch, int64 (P,).
        track_ids: As in the log, uint64 (P,).
        routes: Their paths in the bank, int64 (P,).
        last_frames: Their last frames, counted in the scene, int64 (P,).
        log_poses: World x, y and yaw in each frame of the episode, (F, P, 3); where the log does not have one, the last
            pose before.
        expert_arcs_m: How far these are along their routes, (F, P).
    """

    tracks: Int64Array
    track_ids: NumericArray
    routes: Int64Array
    last_frames: Int64Array
    log_poses: Float64Array
    expert_arcs_m: Float64Array

    def __len__(self) -> int:
        return len(self.tracks)


def num_of_control(controls: VehicleControl, max_vehicles: int) -> int:
    """Return how many vehicles act at most.

    Raises:
        InvalidArgumentError: One of them is not possible.
    """
    if isinstance(max_vehicles, bool) or not isinstance(max_vehicles, int | np.integer) or max_vehicles < 0:
        raise InvalidArgumentError(f"max_vehicles is {max_vehicles!r}; it must be a whole number from 0 on")
    if isinstance(controls, int | np.integer) and not isinstance(controls, bool) and controls >= 0:
        return int(controls)
    if controls not in ("vehicles", "ego") or not isinstance(controls, str):
        raise InvalidArgumentError(f"controls is {controls!r}; it must be 'vehicles', 'ego' or a number from 0 on")
    return int(max_vehicles) if controls == "vehicles" else 0


def choose_vehicles(
    bank: SceneBank, bank_row: int, batch: SceneBatch, *, most: int, only_at_start: bool
) -> ActingVehicles:
    """Return the vehicles that may act in the only scene of a batch.

    These are vehicles that follow lanes, those first that the log first has within 100 m of its AV; of several in one
    frame the nearest one.

    Args:
        bank: Has the scene, with paths of vehicles.
        bank_row: Where.
        batch: The scene, and the frames of the episode.
        most: How many may act.
        only_at_start: Whether only those may that are within 100 m in the first frame.
    """
    first, stop = int(batch.starts[0]), int(batch.stops[0])
    routes = np.arange(bank.routes[bank_row] + 1, bank.routes[bank_row + 1])
    tracks = np.searchsorted(batch.tracks.track_ids, bank.track_ids[bank.path_tracks[routes]])
    places, is_there = _logged_places(bank, bank_row, batch, tracks)
    begin = int(bank.frame_starts[bank_row])
    ways_m = places[..., :2] - bank.ego_poses[begin + first : begin + stop, None, :2]
    distances_m = np.where(is_there, np.hypot(ways_m[..., 0], ways_m[..., 1]), np.inf)
    is_near = distances_m < AgentControl.of_traffic().near_m
    firsts = np.where(is_near.any(axis=0), is_near.argmax(axis=0), stop - first)
    at_first_m = distances_m[np.minimum(firsts, stop - first - 1), np.arange(len(tracks))]
    may_act = is_there.any(axis=0) & (batch.tracks.last_frames[tracks] > first)
    if only_at_start:
        may_act &= firsts == 0
    order = np.lexsort((tracks, at_first_m, firsts))
    chosen = order[may_act[order]][:most]
    return ActingVehicles(
        tracks=tracks[chosen],
        track_ids=batch.tracks.track_ids[tracks[chosen]],
        routes=routes[chosen],
        last_frames=batch.tracks.last_frames[tracks[chosen]],
        log_poses=np.ascontiguousarray(places[:, chosen, :3]),
        expert_arcs_m=np.ascontiguousarray(places[:, chosen, 3]),
    )


def _logged_places(
    bank: SceneBank, bank_row: int, batch: SceneBatch, tracks: Int64Array
) -> tuple[Float64Array, BoolArray]:
    """Return where the log has tracks (P,) in the frames of an episode, and in which it has them, (F, P).

    A place is x, y, yaw and the length of the route up to there, (F, P, 4).
    """
    begin = int(bank.frame_starts[bank_row])
    logged = bank.rows
    bounds = logged.starts[begin + int(batch.starts[0]) : begin + int(batch.stops[0]) + 1]
    rows = slice(int(bounds[0]), int(bounds[-1]))
    numbers = np.full(len(batch.tracks), -1)
    numbers[tracks] = np.arange(len(tracks))
    of_rows = numbers[np.searchsorted(batch.tracks.track_ids, bank.track_ids[logged.tracks[rows]])]
    frames = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    is_wanted = of_rows >= 0
    places = np.zeros((len(bounds) - 1, len(tracks), 4))
    is_there = np.zeros(places.shape[:2], np.bool_)
    wanted = frames[is_wanted], of_rows[is_wanted]
    places[wanted] = np.column_stack([logged.boxes[rows][is_wanted, :3], logged.arcs_m[rows][is_wanted]])
    is_there[wanted] = True
    for frame in range(1, len(places)):
        is_missing = ~is_there[frame]
        places[frame, is_missing] = places[frame - 1, is_missing]
    return places, is_there
