"""Device simulation: AVs and road users of many scenes, moved and checked on a device in each step."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.actors.logged_start import states_at_start
from l5kit.environment.device.device_arrays import as_device_array
from l5kit.environment.device.device_simulation_kernels import (
    BICYCLE,
    CURVATURE,
    NUM_NUMBERS,
    REPLAY,
    UNICYCLE,
    AvArrays,
    check_avs,
    move_avs,
    start_avs,
)
from l5kit.environment.rewards.step_faults import surface_arrays
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots, require_scenes
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.lanes.driving_map import DrivingMap
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.vehicle_models import InvertibleBicycle, KinematicBicycle, Unicycle

__all__ = ["AvArrays", "DeviceModel", "DeviceSimulation", "StepResult"]

DeviceModel: TypeAlias = Unicycle | InvertibleBicycle | KinematicBicycle
"""A vehicle model that moves AVs on a device."""

_KINDS = {Unicycle: UNICYCLE, InvertibleBicycle: CURVATURE, KinematicBicycle: BICYCLE}


@dataclass(frozen=True, eq=False)
class StepResult:
    """How N AVs and their scenes stand after a step, on the device, in memory that the next step uses again.

    Attributes:
        poses: World x and y of the centre and yaw, metres and radians, float64 (N, 3).
        speeds_mps: Along the heading, negative backwards, float64 (N,).
        is_collided: Whether the box of the AV overlaps that of a road user now, bool (N,).
        off_road_m: How far the farthest corner is from the drivable surface, infinite from half a metre on, 0 without a
            map, float64 (N,).
        is_over: Whether the scene is in its last frame, or nothing has started: further steps do not change the slot,
            bool (N,).
        num_driven: Agents that were driven into the frame, int64 (N,).
    """

    poses: torch.Tensor
    speeds_mps: torch.Tensor
    is_collided: torch.Tensor
    off_road_m: torch.Tensor
    is_over: torch.Tensor
    num_driven: torch.Tensor

    def clone(self) -> "StepResult":
        """Return a copy in memory of its own."""
        return StepResult(*(getattr(self, each.name).clone() for each in fields(self)))


class DeviceSimulation:
    """N scenes on a device, all of which make each step at the same time.

    The AV is where the log has it, or is driven by actions through a vehicle model. Road users are those of
    :class:`~l5kit.environment.traffic.traffic_slots.TrafficSlots`. Nothing comes back to the processor unless somebody
    looks at a result. All calls belong in one stream of torch.

    Args:
        bank: The scenes, which are copied to the device; all that are to be driven must be prepared.
        num_slots: N, at least 1.
        model: How actions move AVs; None to replay them.
        drives: Who drives other vehicles; None to replay all agents.
        backend: The device, as :func:`l5kit.device.opening.open_backend` opens it.

    Attributes:
        bank: As above.
        model: As above.
        backend: As above.
        traffic: The road users.
        avs: The AVs, as kernels take them.

    Raises:
        InvalidArgumentError: The bank has no scenes, no paths for the driver, or was made with another speed limit,
            there are no slots, or the model is another.
    """

    def __init__(
        self,
        bank: SceneBank,
        num_slots: int,
        *,
        model: DeviceModel | None,
        drives: IntelligentDriver | None,
        backend: Backend,
    ) -> None:
        require_scenes(bank)
        self._step_s = float(bank.log.facts.step_time_s)
        self._mover = _mover_of(model, self._step_s)
        self.traffic = TrafficSlots(bank, num_slots, drives=drives, backend=backend)
        self.bank, self.model, self.backend = bank, model, backend
        self._bank_rows = {scene: row for row, scene in enumerate(bank.scenes.tolist())}
        self._every = backend.upload_one(np.arange(num_slots))
        length_m, width_m, _ = bank.log.facts.ego_extent_m
        self._size_m = (float(length_m), float(width_m))
        self.avs = AvArrays(
            boxes=backend.upload_one(np.tile([0.0, 0.0, 0.0, *self._size_m], (num_slots, 1))),
            velocities_mps=backend.zeros((num_slots, 2), np.float64),
            motions=backend.zeros((num_slots, 3), np.float64),
            num_starts=backend.zeros(num_slots, np.int64),
        )
        self._no_actions = backend.zeros((num_slots, 2), np.float64)
        self._surface = _upload_surface(None if bank.road is None else bank.road.driving, backend)
        self._corners = (
            backend.zeros((num_slots, 4, 2), np.float64),
            backend.full((num_slots, 4), -1, np.int64),
        )
        self._found = (
            backend.zeros(num_slots, np.bool_),
            backend.zeros(num_slots, np.float64),
            backend.full(num_slots, True, np.bool_),
        )
        boxes, motions = backend.tensor(self.avs.boxes), backend.tensor(self.avs.motions)
        is_collided, off_road_m, is_over = (backend.tensor(array) for array in self._found)
        num_driven = backend.tensor(self.traffic.places.num_driven)
        self._result = StepResult(boxes[:, :3], motions[:, 0], is_collided, off_road_m, is_over, num_driven)
        backend.wait()  # for what other streams may read

    def __len__(self) -> int:
        return len(self.traffic)

    @property
    def boxes(self) -> torch.Tensor:
        """The AVs: world x, y, yaw, length and width, metres and radians, float64 (N, 5); not a copy."""
        return self.backend.tensor(self.avs.boxes)

    @property
    def motions(self) -> torch.Tensor:
        """Their speeds in m/s, accelerations in m/s2 and steering in rad, float64 (N, 3); not a copy."""
        return self.backend.tensor(self.avs.motions)

    @property
    def map_checks(self) -> tuple[tuple[Any, ...], DeviceArray, DeviceArray]:
        """The drivable surface, corners of all AVs, (N, 4, 2), and how far off the road they are, (N,), for kernels."""
        return self._surface, self._corners[0], self._found[1]

    @property
    def slots(self) -> DeviceArray:
        """All slots, int64 (N,), as kernels take them."""
        return self._every

    def reset(
        self,
        scene_indices: Sequence[int] | Int64Array,
        frame_indices: Sequence[int] | Int64Array,
        slots: Sequence[int] | Int64Array | None = None,
    ) -> StepResult:
        """Put slots (B,) at frames (B,) of scenes (B,) of the log, with everybody where the log has them.

        An AV that is driven starts with the speed and the turn of the step before, as in all environments, a replayed
        one with those of the log.

        Args:
            scene_indices: Scenes of the log.
            frame_indices: Their frames, counted in the scenes; those of driven AVs are 1 or later.
            slots: Which slots, none of them twice; None for all, (N,).

        Raises:
            IndexOutOfRangeError: There is no such slot or frame, or a scene is not prepared.
            InvalidArgumentError: The arrays differ in length, or the bank has got more scenes since it was uploaded.
        """
        self.traffic.arrays.require_same(self.bank, self.backend)
        chosen = np.arange(len(self)) if slots is None else np.asarray(slots, np.int64)
        frames, scenes = np.asarray(frame_indices, np.int64), np.asarray(scene_indices, np.int64)
        if not chosen.shape == frames.shape == scenes.shape == (chosen.size,):
            raise InvalidArgumentError(
                f"scene_indices, frame_indices and slots have shapes {scenes.shape}, {frames.shape} and "
                f"{chosen.shape}; pass one number each for every slot"
            )
        bank_rows = self._rows_of(scenes)
        self._require_frames(bank_rows, frames)
        self.traffic.start(chosen, bank_rows, frames)
        self._start(chosen, self._states_at(bank_rows, frames))
        return self._result

    def step(self, actions: torch.Tensor | None = None) -> StepResult:
        """Move all scenes one frame on, but for those that are over, and return how they stand.

        Args:
            actions: What AVs do, float64 or float32 (N, 2) on the device, which must be finite; the class of the model
                says what the two numbers mean. None where AVs are replayed.

        Raises:
            InvalidArgumentError: Actions are missing, or not wanted, or of another shape or type, or on another device.
        """
        given, traffic, bank = self._actions_of(actions), self.traffic, self.traffic.arrays
        avs = self.avs
        traffic.move(self._every, (avs.boxes, avs.velocities_mps))
        places, is_over = traffic.places, self._found[2]
        self.backend.run(move_avs, len(self), places, bank.scenes, bank.ego, is_over, avs, given, self._mover)
        traffic.let_in(self._every, avs.boxes)
        self._check(self._every)
        return self._result

    def _start(self, slots: Int64Array, states: Float64Array) -> None:
        """Put AVs of slots (B,) where they start, let others in, and check them."""
        boxes = np.column_stack([states[:, :3], np.tile(self._size_m, (len(slots), 1))])
        of_slots, of_states, of_boxes = self.backend.upload([slots, states, boxes])
        self.backend.run(start_avs, len(slots), of_slots, of_states, self.avs, self._corners[1])
        self.traffic.let_in(of_slots, of_boxes)
        self._check(of_slots)

    def _check(self, slots: DeviceArray) -> None:
        """Write how AVs of slots (B,) stand."""
        traffic, boxes = self.traffic, self.avs.boxes
        bank, places, seats, room = traffic.arrays, traffic.places, traffic.seats, traffic.room
        arguments = (slots, places, bank.scenes, bank.rows, seats, room, self._surface, boxes)
        self.backend.run(check_avs, len(slots), *arguments, self._corners, self._found)

    def _rows_of(self, scenes: Int64Array) -> Int64Array:
        """Return where scenes of the log are in the bank."""
        missing = [scene for scene in scenes.tolist() if scene not in self._bank_rows]
        if missing:
            raise IndexOutOfRangeError(
                f"scene_indices has {missing[0]}, which is not on {self.backend.device}; prepare it in the bank before "
                "the simulation is made"
            )
        return np.array([self._bank_rows[scene] for scene in scenes.tolist()], np.int64)

    def _require_frames(self, bank_rows: Int64Array, frames: Int64Array) -> None:
        """Refuse frames that scenes do not have, or in which an AV that is driven cannot start."""
        first, name = (0, "frame_indices") if self.model is None else (1, "frame_indices of driven AVs")
        ends = np.diff(self.bank.frame_starts)[bank_rows]
        is_wrong = (frames < first) | (frames >= ends)
        if is_wrong.any():
            place = int(np.argmax(is_wrong))
            raise IndexOutOfRangeError(f"{name} has {int(frames[place])}; it may be {first} to {int(ends[place]) - 1}")

    def _states_at(self, bank_rows: Int64Array, frames: Int64Array) -> Float64Array:
        """Return x, y, yaw, speed, acceleration and steering of AVs that start, (B, 6)."""
        rows = self.bank.frame_starts[bank_rows] + frames
        if self.model is None:
            return np.column_stack([self.bank.ego_poses[rows], self.bank.ego_motion[rows][:, [0, 1, 3]]])
        poses = self.bank.ego_poses
        states, _ = states_at_start(poses[rows - 1], poses[rows], length_m=self._size_m[0], step_time_s=self._step_s)
        motion = (states.speeds_mps, states.accelerations_mps2, states.steering_rad)
        return np.column_stack([states.positions_m, states.yaws_rad, *motion])

    def _actions_of(self, actions: torch.Tensor | None) -> DeviceArray:
        """Return actions as kernels take them."""
        if (actions is None) != (self.model is None):
            raise InvalidArgumentError(
                "actions is None, but AVs are driven; pass a tensor (N, 2)"
                if actions is None
                else "actions are given, but AVs are replayed; make the simulation with a model, or pass None"
            )
        if actions is None:
            return self._no_actions
        doubles = actions.double() if actions.dtype == torch.float32 else actions
        return as_device_array("actions", doubles, (len(self), 2), self.backend)


def _mover_of(model: DeviceModel | None, step_time_s: float) -> tuple[int, tuple[float, ...], float]:
    """Return what moves AVs, as kernels take it: its kind, its numbers, as many for each, and seconds of a step."""
    if model is None:
        return REPLAY, (0.0,) * NUM_NUMBERS, step_time_s
    kind = _KINDS.get(type(model))
    if kind is None:
        raise InvalidArgumentError(
            f"model is a {type(model).__name__}; on a device AVs are moved by {', '.join(k.__name__ for k in _KINDS)}"
        )
    numbers = model.numbers(step_time_s) if isinstance(model, KinematicBicycle) else model.numbers()
    return kind, numbers + (0.0,) * (NUM_NUMBERS - len(numbers)), step_time_s


def _upload_surface(driving_map: DrivingMap | None, backend: Backend) -> tuple[Any, ...]:
    """Return the drivable surface on a device, in the order of ``SurfaceArrays``."""
    grid, points_m, starts, is_in_junction, ahead = surface_arrays(driving_map)
    bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows = grid
    arrays = (bounds_m, origin_m, cell_m, cell_starts, cell_rows, points_m, starts, is_in_junction, *ahead)
    bounds, origin, cell, firsts, rows, *others, ahead_starts, ahead_rows = backend.upload(arrays)
    return (bounds, radius_m, origin, cell, num_cells, firsts, rows), *others, (ahead_starts, ahead_rows)
