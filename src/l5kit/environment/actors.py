"""Actors of an episode: the AV and vehicles of its log, all driven by actions, seen and paid in one step."""

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
"""Who acts beside the AV: all vehicles, none, or those that are nearest at the start."""

_AV = np.zeros(1, np.int64)
"""The actor that is the AV."""


@dataclass(frozen=True, eq=False)
class Actors:
    """Who may act in F frames of an episode, those from the one on in which actions begin: the AV, then P vehicles.

    Attributes:
        first_frame: The first of these frames, counted in the scene.
        vehicles: The vehicles, counted in the scene, int64 (P,).
        tracks: Tracks of all, rows of ``track_ids`` of the bank, -1 for the AV, int64 (1 + P,).
        track_ids: Tracks of the vehicles as in the log, uint64 (P,).
        routes: Paths of all in the bank, int64 (1 + P,).
        last_frames: Their last frames in the episode, counted in the scene, int64 (1 + P,).
        log_poses: World x, y and yaw in each frame, (F, 1 + P, 3); where the log does not have one, the
            last pose before.
        expert_arcs_m: How far these are along their routes, (F, 1 + P).
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
    """Return where the log has vehicles in frames of the bank, and in which it has them, (F, T).

    A position is x, y, yaw and the length of the route up to there, (F, T, 4).
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
    # where the log does not have one it has the last position before
    for frame in range(1, len(positions)):
        is_missing = ~is_there[frame]
        positions[frame, is_missing] = positions[frame - 1, is_missing]
    return positions, is_there


