"""Roads of actors: what is around the AV and around vehicles of one scene that act, each of them a slot of its own."""

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.environment.actors.vehicle_choice import Actors
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads, RoutePositions
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import ACTING, DRIVEN, FIXED, GONE, LOGGED, TrafficRows
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.path_positions import follow_routes
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.vehicle_models import VehicleStates

_SCENE = np.zeros(1, np.int64)
"""The one slot of the road users."""


class ActorRoads(EpisodeRoads):
    """What is around the AV of a scene, which is slot 0, and around vehicles that act, which are the slots behind it.

    All of them share the road users of the scene. A vehicle that acts has a seat there, where others see it; drivers
    leave it alone. It acts from when it is within 100 m of the AV.

    Args:
        bank: Scenes of the log, with paths of vehicles.
        num_vehicles: How many vehicles act at most, P.
        drives: Drives the other vehicles; None to replay them.

    Attributes:
        actors: Who may act in the episode; set it before one begins.
    """

    def __init__(self, bank: SceneBank, num_vehicles: int, *, drives: IntelligentDriver | None) -> None:
        traffic = TrafficSlots(bank, 1, drives=drives, has_actors=True)
        super().__init__(bank, 1 + num_vehicles, drives=drives, traffic=traffic)
        self.actors: Actors | None = None
        self._has_come: BoolArray = np.zeros(1 + num_vehicles, np.bool_)
        self._avs: AvArrays | None = None

    @property
    def bank_rows(self) -> Int64Array:
        """The scene of each actor, which is the same."""
        return np.repeat(self.traffic.bank_rows, len(self))

    @property
    def _now(self) -> Actors:
        assert self.actors is not None
        return self.actors

    @property
    def episode_frame(self) -> int:
        """The current frame, counted in the episode."""
        return int(self.traffic.frames[0]) - self._now.first_frame + FIRST_FRAME

    def num_frames_of(self, slots: Int64Array) -> Int64Array:
        """Return how many frames of the episode there are up to the last ones of actors (B,), (B,)."""
        counts: Int64Array = self._now.last_frames[slots] + 1 - self._now.first_frame + FIRST_FRAME
        return counts

    def start(self, slots: Int64Array, scenes: Int64Array, frames: Int64Array) -> Int64Array:
        """Put the AV at a frame of a scene; see :class:`EpisodeRoads`."""
        rows = super().start(slots, scenes, frames)
        states = self.traffic.seats.states[0]
        states[:] = FIXED if self.traffic.drives is None else LOGGED
        states[self._now.seats] = LOGGED
        self._has_come[:] = False
        return rows

    def log_poses(self, slots: Int64Array) -> Float64Array:
        """Return x, y and heading of actors (B,) of the log now, (B, 3)."""
        poses: Float64Array = self._now.log_poses[self.episode_frame - FIRST_FRAME, slots]
        return poses

    def leave(self, slots: Int64Array, avs: AvArrays) -> None:  # noqa: ARG002 others move whoever acts
        """Move those who do not act to the next frame, while actors are still in the current one."""
        self._last = None
        self.traffic.move(_SCENE, (avs.boxes[:1], avs.velocities_mps[:1]))

    def enter(self, slots: Int64Array, avs: AvArrays, *, begins: bool) -> None:
        """Put actors (B,) into the frame that is current now, let in who comes into it, and follow their routes."""
        self._last, self._avs = None, avs
        is_av = 0 in slots
        if not begins:
            # where others see vehicles that act, as exactly as records have it
            vehicles, seats = slots[slots > 0], self.traffic.seats
            own = self._now.seats[vehicles - 1]
            seats.boxes[0, own, :2] = avs.boxes[vehicles, :2]
            seats.boxes[0, own, 2] = avs.boxes[vehicles, 2].astype(np.float32)
            seats.velocities_mps[0, own] = avs.velocities_mps[vehicles].astype(np.float32)
            if not is_av:
                avs.velocities_mps[0] = 0.0  # an AV that has failed stands from now on
        if is_av or not begins:
            self.traffic.let_in(_SCENE, avs.boxes[:1])
            self.traffic.take_over(_SCENE, avs.boxes[:1])
            # whom a driver would take over now, and who may act, acts
            states, own = self.traffic.seats.states[0], self._now.seats
            states[own[states[own] == DRIVEN]] = ACTING

        # where the actors are on their routes, and were
        now, actors, frame = self.now, self._now, self.episode_frame - FIRST_FRAME
        if not begins:
            _copy(slots, now, self.before)
        positions, arcs_m = now.positions[slots], actors.expert_arcs_m[frame, slots]
        if begins:
            # a route may come by the same position twice: at first an actor is looked for around where the log has it
            positions[:, 0] = arcs_m
        follow_routes(self.paths, actors.routes[slots], avs.boxes[slots], positions)
        now.frames[slots] = self.bank.frame_starts[self.traffic.bank_rows[0]] + self.traffic.frames[0]
        now.routes[slots], now.positions[slots], now.expert_arcs_m[slots] = actors.routes[slots], positions, arcs_m
        if begins:
            _copy(slots, now, self.before)

    def arrive(self, avs: AvArrays) -> tuple[Int64Array, VehicleStates]:
        """Return vehicles (K,) that act from the current frame on, and their states.

        Their sizes are written to ``avs``. One that the log has for the last time never acts.
        """
        seats, actors = self.traffic.seats, self._now
        is_near = seats.states[0, actors.seats] == ACTING
        came = 1 + np.flatnonzero(is_near & ~self._has_come[1 : 1 + len(actors.seats)])
        self._has_come[came] = True
        came = came[actors.last_frames[came] > self.traffic.frames[0]]
        own = actors.seats[came - 1]
        avs.boxes[came, 3:] = seats.boxes[0, own, 3:]
        return came, VehicleStates.of_boxes(seats.boxes[0, own], seats.velocities_mps[0, own])

    def take_out(self, actors: Int64Array) -> None:
        """Let vehicles (K,) leave the scene, so that nobody sees them any more; the AV stays."""
        self.traffic.seats.states[0, self._now.seats[actors[actors > 0] - 1]] = GONE
        self._last = None

    def rows(self, slots: Int64Array) -> TrafficRows:
        """Return who is around each of actors (B,): all road users and the AV, the actor itself being nobody."""
        if self._last is None or not self._is_last(slots):
            assert self._avs is not None
            _, _, groups, boxes, velocities_mps, track_rows = self.traffic.rows_of(_SCENE)
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
