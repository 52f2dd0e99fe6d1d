"""Roads of episodes: road users and the AVs' routes of many episodes at once, on the processor or a device."""

from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.device.backend import Backend, DeviceArray, KernelArguments
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import TrafficRows
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.environment.traffic.traffic_steps import SceneStarts, SlotFrames
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.path_positions import follow_route
from l5kit.lanes.red_lights import LightRows
from l5kit.simulation.drivers.intelligent import IntelligentDriver


class AvArrays(NamedTuple):
    """States of the AVs of N slots.

    Attributes:
        boxes: World x, y, yaw, length and width, metres and radians, float64 (N, 5).
        velocities_mps: World x and y, float64 (N, 2).
        motions: Speeds in m/s, negative if reversing, longitudinal accelerations in m/s2, yaw rates in rad/s and
            steering in rad, float64 (N, 4).
        motions_before: Motions before the last step; at the start of an episode the same as ``motions``.
    """

    boxes: DeviceArray
    velocities_mps: DeviceArray
    motions: DeviceArray
    motions_before: DeviceArray


class RoutePositions(NamedTuple):
    """Positions of the AVs of N slots, simulated and logged, on their routes.

    Attributes:
        frames: Frames of the positions, counted in the bank, -1 for slots without an episode, int64 (N,).
        routes: Paths of the AVs, int64 (N,).
        positions: Positions on these paths, float64 (N, 3); see :func:`~l5kit.lanes.path_positions.follow_routes`.
        expert_arcs_m: Arc lengths of the logged AVs, float64 (N,).
    """

    frames: DeviceArray
    routes: DeviceArray
    positions: DeviceArray
    expert_arcs_m: DeviceArray


class EpisodeRoads:
    """Surroundings of the AVs of N episodes.

    Args:
        bank: Scenes of the log.
        num_slots: N.
        drives: Driver of other vehicles; None to replay them.
        backend: Backend of the arrays and kernels; None for the processor.
        traffic: The road users, if several AVs share those of a scene; None to create those of N scenes.

    Attributes:
        bank: Scenes of the log.
        traffic: The road users.
        every: All slots, int64 (N,).
        going: Buffer for slots, with -1 for those that do not move.
        now: Positions of the AVs on their routes.
        before: Positions before the last step; at the start of an episode the same as ``now``.
    """

    def __init__(
        self,
        bank: SceneBank,
        num_slots: int,
        *,
        drives: IntelligentDriver | None,
        backend: Backend | None = None,
        traffic: TrafficSlots | None = None,
    ) -> None:
        self.bank = bank
        self.traffic = TrafficSlots(bank, num_slots, drives=drives, backend=backend) if traffic is None else traffic
        self.every: DeviceArray = self.backend.upload_one(np.arange(num_slots))
        self.going: DeviceArray = self.backend.upload_one(np.arange(num_slots))
        self.before, self.now = _make_positions(self.backend, num_slots), _make_positions(self.backend, num_slots)
        self._last: tuple[DeviceArray, TrafficRows] | None = None
        self.backend.wait()  # for data that other streams may read

    def __len__(self) -> int:
        return int(self.every.shape[0])

    @property
    def bank_rows(self) -> DeviceArray:
        """Scene of each AV, counted in the bank, int64 (N,)."""
        return self.traffic.bank_rows

    @property
    def backend(self) -> Backend:
        """Backend of the arrays and kernels."""
        return self.traffic.backend

    @property
    def driving_map(self) -> DrivingMap | None:
        """Lanes and drivable surface; None without a map."""
        return None if self.bank.road is None else self.bank.road.driving

    @property
    def drives_agents(self) -> bool:
        """Whether a driver moves other vehicles."""
        return self.traffic.drives is not None

    @property
    def paths(self) -> PathArrays:
        """All paths."""
        return self.traffic.arrays.paths

    def start(self, slots: Int64Array, scenes: Int64Array, frames: Int64Array) -> Int64Array:
        """Put slots (B,) into frames (B,) of scenes (B,) of the log; :meth:`enter` completes this.

        Returns:
            Rows of these frames in the bank, (B,).

        Raises:
            CorruptedDataError: A scene is damaged.
        """
        self._last = None
        bank_rows = self.bank.prepare(scenes)
        self.traffic.start(slots, bank_rows, frames)
        of_bank: Int64Array = self.bank.frame_starts[bank_rows] + frames
        return of_bank

    def log_poses(self, slots: Int64Array) -> Float64Array:
        """Return the logged x, y and heading of the AVs in the current frames of slots, (B, 3), on the processor."""
        rows = self.bank.frame_starts[self.traffic.bank_rows[slots]] + self.traffic.frames[slots]
        poses: Float64Array = self.bank.ego_poses[rows]
        return poses

    def leave(self, slots: DeviceArray, avs: AvArrays) -> None:
        """Move the other road users of slots (B,) to the next frames; all AVs are still in the current ones."""
        self._last = None
        self.traffic.move(slots, (self.taken(avs.boxes, slots), self.taken(avs.velocities_mps, slots)))

    def enter(self, slots: DeviceArray, avs: AvArrays, *, begins: bool) -> None:
        """Admit road users that enter the current frames of slots (B,), and locate the AVs on their routes.

        Args:
            slots: The slots.
            avs: AVs of all slots, in these frames.
            begins: Whether these are first frames of episodes.
        """
        self._last = None
        traffic, bank = self.traffic, self.traffic.arrays
        traffic.let_in(slots, self.taken(avs.boxes, slots))
        of_bank = (bank.starts, bank.paths.starts, bank.paths.points_m, bank.ego.arcs_m)
        self.backend.run(
            follow_avs, len(slots), slots, traffic.current, *of_bank, avs.boxes, begins, self.before, self.now
        )

    def items(self, size: int) -> DeviceArray:
        """Return the first ``size`` integers from 0 on, at most N."""
        if self.backend.is_serial:
            return self.every[:size]
        return self.every if size == len(self) else self.backend.array(self.backend.tensor(self.every)[:size])

    def rows(self, slots: DeviceArray) -> TrafficRows:
        """Return the road users of slots (B,) in the current frames; valid until the next step."""
        if self._last is None or not (self._last[0] is slots or self._is_last(slots)):
            self._last = slots, self.traffic.rows_of(slots)
        return self._last[1]

    def lights_before(self, slots: DeviceArray) -> LightRows:
        """Return the lights of slots (B,) before the last step; at the start of an episode the current ones."""
        bank_rows = self.taken(self.bank_rows, slots)
        return LightRows(self.taken(self.before.frames, slots), bank_rows, self.traffic.arrays.lights)

    def _is_last(self, slots: DeviceArray) -> bool:
        """Return whether these slots were requested last; only compared on the processor."""
        return self._last is not None and self.backend.is_serial and np.array_equal(self._last[0], slots)

    def taken(self, array: DeviceArray, slots: DeviceArray) -> DeviceArray:
        """Return the rows of slots (B,) of an array (N, ...)."""
        if self.backend.is_serial:
            return array[slots]
        if slots is self.every or slots is self.going:
            return array
        return self.backend.array(self.backend.tensor(array)[self.backend.tensor(slots)])


