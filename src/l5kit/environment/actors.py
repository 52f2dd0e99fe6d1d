"""Actors of an episode: the AV and vehicles of its log that act, observe and are rewarded in one step."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.environment.episode_choice import FIRST_FRAME, EpisodeStart
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads, RoutePositions
from l5kit.environment.episodes import EpisodeParts, Episodes
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.rewards.step_reward import StepOutcome
from l5kit.environment.slots.av_slots import as_columns
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import ACTING, DRIVEN, FIXED, GONE, LOGGED, TrafficRows
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.path_positions import follow_routes
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.lanes.lane_following import ARC
from l5kit.simulation.vehicle_models import VehicleStates

VehicleControl = Literal["vehicles", "ego"] | int
"""Actors besides the AV: all vehicles, none, or the number of vehicles nearest at the start."""

_AV = np.zeros(1, np.int64)
"""Index of the AV among the actors."""


@dataclass(frozen=True, eq=False)
class Actors:
    """Possible actors of an episode: the AV, then P vehicles, in F frames from the first one with actions.

    Attributes:
        first_frame: The first of these frames, counted in the scene.
        vehicles: Indices of the vehicles in the scene, int64 (P,).
        tracks: Tracks of all actors, rows of ``track_ids`` of the bank, -1 for the AV, int64 (1 + P,).
        track_ids: Track ids of the vehicles in the log, uint64 (P,).
        routes: Paths of all actors in the bank, int64 (1 + P,).
        last_frames: Their last frames in the episode, counted in the scene, int64 (1 + P,).
        log_poses: Logged world x, y and yaw in each frame, (F, 1 + P, 3); the last pose before a gap fills it.
        expert_arcs_m: Arc lengths of these poses along the routes, (F, 1 + P).
    """

    first_frame: int
    vehicles: Int64Array
    tracks: Int64Array
    track_ids: NumericArray
    routes: Int64Array
    last_frames: Int64Array
    log_poses: Float64Array
    expert_arcs_m: Float64Array


def choose_actors(bank: SceneBank, scene: int, frames: range, *, most: int, only_at_start: bool) -> Actors:
    """Return the possible actors in some frames of a scene.

    These are the AV and the vehicles that follow lanes, ordered by the frame in which they are first logged within
    100 m of the AV, and by distance within a frame.

    Args:
        bank: Bank with the scene, and with paths of vehicles.
        scene: Row of the scene in the bank.
        frames: The frames of the episode from the first one with actions, counted in the scene.
        most: Limit on the number of vehicles.
        only_at_start: Whether only vehicles within 100 m in the first frame may act.
    """
    begin = int(bank.frame_starts[scene])
    of_bank = slice(begin + frames.start, begin + frames.stop)
    ego_positions = np.column_stack([bank.ego_poses[of_bank], bank.expert_arcs_m[of_bank]])
    routes = np.arange(bank.routes[scene], bank.routes[scene + 1])
    tracks, last_frames = bank.path_tracks[routes], np.minimum(bank.path_last_frames[routes], frames.stop - 1)
    positions, is_there = _logged_positions(bank, of_bank, len(routes) - 1)

    # the frame in which each vehicle first comes near, and its distance then
    offsets_m = positions[..., :2] - ego_positions[:, None, :2]
    distances_m = np.where(is_there, np.hypot(offsets_m[..., 0], offsets_m[..., 1]), np.inf)
    is_near = distances_m < AgentControl.of_traffic().near_m
    firsts = np.where(is_near.any(axis=0), is_near.argmax(axis=0), len(frames))
    at_first_m = distances_m[np.minimum(firsts, len(frames) - 1), np.arange(len(firsts))]

    may_act = is_there.any(axis=0) & (bank.path_last_frames[routes[1:]] > frames.start)
    if only_at_start:
        may_act &= firsts == 0
    # by first near frame, then distance, then track
    order = np.lexsort((tracks[1:], at_first_m, firsts))
    vehicles = order[may_act[order]][:most]
    actors = np.concatenate([[0], 1 + vehicles])
    all_positions = np.concatenate([ego_positions[:, None], positions[:, vehicles]], axis=1)
    return Actors(
        first_frame=frames.start,
        vehicles=vehicles,
        tracks=tracks[actors],
        track_ids=bank.track_ids[tracks[1 + vehicles]],
        routes=routes[actors],
        last_frames=last_frames[actors],
        log_poses=np.ascontiguousarray(all_positions[..., :3]),
        expert_arcs_m=np.ascontiguousarray(all_positions[..., 3]),
    )


def _logged_positions(bank: SceneBank, frames: slice, num_vehicles: int) -> tuple[Float64Array, BoolArray]:
    """Return logged positions of vehicles in frames of the bank, and a mask of the frames that have them, (F, T).

    A position is x, y, yaw and the arc length along the route, (F, T, 4).
    """
    logged = bank.rows
    bounds = logged.starts[frames.start : frames.stop + 1]
    rows = slice(int(bounds[0]), int(bounds[-1]))
    vehicles, of_rows = logged.vehicles[rows], np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    is_wanted = vehicles >= 0
    wanted = of_rows[is_wanted], vehicles[is_wanted]
    positions = np.zeros((len(bounds) - 1, num_vehicles, 4))
    is_there = np.zeros(positions.shape[:2], np.bool_)
    positions[wanted] = np.column_stack([logged.boxes[rows][is_wanted, :3], logged.arcs_m[rows][is_wanted]])
    is_there[wanted] = True
    # fill gaps with the last logged position
    for frame in range(1, len(positions)):
        is_missing = ~is_there[frame]
        positions[frame, is_missing] = positions[frame - 1, is_missing]
    return positions, is_there


class ActorRoads(EpisodeRoads):
    """Surroundings of all actors of a scene: the AV is slot 0, the vehicles that act are the slots after it.

    All of them share the road users of the scene. An acting vehicle is one of these: others see it, and drivers leave
    it alone. It starts to act within 100 m of the AV, or later; until then a driver moves it.

    Args:
        bank: Scenes of the log, with paths of vehicles.
        num_vehicles: Limit on the vehicles that act, P.
        drives: Driver of the other vehicles; None to replay them.
        traffic: Road users of several scenes that are driven together, with actors; None for those of one scene.
        slot: Slot of this scene in ``traffic``.

    Attributes:
        actors: Possible actors of the episode; to be set before it begins.
    """

    def __init__(
        self,
        bank: SceneBank,
        num_vehicles: int,
        *,
        drives: IntelligentDriver | None,
        traffic: TrafficSlots | None = None,
        slot: int = 0,
    ) -> None:
        own = TrafficSlots(bank, 1, drives=drives, has_actors=True) if traffic is None else traffic
        super().__init__(bank, 1 + num_vehicles, drives=drives, traffic=own)
        self.actors: Actors | None = None
        self._slot, self._slots = slot, np.array([slot])
        self._avs: AvArrays | None = None

    @property
    def bank_rows(self) -> Int64Array:
        """Scene of each actor, all the same."""
        return np.repeat(self.traffic.bank_rows[self._slots], len(self))

    @property
    def _now(self) -> Actors:
        assert self.actors is not None
        return self.actors

    @property
    def episode_frame(self) -> int:
        """The current frame, counted in the episode."""
        return int(self.traffic.frames[self._slot]) - self._now.first_frame + FIRST_FRAME

    def num_frames_of(self, slots: Int64Array) -> Int64Array:
        """Return the number of frames of the episode up to the last ones of actors (B,), (B,)."""
        counts: Int64Array = self._now.last_frames[slots] + 1 - self._now.first_frame + FIRST_FRAME
        return counts

    def start(self, slots: Int64Array, scenes: Int64Array, frames: Int64Array) -> Int64Array:  # noqa: ARG002
        """Put the AV, which is slot 0, into a frame of a scene; see :class:`EpisodeRoads`."""
        rows = super().start(self._slots, scenes, frames)
        states = self.traffic.vehicles.states[self._slot]
        states[:] = FIXED if self.traffic.drives is None else LOGGED
        states[self._now.vehicles] = LOGGED
        return rows

    def log_poses(self, slots: Int64Array) -> Float64Array:
        """Return the logged x, y and heading of actors (B,) in the current frame, (B, 3)."""
        poses: Float64Array = self._now.log_poses[self.episode_frame - FIRST_FRAME, slots]
        return poses

    def leave(self, slots: Int64Array, avs: AvArrays) -> None:  # noqa: ARG002 all others move
        """Move all other road users to the next frame, while the actors are still in the current one."""
        self._last = None
        self.traffic.move(self._slots, (avs.boxes[:1], avs.velocities_mps[:1]))

    def enter(self, slots: Int64Array, avs: AvArrays, *, begins: bool) -> None:
        """Move actors (B,) into the current frame, admit road users that enter it, and follow the actors' routes."""
        self._last, self._avs = None, avs
        is_av, vehicles, slot = 0 in slots, self.traffic.vehicles, self._slot
        own = self._now.vehicles[slots[slots > 0] - 1]
        if not begins:
            # publish the poses of acting vehicles to the traffic, in the precision of records
            moved = slots[slots > 0]
            vehicles.boxes[slot, own, :2] = avs.boxes[moved, :2]
            vehicles.boxes[slot, own, 2] = avs.boxes[moved, 2].astype(np.float32)
            vehicles.velocities_mps[slot, own] = avs.velocities_mps[moved].astype(np.float32)
            if not is_av:
                avs.velocities_mps[0] = 0.0  # a failed AV stands still
        if is_av or not begins:
            self.traffic.let_in(self._slots, avs.boxes[:1])
            self.traffic.take_over(self._slots, avs.boxes[:1])

        # positions of the actors on their routes, now and before
        now, actors, frame = self.now, self._now, self.episode_frame - FIRST_FRAME
        if not begins:
            _copy(slots, now, self.before)
        positions, arcs_m = now.positions[slots], actors.expert_arcs_m[frame, slots]
        if begins:
            # A route may pass the same point twice, so the first search starts at a known arc: that of the log for the
            # AV, that of the driver for a vehicle.
            positions[slots == 0, 0] = arcs_m[slots == 0]
            positions[slots > 0, 0] = vehicles.motions[slot, own, ARC]
        follow_routes(self.paths, actors.routes[slots], avs.boxes[slots], positions)
        now.frames[slots] = self.bank.frame_starts[self.traffic.bank_rows[slot]] + self.traffic.frames[slot]
        now.routes[slots], now.positions[slots], now.expert_arcs_m[slots] = actors.routes[slots], positions, arcs_m
        if begins:
            _copy(slots, now, self.before)

    def arrive(self, avs: AvArrays, *, most: int | None) -> tuple[Int64Array, VehicleStates]:
        """Return vehicles (K,) that act from the current frame on, and their states.

        These are the possible actors that have a driver, except in their last logged frame. Their sizes are written to
        ``avs``.

        Args:
            avs: Receives their sizes.
            most: Limit on the number of new vehicles, those that came near first; None for all.
        """
        vehicles, slot, actors = self.traffic.vehicles, self._slot, self._now
        came = 1 + np.flatnonzero(vehicles.states[slot, actors.vehicles] == DRIVEN)
        came = came[actors.last_frames[came] > self.traffic.frames[slot]][:most]
        own = actors.vehicles[came - 1]
        vehicles.states[slot, own] = ACTING
        avs.boxes[came, 3:] = vehicles.boxes[slot, own, 3:]
        return came, VehicleStates.of_boxes(vehicles.boxes[slot, own], vehicles.velocities_mps[slot, own])

    def take_out(self, actors: Int64Array) -> None:
        """Remove vehicles (K,) from the scene, so that they are no longer seen; the AV stays."""
        self.traffic.vehicles.states[self._slot, self._now.vehicles[actors[actors > 0] - 1]] = GONE
        self._last = None

    def rows(self, slots: Int64Array) -> TrafficRows:
        """Return the surroundings of each of actors (B,): all road users and the AV, without the actor itself."""
        if self._last is None or not self._is_last(slots):
            assert self._avs is not None
            _, _, groups, boxes, velocities_mps, track_rows = self.traffic.rows_of(self._slots)
            size, num_rows, own = len(slots), len(groups) + 1, self._now.tracks[slots]
            # The AV is the last row. Its track is -1 here as well, so that each actor finds itself by its track.
            tracks = np.append(track_rows, -1)
            of_each = np.tile(np.append(groups, int(RoadUserGroup.VEHICLE)), (size, 1))
            of_each[tracks == own[:, None]] = int(RoadUserGroup.NONE)
            self._last = (
                slots,
                TrafficRows(
                    sizes=np.full(size, num_rows),
                    starts=np.arange(size + 1) * num_rows,
                    groups=of_each.reshape(-1),
                    boxes=np.tile(np.concatenate([boxes, self._avs.boxes[:1]]), (size, 1)),
                    velocities_mps=np.tile(np.concatenate([velocities_mps, self._avs.velocities_mps[:1]]), (size, 1)),
                    track_rows=np.tile(tracks, size),
                ),
            )
        return self._last[1]