class ActorRoads(EpisodeRoads):
    """What is around the AV of a scene, which is slot 0, and around vehicles that act, which are the slots behind it.

    All of them share the road users of the scene. A vehicle that acts is one of them, which others see; drivers
    leave it alone. It acts from when it is within 100 m of the AV, or later, and until then drivers have it.

    Args:
        bank: Scenes of the log, with paths of vehicles.
        num_vehicles: How many vehicles act at most, P.
        drives: Drives the other vehicles; None to replay them.
        traffic: Road users of several scenes, with actors, where these are driven together; None for those of one.
        slot: The slot there that this scene has.

    Attributes:
        actors: Who may act in the episode; set it before one begins.
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
        """The scene of each actor, which is the same."""
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
        """Return how many frames of the episode there are up to the last ones of actors (B,), (B,)."""
        counts: Int64Array = self._now.last_frames[slots] + 1 - self._now.first_frame + FIRST_FRAME
        return counts

    def start(self, slots: Int64Array, scenes: Int64Array, frames: Int64Array) -> Int64Array:  # noqa: ARG002
        """Put the AV, which is slot 0, at a frame of a scene; see :class:`EpisodeRoads`."""
        rows = super().start(self._slots, scenes, frames)
        states = self.traffic.vehicles.states[self._slot]
        states[:] = FIXED if self.traffic.drives is None else LOGGED
        states[self._now.vehicles] = LOGGED
        return rows

    def log_poses(self, slots: Int64Array) -> Float64Array:
        """Return x, y and heading of actors (B,) of the log now, (B, 3)."""
        poses: Float64Array = self._now.log_poses[self.episode_frame - FIRST_FRAME, slots]
        return poses

    def leave(self, slots: Int64Array, avs: AvArrays) -> None:  # noqa: ARG002 others move whoever acts
        """Move those who do not act to the next frame, while actors are still in the current one."""
        self._last = None
        self.traffic.move(self._slots, (avs.boxes[:1], avs.velocities_mps[:1]))

    def enter(self, slots: Int64Array, avs: AvArrays, *, begins: bool) -> None:
        """Put actors (B,) into the frame that is current now, let in who comes into it, and follow their routes."""
        self._last, self._avs = None, avs
        is_av, vehicles, slot = 0 in slots, self.traffic.vehicles, self._slot
        own = self._now.vehicles[slots[slots > 0] - 1]
        if not begins:
            # where others see vehicles that act, as exactly as records have it
            moved = slots[slots > 0]
            vehicles.boxes[slot, own, :2] = avs.boxes[moved, :2]
            vehicles.boxes[slot, own, 2] = avs.boxes[moved, 2].astype(np.float32)
            vehicles.velocities_mps[slot, own] = avs.velocities_mps[moved].astype(np.float32)
            if not is_av:
                avs.velocities_mps[0] = 0.0  # an AV that has failed stands from now on
        if is_av or not begins:
            self.traffic.let_in(self._slots, avs.boxes[:1])
            self.traffic.take_over(self._slots, avs.boxes[:1])

        # where the actors are on their routes, and were
        now, actors, frame = self.now, self._now, self.episode_frame - FIRST_FRAME
        if not begins:
            _copy(slots, now, self.before)
        positions, arcs_m = now.positions[slots], actors.expert_arcs_m[frame, slots]
        if begins:
            # a route may come by the same position twice: at first the AV is looked for around where the log has it, a
            # vehicle around where drivers have taken it over, or brought it since
            positions[slots == 0, 0] = arcs_m[slots == 0]
            positions[slots > 0, 0] = vehicles.motions[slot, own, ARC]
        follow_routes(self.paths, actors.routes[slots], avs.boxes[slots], positions)
        now.frames[slots] = self.bank.frame_starts[self.traffic.bank_rows[slot]] + self.traffic.frames[slot]
        now.routes[slots], now.positions[slots], now.expert_arcs_m[slots] = actors.routes[slots], positions, arcs_m
        if begins:
            _copy(slots, now, self.before)

    def arrive(self, avs: AvArrays, *, most: int | None) -> tuple[Int64Array, VehicleStates]:
        """Return vehicles (K,) that act from the current frame on, and their states.

        Whom drivers have, and who may act, acts. Their sizes are written to ``avs``. One that the log has for the last
        time never acts.

        Args:
            avs: Takes their sizes.
            most: How many may come, those first that came near first; None for all.
        """
        vehicles, slot, actors = self.traffic.vehicles, self._slot, self._now
        came = 1 + np.flatnonzero(vehicles.states[slot, actors.vehicles] == DRIVEN)
        came = came[actors.last_frames[came] > self.traffic.frames[slot]][:most]
        own = actors.vehicles[came - 1]
        vehicles.states[slot, own] = ACTING
        avs.boxes[came, 3:] = vehicles.boxes[slot, own, 3:]
        return came, VehicleStates.of_boxes(vehicles.boxes[slot, own], vehicles.velocities_mps[slot, own])

    def take_out(self, actors: Int64Array) -> None:
        """Let vehicles (K,) leave the scene, so that nobody sees them any more; the AV stays."""
        self.traffic.vehicles.states[self._slot, self._now.vehicles[actors[actors > 0] - 1]] = GONE
        self._last = None

    def rows(self, slots: Int64Array) -> TrafficRows:
        """Return who is around each of actors (B,): all road users and the AV, the actor itself being nobody."""
        if self._last is None or not self._is_last(slots):
            assert self._avs is not None
            _, _, groups, boxes, velocities_mps, track_rows = self.traffic.rows_of(self._slots)
            size, num_rows, own = len(slots), len(groups) + 1, self._now.tracks[slots]
            # the AV is the last row; -1 is its track, too, so that an actor finds itself by its track
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
    """Copy where actors (B,) are."""
    for column, copied in zip(positions, copies, strict=True):
        copied[slots] = column[slots]


@dataclass(frozen=True, eq=False)
class ActorSteps:
    """What became of K actors in a step.

    Attributes:
        actors: Which they are, those that were there before it, int64 (K,).
        outcome: Rewards of the step, and what went wrong in it, of each of them.
        is_failed: Which have ended by what they did, (K,).
        is_at_end: Which have ended as the log of theirs, or the episode, goes no further, (K,).
        arrived: The actors that are new, (N,).
    """

    actors: Int64Array
    outcome: StepOutcome
    is_failed: BoolArray
    is_at_end: BoolArray
    arrived: Int64Array


class ActorEpisode(Episodes):
    """One episode in which the AV is slot 0 and vehicles are slots 1 to P, while they are there.

    A vehicle acts from when it is within 100 m of the AV, or from when it is admitted after that, until its log ends.
    Whoever has failed acts no more: a vehicle leaves the scene, the AV stands.

    Args:
        parts: What it is made of, with a compact view.
        roads: What is around the actors.

    Attributes:
        roads: What is around the actors.
        is_acting: Who is there, bool (1 + P,).
    """

    def __init__(self, parts: EpisodeParts, roads: ActorRoads) -> None:
        super().__init__(parts, len(roads))
        self.roads = roads
        self.is_acting: BoolArray = np.zeros(len(roads), np.bool_)

    @property
    def acting(self) -> Int64Array:
        """The actors that are there, ascending."""
        return np.flatnonzero(self.is_acting)

    def begin_at(self, start: EpisodeStart, *, only_at_start: bool = False, most: int | None = None) -> None:
        """Begin an episode.

        Args:
            start: Where.
            only_at_start: Whether only those vehicles may act that are within 100 m of the AV now.
            most: How many vehicles may come now; None for all.
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
        """Return what actors (K,) saw last, (K, D)."""
        view = self.parts.view
        assert isinstance(view, CompactView)
        seen: Float32Array = view.memory[actors]
        return seen

    def step(self, actions: NumericArray, *, most: int | None = None) -> ActorSteps:
        """Move on by the frames of an action.

        Args:
            actions: Those of the actors that are there, in their order, (K, ...).
            most: How many vehicles may come; None for all.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; nothing has moved.
        """
        actors = self.acting
        outcome = self.drive(actors, actions)
        # who has failed has not come to an end as well
        is_failed, is_at_end = outcome.is_failed, self.is_at_end[actors] & ~outcome.is_failed
        self.is_acting[actors[is_failed | is_at_end]] = False
        return ActorSteps(actors, outcome, is_failed, is_at_end, self.admit(most))

    def _drive_frame(self, slots: Int64Array, actions: NumericArray) -> StepOutcome:
        """Drive actors (B,) to the next frame; whoever has failed while the same actions were held leaves before."""
        if len(slots) < np.count_nonzero(self.is_acting):
            self.roads.take_out(np.setdiff1d(self.acting, slots, assume_unique=True))
        return super()._drive_frame(slots, actions)

    def admit(self, most: int | None = None) -> Int64Array:
        """Begin with the vehicles that have come near, ``most`` of them, and return which they are."""
        arrived, states = self.roads.arrive(self.avs.arrays, most=most)
        if len(arrived):
            self.frame_indices[arrived] = self.roads.episode_frame
            self.lengths[arrived] = self.roads.num_frames_of(arrived)
            self.avs.put(arrived, as_columns(states, np.zeros(len(arrived))))
            self.open(arrived)
            self.is_acting[arrived] = True
        return arrived
