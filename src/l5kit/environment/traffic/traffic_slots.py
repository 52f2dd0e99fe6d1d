"""Traffic slots: the road users of many environments, replayed or driven, moved in one call."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.device.opening import open_backend
from l5kit.device.processor import ProcessorBackend
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import DRIVEN, WAITING, TrafficRows, Vehicles
from l5kit.environment.traffic.traffic_steps import (
    NUM_MARKS,
    NUM_STEP_COLUMNS,
    SlotFrames,
    TrafficRoom,
    begin_step,
    enter_frame,
    move_vehicles,
    start_slots,
    step_in_turn,
    take_vehicles,
    write_rows,
    write_rows_in_turn,
)
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.intelligent_driver import AGENT_DRIVER
from l5kit.simulation.lanes.lane_following import NUM_COLUMNS, Drive, EgoRows
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS
from l5kit.simulation.lanes.path_bends import PathBends

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class DrivenRows:
    """K agents of B slots that are not at their logged poses in the current frames.

    Attributes:
        starts: First row of each slot and the end of the last one, int64 (B + 1,).
        track_ids: Track ids in the log, uint64 (K,).
        poses: World x, y and yaw, (K, 3); undefined for hidden agents.
        velocities_mps: World x and y, (K, 2); undefined for hidden agents.
        is_hidden: Mask of agents that wait for room and are absent; the others are driven, (K,).
    """

    starts: Int64Array
    track_ids: NumericArray
    poses: Float64Array
    velocities_mps: Float64Array
    is_hidden: BoolArray


class TrafficSlots:
    """Road users of N environments, each at a frame of its own scene.

    Drivers move vehicles by the rules of ``AgentControl.of_traffic(tracks=driver.tracks)``: a vehicle that follows
    lanes is driven once it is within 100 m of the AV, and leaves at the end of its log; a vehicle that would appear
    inside another box waits. Results are those of ``SceneSimulation`` with all frames of the scenes, and do not depend
    on the other slots of a call; on a GPU functions such as sine and cosine are rounded differently. A step is
    :meth:`step`, then :meth:`enter` with the moved AVs.

    On the processor arrays are NumPy arrays, and invalid slots and frames raise errors. On a device they are torch
    tensors, and kernels skip them: a slot in the last frame of its scene does not change, and invalid slot numbers are
    ignored.

    Args:
        bank: The scenes. On a device all scenes in use must be prepared first, as they are copied there.
        num_slots: Number of environments, N, at least 1.
        drives: Driver of vehicles; None to replay all agents.
        has_actors: Whether actions drive some vehicles; the caller marks them in ``vehicles``.
        backend: Backend of the arrays and kernels, from :func:`l5kit.device.opening.open_backend`; None for the
            processor.

    Attributes:
        bank: The scenes.
        drives: Driver of vehicles.
        backend: Backend of the arrays and kernels.
        arrays: The scenes as kernel arrays.
        current: Frames and scenes of the slots.
        vehicles: Vehicles that may be driven.
        room: Work buffers of a step.

    Raises:
        InvalidArgumentError: The bank has no paths for the driver, another speed limit than the driver, or no scenes
            for a device, or there are no slots.
    """

    def __init__(
        self,
        bank: SceneBank,
        num_slots: int,
        *,
        drives: IntelligentDriver | None,
        has_actors: bool = False,
        backend: Backend | None = None,
    ) -> None:
        if num_slots < 1:
            raise InvalidArgumentError(f"num_slots is {num_slots}; pass at least 1")
        # the driver must be supported, and fit the paths of the bank
        if drives is not None:
            if drives.gives_way or drives.lane_changes is not None:
                raise InvalidArgumentError(
                    "drives gives way or changes lanes, which vehicles of slots do not support; leave gives_way and "
                    "lane_changes out"
                )
            if not bank.drives_agents:
                raise InvalidArgumentError(
                    "drives is a driver, but the bank has no paths; create it with drives_agents=True"
                )
            if drives.unknown_limit_mps != bank.unknown_limit_mps:
                raise InvalidArgumentError(
                    f"drives has unknown_limit_mps {drives.unknown_limit_mps}, the bank {bank.unknown_limit_mps}; use "
                    "one value"
                )
        self.backend = backend = open_backend("cpu") if backend is None else backend
        if not backend.is_serial:
            require_scenes(bank)
        self.bank, self.drives = bank, drives
        self._take_up_bank()
        is_as_logged = drives is None and not has_actors
        self._near_m = -1.0 if is_as_logged else float(AgentControl.of_traffic().near_m)
        self._driver = drives or IntelligentDriver()
        self._params = self._driver.params or AGENT_DRIVER
        self._bends = PathBends(self._driver.max_lateral_mps2, self._params.max_braking_mps2)
        self._drive = self._drive_on_paths()
        self.current = SlotFrames(
            frames=backend.full(num_slots, -1, np.int64),
            bank_rows=backend.zeros(num_slots, np.int64),
            num_driven=backend.zeros(num_slots, np.int64),
        )
        self.vehicles = self._make_vehicles()
        self.room = self._make_room()
        self._memory = self._make_memory(0, 0)
        backend.wait()  # for data that other streams may read

    def __getstate__(self) -> dict[str, object]:
        """Return the state of a copy, without the arrays, which belong to the bank."""
        return {name: value for name, value in vars(self).items() if name != "arrays"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._take_up_bank()

    def __len__(self) -> int:
        return int(self.current.frames.shape[0])

    @property
    def frames(self) -> DeviceArray:
        """Current frame of each slot, counted in its scene, -1 for empty slots, int64 (N,)."""
        return self.current.frames

    @property
    def bank_rows(self) -> DeviceArray:
        """Scene of each slot, counted in the bank, int64 (N,)."""
        return self.current.bank_rows

    @property
    def most(self) -> int:
        """Largest number of agents of a slot."""
        return self._most_rows + self._most_vehicles

    def start(self, slots: Int64Array, bank_rows: Int64Array, frames: Int64Array) -> None:
        """Put slots (B,) at frames (B,) of scenes (B,), with all agents at their logged poses.

        Args:
            slots: The slots, all different; this and the other arrays are in host memory.
            bank_rows: Their scenes, as returned by :meth:`SceneBank.prepare`.
            frames: Their frames, counted in the scenes.

        Raises:
            IndexOutOfRangeError: A slot, scene or frame does not exist.
            InvalidArgumentError: The arrays differ in length, or scenes were added to the bank after it was copied.
        """
        # Take over scenes that were added to the bank. Vehicles keep their states, and buffers are only replaced if
        # they are too small.
        if self._num_scenes != len(self.bank):
            if not self.backend.is_serial:
                raise InvalidArgumentError(
                    f"bank has {len(self.bank)} scenes, but {self._num_scenes} are on {self.backend.device}; prepare "
                    "all scenes before they are uploaded"
                )
            before, vehicles = self.most, self.vehicles
            self._take_up_bank()
            self._drive = self._drive_on_paths()
            num_vehicles = vehicles.states.shape[1]
            if self._most_vehicles > num_vehicles:
                self.vehicles = self._make_vehicles()
                for new, old in zip(self.vehicles, vehicles, strict=True):
                    new[:, :num_vehicles] = old
            if self.most > before:
                self.room = self._make_room()

        # one copy to the device for slots, scenes and frames
        orders = [np.asarray(each, np.int64) for each in (slots, bank_rows, frames)]
        if any(each.shape != (len(orders[0]),) for each in orders):
            raise InvalidArgumentError(
                f"slots, bank_rows and frames have shapes {[each.shape for each in orders]}; pass one number each for "
                "every slot"
            )
        require_range("slots", orders[0], np.int64(len(self)))
        require_range("bank_rows", orders[1], np.int64(len(self.bank)))
        starts = self.bank.frame_starts
        require_range("frames", orders[2], starts[orders[1] + 1] - starts[orders[1]])
        uploaded = self.backend.upload_one(np.stack(orders))
        self.backend.run(start_slots, len(orders[0]), uploaded, self.current, self.vehicles.states)

    def step(
        self,
        slots: "Int64Array | torch.Tensor",
        ego_boxes: "Float64Array | torch.Tensor",
        ego_velocities_mps: "Float64Array | torch.Tensor",
    ) -> None:
        """Move all agents of slots (B,) to the next frame; :meth:`enter` completes the step.

        Args:
            slots: The slots, all different, int64.
            ego_boxes: The AVs in the current frames, world x, y, yaw, length and width, float64 (B, 5).
            ego_velocities_mps: Their velocities, float64 (B, 2).

        Raises:
            InvalidArgumentError: The arrays have other shapes, or tensors another dtype or device.
            IndexOutOfRangeError: A slot does not exist, or has no next frame; only on the processor.
        """
        given = self._slots_of(slots)
        if self.backend.is_serial:
            ends = self.bank.frame_starts[self.bank_rows[given] + 1] - self.bank.frame_starts[self.bank_rows[given]]
            require_range("the next frame of slots", self.frames[given] + 1, ends)
        boxes = self._array_of("ego_boxes", ego_boxes, (len(given), 5))
        self.move(given, (boxes, self._array_of("ego_velocities_mps", ego_velocities_mps, (len(given), 2))))

    def enter(self, slots: "Int64Array | torch.Tensor", ego_boxes: "Float64Array | torch.Tensor") -> None:
        """Make vehicles wait that would appear inside another box in the current frames of slots (B,).

        Args:
            slots: Slots that have been stepped, all different, int64.
            ego_boxes: The AVs in the current frames, float64 (B, 5).

        Raises:
            InvalidArgumentError: An array has another shape, or a tensor another dtype or device.
            IndexOutOfRangeError: A slot does not exist; only on the processor.
        """
        given = self._slots_of(slots)
        self.let_in(given, self._array_of("ego_boxes", ego_boxes, (len(given), 5)))

    def move(self, slots: DeviceArray, ego: EgoRows) -> None:
        """Run :meth:`step` on arrays of the backend, without checks."""
        bank, vehicles, room = self.arrays, self.vehicles, self.room
        of_bank = (bank.starts, bank.rows, bank.paths, bank.path_last_frames)
        begin = (slots, ego, self.current, *of_bank, vehicles, self._near_m, room)
        move = (slots, vehicles, bank.paths, bank.lights, self._drive, room)
        if self.backend.is_serial:
            assert isinstance(self.backend, ProcessorBackend)
            self.backend.run_loop(step_in_turn, len(slots), begin, move)
            return
        self.backend.run(begin_step, len(slots), *begin)
        if self.drives is not None:
            self.backend.run(move_vehicles, len(slots) * self._most_vehicles, *move)

    def let_in(self, slots: DeviceArray, ego_boxes: DeviceArray) -> None:
        """Run :meth:`enter` on arrays of the backend, without checks."""
        if self._near_m <= 0:
            return
        bank = self.arrays
        arguments = (slots, ego_boxes, self.current, bank.starts, bank.rows, self.vehicles, self._near_m, self.room)
        self.backend.run(enter_frame, len(slots), *arguments)

    def take_over(self, slots: DeviceArray, ego_boxes: DeviceArray) -> None:
        """Let drivers take over vehicles near the AVs (B, 5) now, as at the beginning of the next step."""
        bank = self.arrays
        arguments = (ego_boxes, self.current, bank.starts, bank.rows, bank.paths, self.vehicles, self._near_m)
        self.backend.run(take_vehicles, len(slots), slots, *arguments)

    def rows(self, slots: "Int64Array | torch.Tensor") -> TrafficRows:
        """Return the agents in the current frames of slots (B,), int64, in memory that the next call reuses.

        They are in the order of the log, followed by driven vehicles that the log does not have in the frame.

        Raises:
            InvalidArgumentError: ``slots`` has another dtype or device.
            IndexOutOfRangeError: A slot does not exist, or is empty; only on the processor.
        """
        return self.rows_of(self._slots_of(slots))

    def rows_of(self, slots: DeviceArray) -> TrafficRows:
        """Run :meth:`rows` on an array of the backend, without checks."""
        if not self.backend.is_serial:
            if len(slots) != self._memory.sizes.shape[0]:
                self._memory = self._make_memory(len(slots), len(slots) * self.most)
            self._write_rows(slots, self._memory)
            return self._memory

        # on the processor allocate for the most rows that these frames can have, and return views of the written part
        frames = self.bank.frame_starts[self.bank_rows[slots]] + np.maximum(self.frames[slots], 0)
        of_log = self.bank.rows.starts[frames + 1] - self.bank.rows.starts[frames]
        most = int(of_log.sum() + self.current.num_driven[slots].sum())
        if most > len(self._memory.groups):
            self._memory = self._make_memory(0, most + most // 4)
        rows = self._memory._replace(sizes=np.empty(len(slots), np.int64), starts=np.empty(len(slots) + 1, np.int64))
        self._write_rows(slots, rows)
        end = int(rows.starts[-1])
        return TrafficRows(rows.sizes, rows.starts, *(column[:end] for column in rows[2:]))

    def _write_rows(self, slots: DeviceArray, rows: TrafficRows) -> None:
        """Write the agents in the current frames of slots (B,) into rows."""
        bank = self.arrays
        of_bank = (bank.starts, bank.rows, bank.path_tracks)
        arguments = (slots, self.current, *of_bank, self.vehicles, self.room, rows)
        if self.backend.is_serial:
            write_rows_in_turn(len(slots), arguments)
        else:
            self.backend.run(write_rows, len(slots), *arguments)

    def num_driven(self, slots: Int64Array) -> Int64Array:
        """Return the number of agents that were driven into the current frames of slots (B,), (B,)."""
        counts: Int64Array = self._on_host(self.current.num_driven)[slots]
        return counts

    def driven_rows(self, slots: Int64Array) -> DrivenRows:
        """Return the driven and hidden agents in the current frames of slots (B,).

        Raises:
            IndexOutOfRangeError: A slot does not exist, or is empty.
        """
        slots = self._require_started(slots)
        vehicles = Vehicles(*map(self._on_host, self.vehicles))
        states = vehicles.states[slots]
        of_slots, of_vehicles = np.nonzero((states <= WAITING) | (states >= DRIVEN))
        # the first path of a scene is that of the AV, and vehicle 0 has the next one
        paths = self.bank.routes[self._on_host(self.bank_rows)[slots]][of_slots] + 1 + of_vehicles
        is_hidden: BoolArray = states[of_slots, of_vehicles] <= WAITING
        return DrivenRows(
            starts=np.searchsorted(of_slots, np.arange(len(slots) + 1)).astype(np.int64),
            track_ids=self.bank.track_ids[self.bank.path_tracks[paths]],
            poses=vehicles.boxes[slots[of_slots], of_vehicles, :3],
            velocities_mps=vehicles.velocities_mps[slots[of_slots], of_vehicles],
            is_hidden=is_hidden,
        )

    def _slots_of(self, slots: "Int64Array | torch.Tensor") -> DeviceArray:
        """Return slots as an array for kernels."""
        if self.backend.is_serial:
            return self._require_started(np.asarray(slots))
        return self._array_of("slots", slots, (len(slots),), dtype="int64")

    def _require_started(self, slots: Int64Array) -> Int64Array:
        """Return slots as a contiguous array; raise if one is empty."""
        require_range("slots", slots, np.int64(len(self)))
        frames = self._on_host(self.frames)[slots]
        if len(frames) and frames.min() < 0:
            raise IndexOutOfRangeError(f"no scene has started in slot {int(slots[np.argmin(frames)])}; call start()")
        return np.ascontiguousarray(slots, np.int64)

    def _array_of(self, name: str, given: Any, shape: tuple[int, ...], *, dtype: str = "float64") -> DeviceArray:
        """Return an array, or a tensor on a device, as an array for kernels."""
        if not self.backend.is_serial:
            import torch

            from l5kit.device.tensors import as_device_array

            return as_device_array(name, given, shape, self.backend, dtype=getattr(torch, dtype))
        array = np.ascontiguousarray(given, dtype)
        if array.shape != shape:
            raise InvalidArgumentError(f"{name} must have shape {shape}, got {array.shape}")
        return array

    def _on_host(self, array: DeviceArray) -> NumericArray:
        """Return an array of the backend in host memory."""
        if self.backend.is_serial:
            return cast("NumericArray", array)
        copied: NumericArray = self.backend.tensor(array).cpu().numpy()
        return copied

    def _take_up_bank(self) -> None:
        """Copy all scenes to a device, or take the arrays of the bank on the processor."""
        bank = self.bank
        self.arrays = self.backend.shared(bank.arrays)
        self._num_scenes, self._most_rows = len(bank), int(np.diff(bank.rows.starts).max(initial=0))
        self._most_vehicles = max(int(np.diff(bank.routes).max(initial=1)) - 1, 1)

    def _drive_on_paths(self) -> Drive:
        """Return the parameters of the driver on the paths of the bank, as a kernel argument."""
        parameters, part = self._params.kernel_parameters, float(self._driver.limit_part)
        step_s, bends_mps = float(self.bank.log.facts.step_time_s), self.backend.zeros(0)
        if self.drives is not None:
            bends_mps = self._bends.on(self.bank.paths)
            bends_mps = bends_mps if self.backend.is_serial else self.backend.upload_one(bends_mps)
        return parameters, part, step_s, bends_mps

    def _make_vehicles(self) -> Vehicles:
        """Return vehicles that are all at their logged poses."""
        shape, backend = (len(self), self._most_vehicles), self.backend
        return Vehicles(
            states=backend.zeros(shape, np.int8),
            motions=backend.zeros((*shape, NUM_COLUMNS)),
            boxes=backend.zeros((*shape, 5)),
            velocities_mps=backend.zeros((*shape, 2)),
            groups=backend.zeros(shape, np.int64),
        )

    def _make_room(self) -> TrafficRoom:
        """Return work buffers of a step, one for each slot that is stepped at the same time."""
        size, most, most_vehicles, backend = len(self), self.most, self._most_vehicles, self.backend
        size = backend.rows_at_once(size)
        return TrafficRoom(
            present=backend.empty((size, most), np.int64),
            marks=backend.empty((size, NUM_MARKS, most), np.bool_),
            objects=backend.empty((size, most + 1, OBJECT_FIELDS)),
            object_rows=backend.empty((size, most_vehicles), np.int64),
            driven=backend.empty((size, most_vehicles), np.int32),
            steps=backend.zeros((size, NUM_STEP_COLUMNS), np.int64),
            poses=backend.empty((size, most_vehicles, 1, 3)),
        )

    def _make_memory(self, size: int, num_rows: int) -> TrafficRows:
        """Return memory for the agents of some slots, with ``num_rows`` rows."""
        backend = self.backend
        return TrafficRows(
            sizes=backend.empty(size, np.int64),
            starts=backend.upload_one(np.arange(size + 1) * (num_rows // max(size, 1))),
            groups=backend.empty(num_rows, np.int64),
            boxes=backend.zeros((num_rows, 5)),
            velocities_mps=backend.zeros((num_rows, 2)),
            track_rows=backend.zeros(num_rows, np.int64),
        )


def require_scenes(bank: SceneBank) -> None:
    """Raise if a bank is empty, for backends that copy it only once."""
    if len(bank) == 0:
        raise InvalidArgumentError("bank has no scenes; call bank.prepare() with all scenes that are to be driven")


def require_range(name: str, values: Int64Array, ends: Int64Array | np.int64, *, first: int = 0) -> None:
    """Raise if values are below the first one, or not below their ends."""
    is_wrong = (values < first) | (values >= ends)
    if is_wrong.any():
        index = int(np.argmax(is_wrong))
        last = int(np.broadcast_to(ends, values.shape)[index]) - 1
        raise IndexOutOfRangeError(f"{name} has {int(values[index])}; it may be {first} to {last}")