def _copy(slots: Int64Array, positions: RoutePositions, copies: RoutePositions) -> None:
    """Copy the positions of actors (B,)."""
    for column, copied in zip(positions, copies, strict=True):
        copied[slots] = column[slots]


@dataclass(frozen=True, eq=False)
class ActorSteps:
    """Results of K actors in a step.

    Attributes:
        actors: The actors that were there before the step, int64 (K,).
        outcome: Rewards and failures of the step, for each of them.
        is_failed: Mask of the actors that have failed, (K,).
        is_at_end: Mask of the actors whose log, or whose episode, has ended, (K,).
        arrived: New actors, (N,).
    """

    actors: Int64Array
    outcome: StepOutcome
    is_failed: BoolArray
    is_at_end: BoolArray
    arrived: Int64Array


class ActorEpisode(Episodes):
    """Episode with several actors: the AV is slot 0, and vehicles are slots 1 to P while they act.

    A vehicle acts from when it is within 100 m of the AV, or when it is admitted later, until its log ends. An actor
    that fails stops acting: a vehicle leaves the scene, the AV stands still.

    Args:
        parts: Parts of the episode, with a compact view.
        roads: Surroundings of the actors.

    Attributes:
        roads: Surroundings of the actors.
        is_acting: Mask of the actors that act now, bool (1 + P,).
    """

    def __init__(self, parts: EpisodeParts, roads: ActorRoads) -> None:
        super().__init__(parts, len(roads))
        self.roads = roads
        self.is_acting: BoolArray = np.zeros(len(roads), np.bool_)

    @property
    def acting(self) -> Int64Array:
        """Actors that act now, ascending."""
        return np.flatnonzero(self.is_acting)

    def begin_at(self, start: EpisodeStart, *, only_at_start: bool = False, most: int | None = None) -> None:
        """Begin an episode.

        Args:
            start: Scene and frames of the episode.
            only_at_start: Whether only vehicles within 100 m of the AV now may act.
            most: Limit on the number of vehicles that start to act now; None for all.
        """
        self.roads.actors = choose_actors(
            self.roads.bank,
            int(self.roads.bank.prepare(np.array([start.scene]))[0]),
            range(start.first_frame + FIRST_FRAME, start.first_frame + start.num_frames),
            most=len(self) - 1,
            only_at_start=only_at_start,
        )
        self.is_acting[:] = False
        self.begin(_AV, *(np.array([each]) for each in (start.scene, start.first_frame, start.num_frames)))
        self.is_acting[0] = True
        self.admit(most)

    def seen_by(self, actors: Int64Array) -> Float32Array:
        """Return the last observations of actors (K,), (K, D)."""
        view = self.parts.view
        assert isinstance(view, CompactView)
        seen: Float32Array = view.memory[actors]
        return seen

    def step(self, actions: NumericArray, *, most: int | None = None) -> ActorSteps:
        """Advance by the frames of an action.

        Args:
            actions: Actions of the current actors, in their order, (K, ...).
            most: Limit on the number of vehicles that start to act; None for all.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; no actor has moved.
        """
        actors = self.acting
        outcome = self.drive(actors, actions)
        # a failed actor is terminated, not truncated
        is_failed, is_at_end = outcome.is_failed, self.is_at_end[actors] & ~outcome.is_failed
        self.is_acting[actors[is_failed | is_at_end]] = False
        return ActorSteps(actors, outcome, is_failed, is_at_end, self.admit(most))

    def _drive_frame(self, slots: Int64Array, actions: NumericArray) -> StepOutcome:
        """Drive actors (B,) to the next frame; those that failed while the action was held leave first."""
        if len(slots) < np.count_nonzero(self.is_acting):
            self.roads.take_out(np.setdiff1d(self.acting, slots, assume_unique=True))
        return super()._drive_frame(slots, actions)

    def admit(self, most: int | None = None) -> Int64Array:
        """Let vehicles that have come near start to act, ``most`` at most, and return them."""
        arrived, states = self.roads.arrive(self.avs.arrays, most=most)
        if len(arrived):
            self.frame_indices[arrived] = self.roads.episode_frame
            self.lengths[arrived] = self.roads.num_frames_of(arrived)
            self.avs.put(arrived, as_columns(states, np.zeros(len(arrived))))
            self.open(arrived)
            self.is_acting[arrived] = True
        return arrived
