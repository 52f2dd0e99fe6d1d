"""Traffic slots: the road users of many environments, replayed from the log or driven, all moved in one call."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.traffic.driver_numbers import DriverNumbers
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import (
    LOGGED,
    WAITING,
    FoundRows,
    Places,
    Seats,
    move_agents,
    withhold_agents,
    write_rows,
)
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.lanes.lane_following import NUM_COLUMNS, SceneRows

__all__ = ["DrivenRows", "TrafficRows", "TrafficSlots"]


@dataclass(frozen=True, eq=False)
class TrafficRows:
    """The M agents of the current frames of B slots, one slot after the other.

    Attributes:
        starts: First row of each slot and the end of the last one, int64 (B + 1,).
        groups: A ``RoadUserGroup`` of each, NONE for what is no road user, int64 (M,).
        boxes: World x and y of the centre, yaw, length and width, metres and radians, (M, 5).
        velocities_mps: World x and y, (M, 2).
        track_rows: Rows of ``track_ids`` of the bank, int64 (M,).
    """

    starts: Int64Array
    groups: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array
    track_rows: Int64Array

    @property
    def scene_rows(self) -> SceneRows:
        """Starts, groups, boxes and velocities, as kernels take them."""
        return SceneRows(self.starts, self.groups, self.boxes, self.velocities_mps)


@dataclass(frozen=True, eq=False)
class DrivenRows:
    """The K agents of B slots that are not where the log has them in the current frames.

    Attributes:
        starts: First row of each slot and the end of the last one, int64 (B + 1,).
        track_ids: As in the log, uint64 (K,).
        poses: World x, y and yaw, (K, 3); of those that are hidden they mean nothing.
        velocities_mps: World x and y, (K, 2); likewise.
        is_hidden: Which wait for room, so that the frame does not have them; the others are driven, (K,).
    """

    starts: Int64Array
    track_ids: NumericArray
    poses: Float64Array
    velocities_mps: Float64Array
    is_hidden: BoolArray


class TrafficSlots:
    """The road users of N environments, each at a frame of a scene of its own.

    Drivers move vehicles by the rules of ``AgentControl.of_traffic(tracks=driver.tracks)``: a vehicle that follows
    lanes is driven from when it is within 100 m of the AV, and leaves with its log; one that would appear where a box
    stands waits for room. Numbers are those of ``SceneSimulation`` with all frames of the scenes, and do not depend on
    what else is asked for in a call. One step is :meth:`step`, then :meth:`enter` with the AVs where they have come to.

    Args:
        bank: The scenes.
        num_slots: Number of environments, N.
        drives: Who drives vehicles; None to replay all agents.

    Attributes:
        bank: As above.
        drives: As above.
        frames: Current frame of each slot, counted in its scene, -1 where nothing has started, int64 (N,).
        bank_rows: Its scene, counted in the bank, int64 (N,).

    Raises:
        InvalidArgumentError: The bank has no paths for the driver, or was made with another speed limit.
    """

    def __init__(self, bank: SceneBank, num_slots: int, *, drives: IntelligentDriver | None) -> None:
        if drives is not None:
            require_paths(bank, drives)
        self.bank, self.drives = bank, drives
        self.frames: Int64Array = np.full(num_slots, -1, np.int64)
        self.bank_rows: Int64Array = np.zeros(num_slots, np.int64)
        self._near_m = float(AgentControl.of_traffic().near_m)
        self._counts = np.zeros(num_slots, np.int64)
        self._seats = _make_seats(num_slots, 0)
        self._numbers = None if drives is None else DriverNumbers(drives, bank.log.facts.step_time_s)
        self._memory = _make_rows(0)

    def __len__(self) -> int:
        return len(self.frames)

    def start(self, slots: Int64Array, bank_rows: Int64Array, frames: Int64Array) -> None:
        """Put slots (B,) at frames (B,) of scenes (B,), with all agents where the log has them.

        Args:
            slots: The slots.
            bank_rows: Their scenes, as :meth:`SceneBank.prepare` returns them.
            frames: Their frames, counted in the scenes.

        Raises:
            IndexOutOfRangeError: There is no such slot, scene or frame.
        """
        require_range("slots", slots, np.int64(len(self)))
        require_range("bank_rows", bank_rows, np.int64(len(self.bank)))
        starts = self.bank.frame_starts
        require_range("frames", frames, starts[bank_rows + 1] - starts[bank_rows])
        self.bank_rows[slots], self.frames[slots], self._counts[slots] = bank_rows, frames, 0
        if self.drives is not None:
            self._make_room(int((self.bank.routes[bank_rows + 1] - self.bank.routes[bank_rows]).max(initial=1)) - 1)
            self._seats.states[slots] = LOGGED

    def step(self, slots: Int64Array, ego_boxes: Float64Array, ego_velocities_mps: Float64Array) -> None:
        """Move all agents of slots (B,), none of them twice, to the next frame; :meth:`enter` completes the step.

        Args:
            slots: The slots.
            ego_boxes: The AVs in the current frames, world x, y, yaw, length and width, (B, 5).
            ego_velocities_mps: Their velocities, (B, 2).

        Raises:
            InvalidArgumentError: The arrays have other shapes.
            IndexOutOfRangeError: There is no such slot, or a slot has no next frame.
        """
        places = self._places(slots)
        bank, of_slots = self.bank, self.bank_rows[slots]
        stops = bank.frame_starts[of_slots + 1]
        require_range("the next frame of slots", places.frames + 1, stops)
        _require_shape("ego_boxes", ego_boxes, (len(slots), 5))
        _require_shape("ego_velocities_mps", ego_velocities_mps, (len(slots), 2))
        if self._numbers is not None:
            counts = np.zeros(len(slots), np.int64)
            move_agents(
                places,
                bank.rows,
                self._seats,
                bank.paths,
                bank.path_last_frames,
                (np.ascontiguousarray(ego_boxes, np.float64), np.ascontiguousarray(ego_velocities_mps, np.float64)),
                (places.frames, *bank.colors),
                bank.num_lanes,
                (self._numbers.on(bank.paths), self._near_m),
                counts,
            )
            self._counts[slots] = counts
        self.frames[slots] += 1

    def enter(self, slots: Int64Array, ego_boxes: Float64Array) -> None:
        """Let vehicles wait that would appear in the current frames of slots (B,) where a box stands.

        Args:
            slots: Slots that have made a step.
            ego_boxes: The AVs in the frames that are current now, (B, 5).

        Raises:
            InvalidArgumentError: The boxes have another shape.
            IndexOutOfRangeError: There is no such slot.
        """
        if self.drives is not None:
            places = self._places(slots)
            _require_shape("ego_boxes", ego_boxes, (len(slots), 5))
            boxes = np.ascontiguousarray(ego_boxes, np.float64)
            withhold_agents(places, self.bank.rows, self._seats, boxes, self._near_m)

    def rows(self, slots: Int64Array) -> TrafficRows:
        """Return the agents of the current frames of slots (B,), in memory that the next call uses again.

        Raises:
            IndexOutOfRangeError: There is no such slot, or nothing has started in it.
        """
        places = self._places(slots)
        row_starts = self.bank.rows.starts
        most = int((row_starts[places.frames + 1] - row_starts[places.frames]).sum() + self._counts[slots].sum())
        if most > len(self._memory.groups):
            self._memory = _make_rows(most + most // 4)
        starts = np.empty(len(slots) + 1, np.int64)
        write_rows(places, self.bank.rows, self._seats, self.bank.path_tracks, starts, self._memory)
        groups, boxes, velocities_mps, tracks = self._memory
        end = int(starts[-1])
        return TrafficRows(starts, groups[:end], boxes[:end], velocities_mps[:end], tracks[:end])

    def num_driven(self, slots: Int64Array) -> Int64Array:
        """Return how many agents were driven into the current frames of slots (B,), (B,)."""
        return self._counts[slots]

    def driven_rows(self, slots: Int64Array) -> DrivenRows:
        """Return the agents of slots (B,) that are driven or hidden in the current frames.

        Raises:
            IndexOutOfRangeError: There is no such slot, or nothing has started in it.
        """
        places = self._places(slots)
        states = self._seats.states[slots]
        of_slots, of_seats = np.nonzero(states != LOGGED)
        paths = places.firsts[of_slots] + of_seats
        is_hidden: BoolArray = states[of_slots, of_seats] == WAITING
        found = self._seats.boxes[places.slots[of_slots], of_seats]
        return DrivenRows(
            starts=np.searchsorted(of_slots, np.arange(len(slots) + 1)).astype(np.int64),
            track_ids=self.bank.track_ids[self.bank.path_tracks[paths]],
            poses=found[:, :3],
            velocities_mps=self._seats.velocities_mps[places.slots[of_slots], of_seats],
            is_hidden=is_hidden,
        )

    def _places(self, slots: Int64Array) -> Places:
        """Return where slots are, as kernels take it."""
        require_range("slots", slots, np.int64(len(self)))
        frames, of_slots = self.frames[slots], self.bank_rows[slots]
        if len(frames) and frames.min() < 0:
            raise IndexOutOfRangeError(f"nothing has started in slot {int(slots[np.argmin(frames)])}; call start()")
        bank = self.bank
        first = bank.routes[of_slots] + 1
        return Places(
            slots=np.ascontiguousarray(slots),
            scene_frames=frames,
            frames=bank.frame_starts[of_slots] + frames,
            firsts=first,
            stops=bank.routes[of_slots + 1],
        )

    def _make_room(self, num_seats: int) -> None:
        """See to it that there is room for a number of seats in each slot."""
        before = self._seats.states.shape[1]
        if num_seats > before:
            grown = _make_seats(len(self), max(num_seats, 2 * before))
            for new, old in zip(grown, self._seats, strict=True):
                new[:, :before] = old
            self._seats = grown


def _make_seats(num_slots: int, num_seats: int) -> Seats:
    """Return room for seats, all of which are where the log has them."""
    shape = (num_slots, num_seats)
    return Seats(
        states=np.full(shape, LOGGED, np.int8),
        motions=np.zeros((*shape, NUM_COLUMNS)),
        boxes=np.zeros((*shape, 5)),
        velocities_mps=np.zeros((*shape, 2)),
        groups=np.zeros(shape, np.int64),
    )


def _make_rows(size: int) -> FoundRows:
    """Return room for some rows."""
    return FoundRows(np.empty(size, np.int64), np.empty((size, 5)), np.empty((size, 2)), np.empty(size, np.int64))


def require_paths(bank: SceneBank, driver: IntelligentDriver) -> None:
    """Refuse a bank on whose paths a driver cannot drive."""
    if not bank.drives_agents:
        raise InvalidArgumentError("drives is a driver, but the bank has no paths; make it with drives_agents=True")
    if driver.unknown_limit_mps != bank.unknown_limit_mps:
        raise InvalidArgumentError(
            f"drives has unknown_limit_mps {driver.unknown_limit_mps}, the bank {bank.unknown_limit_mps}; use one value"
        )


def require_range(name: str, values: Int64Array, ends: Int64Array | np.int64) -> None:
    """Refuse values that are not from 0 to below their ends."""
    is_wrong = (values < 0) | (values >= ends)
    if is_wrong.any():
        place = int(np.argmax(is_wrong))
        last = int(np.broadcast_to(ends, values.shape)[place]) - 1
        raise IndexOutOfRangeError(f"{name} has {int(values[place])}; it may be 0 to {last}")


def _require_shape(name: str, array: Float64Array, shape: tuple[int, int]) -> None:
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} must have shape {shape}, got {array.shape}")
