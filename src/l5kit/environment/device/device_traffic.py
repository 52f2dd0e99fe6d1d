"""Device traffic: the road users of many environments on a device, moved one step in a few kernels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.device.device_arrays import as_device_array, as_device_slots
from l5kit.environment.device.device_bank import DeviceBank
from l5kit.environment.device.device_traffic_kernels import (
    NUM_MARKS,
    NUM_STEP_COLUMNS,
    begin_step,
    enter_frame,
    move_seats,
    start_slots,
    write_all_rows,
)
from l5kit.environment.traffic.driver_numbers import DriverNumbers
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import require_paths, require_range
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.lanes.lane_following import NUM_COLUMNS
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceRows", "DeviceSeats", "DeviceTraffic", "RowMemory", "TrafficArrays"]

TrafficArrays = tuple[
    tuple[DeviceArray, DeviceArray, DeviceArray], tuple[DeviceArray, ...], tuple[DeviceArray, DeviceArray]
]
"""Frames, scenes and numbers of driven agents of all slots; seats; room for who is there and for marks."""

RowMemory = tuple[DeviceArray, DeviceArray, tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]]
"""Room for agents of B slots: how many they are, (B,), first row of each slot and the end of the last one, (B + 1,),
and of each row group, box, velocity and track."""


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """The agents of the current frames of B slots on a device, in M rows each, of which the last ones may be empty.

    Attributes:
        counts: Number of agents of each slot, int64 (B,).
        groups: A ``RoadUserGroup`` of each, NONE for what is no road user and in empty rows, int64 (B, M).
        boxes: World x and y of the centre, yaw, length and width, metres and radians, float64 (B, M, 5).
        velocities_mps: World x and y, float64 (B, M, 2).
        track_rows: Rows of ``track_ids`` of the bank, int64 (B, M).
    """

    counts: "torch.Tensor"
    groups: "torch.Tensor"
    boxes: "torch.Tensor"
    velocities_mps: "torch.Tensor"
    track_rows: "torch.Tensor"


@dataclass(frozen=True, eq=False)
class DeviceSeats:
    """The vehicles with a path of N slots, T each, of which the last ones may not be there, on a device.

    Attributes:
        states: 0 for who is where the log has it, 1 for who is driven, 2 for who waits for room, int8 (N, T).
        boxes: World x and y, yaw, length and width of those that are driven, metres and radians, float64 (N, T, 5).
        velocities_mps: Their world x and y, float64 (N, T, 2).
    """

    states: "torch.Tensor"
    boxes: "torch.Tensor"
    velocities_mps: "torch.Tensor"


class DeviceTraffic:
    """The road users of N environments on a device, each at a frame of a scene of its own.

    The twin of :class:`~l5kit.environment.traffic.traffic_slots.TrafficSlots`: the same drivers on the same paths, with
    the same numbers on the processor as device, and on a GPU the same but for rounding of sines, cosines and the like.
    Where the processor refuses, kernels go on: a slot in the last frame of its scene stays as it is, and numbers of
    slots that are none are passed over.

    Args:
        bank: The scenes, which are copied to the device; all that are to be driven must be prepared.
        num_slots: Number of environments, N, at least 1.
        drives: Who drives vehicles; None to replay all agents.
        backend: The device, as :func:`l5kit.device.opening.open_backend` opens it.

    Attributes:
        bank: As above.
        drives: As above.
        backend: As above.
        on_device: The scenes on the device.

    Raises:
        InvalidArgumentError: The bank has no scenes, no paths for the driver, or was made with another speed limit, or
            there are no slots.
    """

    def __init__(self, bank: SceneBank, num_slots: int, *, drives: IntelligentDriver | None, backend: Backend) -> None:
        if num_slots < 1:
            raise InvalidArgumentError(f"num_slots is {num_slots}; pass at least 1")
        if drives is not None:
            require_paths(bank, drives)
        self.bank, self.drives, self.backend = bank, drives, backend
        self.on_device = DeviceBank.upload(bank, backend)
        self._near_m = -1.0 if drives is None else float(AgentControl.of_traffic().near_m)
        self._drive = _driver_on(bank, drives, backend)
        self._every = backend.upload_one(np.arange(num_slots))
        self._places = (
            backend.full(num_slots, -1, np.int64),
            backend.zeros(num_slots, np.int64),
            backend.zeros(num_slots, np.int64),
        )
        self._num_slots, self._most_seats = num_slots, self.on_device.most_seats
        self._most = self.on_device.most_rows + self._most_seats
        self._seats = self._make_seats()
        self._present = backend.empty((num_slots, self._most), np.int64)
        self._marks = backend.empty((num_slots, NUM_MARKS, self._most), np.bool_)
        self._objects = backend.empty((num_slots, self._most + 1, OBJECT_FIELDS), np.float64)
        self._numbers = backend.empty((num_slots, self._most_seats), np.int64)
        self._driven = backend.empty((num_slots, self._most_seats), np.int32)
        self._steps = backend.zeros((num_slots, NUM_STEP_COLUMNS), np.int64)
        self._poses = backend.empty((num_slots, self._most_seats, 1, 3), np.float64)
        backend.wait()  # for what other streams may read

    def __len__(self) -> int:
        return self._num_slots

    @property
    def every(self) -> "torch.Tensor":
        """All slots, int64 (N,)."""
        return self.backend.tensor(self._every)

    @property
    def frames(self) -> "torch.Tensor":
        """Current frame of each slot, counted in its scene, -1 where nothing has started, int64 (N,); not a copy."""
        return self.backend.tensor(self._places[0])

    @property
    def bank_rows(self) -> "torch.Tensor":
        """The scene of each slot, counted in the bank, int64 (N,); not a copy."""
        return self.backend.tensor(self._places[1])

    @property
    def num_driven(self) -> "torch.Tensor":
        """How many agents were driven into the current frame of each slot, int64 (N,); not a copy."""
        return self.backend.tensor(self._places[2])

    @property
    def arrays(self) -> TrafficArrays:
        """Places, seats, and room for who is there in a frame, as kernels take them."""
        return self._places, self._seats, (self._present, self._marks)

    @property
    def seats(self) -> DeviceSeats:
        """The vehicles that may be driven; not copies."""
        states, _, boxes, velocities_mps, _ = self._seats
        tensor = self.backend.tensor
        return DeviceSeats(tensor(states), tensor(boxes), tensor(velocities_mps))

    def start(self, slots: Int64Array, bank_rows: Int64Array, frames: Int64Array) -> None:
        """Put slots (B,), none of them twice, at frames (B,) of scenes (B,), with all agents where the log has them.

        Args:
            slots: The slots, in memory of the processor, like the others.
            bank_rows: Their scenes, as ``SceneBank.prepare`` returns them.
            frames: Their frames, counted in the scenes.

        Raises:
            IndexOutOfRangeError: There is no such slot, scene or frame.
            InvalidArgumentError: The bank has got more scenes since it was uploaded, or the arrays differ in length.
        """
        self.on_device.require_same(self.bank)
        orders = [np.asarray(each, np.int64) for each in (slots, bank_rows, frames)]
        if any(each.shape != (len(orders[0]),) for each in orders):
            raise InvalidArgumentError(
                f"slots, bank_rows and frames have shapes {[each.shape for each in orders]}; pass one number each for "
                "every slot"
            )
        require_range("slots", orders[0], np.int64(len(self)))
        require_range("bank_rows", orders[1], np.int64(len(self.bank)))
        require_range("frames", orders[2], np.diff(self.bank.frame_starts)[orders[1]])
        uploaded = self.backend.upload_one(np.stack(orders))
        self.backend.run(start_slots, len(orders[0]), uploaded, self._places, self._seats[0])

    def step(self, slots: "torch.Tensor", ego_boxes: "torch.Tensor", ego_velocities_mps: "torch.Tensor") -> None:
        """Move all agents of slots (B,), none of them twice, to the next frame; :meth:`enter` completes the step.

        Args:
            slots: The slots, int64 (B,) on the device.
            ego_boxes: The AVs in the current frames, world x, y, yaw, length and width, metres and radians, float64
                (B, 5) on the device.
            ego_velocities_mps: Their velocities, world x and y, float64 (B, 2) on the device.

        Raises:
            InvalidArgumentError: A tensor has another shape or type, or is on another device.
        """
        size = len(slots)
        boxes = as_device_array("ego_boxes", ego_boxes, (size, 5), self.backend)
        velocities = as_device_array("ego_velocities_mps", ego_velocities_mps, (size, 2), self.backend)
        self.move(as_device_slots(slots, self.backend), (boxes, velocities))

    def enter(self, slots: "torch.Tensor", ego_boxes: "torch.Tensor") -> None:
        """Let vehicles wait that would appear in the current frames of slots (B,) where a box stands.

        Args:
            slots: Slots that have made a step, none of them twice, int64 (B,) on the device.
            ego_boxes: The AVs in the frames that are current now, float64 (B, 5) on the device.

        Raises:
            InvalidArgumentError: A tensor has another shape or type, or is on another device.
        """
        boxes = as_device_array("ego_boxes", ego_boxes, (len(slots), 5), self.backend)
        self.let_in(as_device_slots(slots, self.backend), boxes)

    def move(self, slots: DeviceArray, ego: tuple[DeviceArray, DeviceArray]) -> None:
        """Do what :meth:`step` does, with arrays of the device: slots (B,), boxes (B, 5) and velocities (B, 2)."""
        bank, size = self.on_device, len(slots)
        room = (self._present, self._marks, self._objects, self._numbers, self._driven, self._steps)
        self.backend.run(
            begin_step,
            size,
            slots,
            self._places,
            bank.scenes,
            bank.rows,
            bank.paths,
            bank.path_last_frames,
            self._seats,
            ego,
            self._near_m,
            room,
        )
        if self._drive is not None:
            written = (self._objects, self._numbers, self._driven, self._steps, self._poses)
            num_items = size * self._most_seats
            self.backend.run(move_seats, num_items, slots, self._seats, bank.paths, bank.lights, self._drive, written)

    def let_in(self, slots: DeviceArray, ego_boxes: DeviceArray) -> None:
        """Do what :meth:`enter` does, with arrays of the device: slots (B,) and boxes (B, 5)."""
        if self._drive is not None:
            bank, room = self.on_device, (self._present, self._marks, self._objects)
            places, seats, near_m = self._places, self._seats, self._near_m
            self.backend.run(
                enter_frame, len(slots), slots, places, bank.scenes, bank.rows, seats, ego_boxes, near_m, room
            )

    def rows(self, slots: "torch.Tensor") -> DeviceRows:
        """Return the agents of the current frames of slots (B,), int64 on the device.

        They come in the order of ``TrafficSlots.rows``; a slot in which nothing has started has none.

        Raises:
            InvalidArgumentError: ``slots`` has another shape or type, or is on another device.
        """
        memory, shape, tensor = self.make_row_memory(len(slots)), (len(slots), self._most), self.backend.tensor
        self.write_rows(as_device_slots(slots, self.backend), memory)
        sizes, _, (groups, boxes, velocities_mps, tracks) = memory
        return DeviceRows(
            counts=tensor(sizes),
            groups=tensor(groups).reshape(shape),
            boxes=tensor(boxes).reshape(*shape, 5),
            velocities_mps=tensor(velocities_mps).reshape(*shape, 2),
            track_rows=tensor(tracks).reshape(shape),
        )

    def make_row_memory(self, size: int) -> RowMemory:
        """Return room for the agents of some slots."""
        backend, most = self.backend, self._most
        found = (
            backend.empty(size * most, np.int64),
            backend.zeros((size * most, 5), np.float64),
            backend.zeros((size * most, 2), np.float64),
            backend.zeros(size * most, np.int64),
        )
        return backend.empty(size, np.int64), backend.upload_one(np.arange(size + 1) * most), found

    def write_rows(self, slots: DeviceArray, memory: RowMemory) -> None:
        """Do what :meth:`rows` does, with arrays of the device: slots (B,), and room for their agents."""
        bank, (places, seats, room) = self.on_device, self.arrays
        scenes, rows, path_tracks = bank.scenes, bank.rows, bank.path_tracks
        self.backend.run(write_all_rows, len(slots), slots, places, scenes, rows, path_tracks, seats, room, *memory)

    def _make_seats(self) -> tuple[DeviceArray, ...]:
        """Return room for seats, all of which are where the log has them."""
        shape, backend = (self._num_slots, self._most_seats), self.backend
        return (
            backend.zeros(shape, np.int8),
            backend.zeros((*shape, NUM_COLUMNS), np.float64),
            backend.zeros((*shape, 5), np.float64),
            backend.zeros((*shape, 2), np.float64),
            backend.zeros(shape, np.int64),
        )


def _driver_on(
    bank: SceneBank, drives: IntelligentDriver | None, backend: Backend
) -> tuple[tuple[float, ...], float, float, DeviceArray] | None:
    """Return how vehicles are driven on the paths of a bank, as kernels on a device take it."""
    if drives is None:
        return None
    numbers, part, step_s, bends_mps = DriverNumbers(drives, bank.log.facts.step_time_s).on(bank.paths)
    return numbers, part, step_s, backend.upload_one(bends_mps)