def _make_positions(backend: Backend, size: int) -> RoutePositions:
    """Return positions of slots without an episode."""
    return RoutePositions(
        frames=backend.full(size, -1, np.int64),
        routes=backend.full(size, -1, np.int64),
        positions=backend.zeros((size, 3)),
        expert_arcs_m=backend.zeros(size),
    )


@kernel_jit
def follow_avs(item: int, arguments: KernelArguments) -> None:
    """Write the positions of the AV of a slot on its route, now and before; at the start of an episode both are equal.

    Arguments: slots (B,); current frames of all slots; ``starts``, starts and points of ``paths`` and ``ego.arcs_m`` of
    BankArrays; boxes of all AVs, (N, 5); whether episodes begin; RoutePositions before and now, which are outputs.
    """
    slots, current, scenes, path_starts, points_m, arcs_m, boxes, begins, before, now = arguments
    current, scenes = SlotFrames(*current), SceneStarts(*scenes)
    before, now, slot = RoutePositions(*before), RoutePositions(*now), slots[item]
    if slot < 0 or current.frames[slot] < 0:
        return
    scene, position = current.bank_rows[slot], now.positions[slot]
    frame, route = scenes.frames[scene] + current.frames[slot], scenes.routes[scene]
    if begins:
        # A route may pass the same point twice, so the first search starts at the arc of the log.
        position[0] = arcs_m[frame]
    else:
        _copy(slot, now, before)
    follow_route(path_starts, points_m, route, boxes[slot], False, position)
    now.frames[slot], now.routes[slot], now.expert_arcs_m[slot] = frame, route, arcs_m[frame]
    if begins:
        _copy(slot, now, before)


@njit(nogil=True, inline="always")
def _copy(slot: int, positions: RoutePositions, copies: RoutePositions) -> None:
    """Copy the position of the AV of a slot."""
    copies.frames[slot], copies.routes[slot] = positions.frames[slot], positions.routes[slot]
    copies.expert_arcs_m[slot] = positions.expert_arcs_m[slot]
    for column in range(3):
        copies.positions[slot, column] = positions.positions[slot, column]
