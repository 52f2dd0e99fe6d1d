"""Slot simulation: AVs and road users of many scenes, all moved and checked in one step, also on a device."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.device.tensors import as_device_array
from l5kit.environment.actors.logged_start import states_at_start
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.rewards.step_faults import surface_arrays
from l5kit.environment.slots.av_steps import (
    BICYCLE,
    CURVATURE,
    NUM_NUMBERS,
    REPLAY,
    UNICYCLE,
    check_avs,
    move_avs,
    start_avs,
)
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots, require_scenes
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.vehicle_models import InvertibleBicycle, KinematicBicycle, Unicycle

__all__ = ["MovingModel", "SlotSimulation", "StepResult"]

MovingModel: TypeAlias = Unicycle | InvertibleBicycle | KinematicBicycle
"""A vehicle model that moves AVs here."""

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


class SlotSimulation:
    """N scenes, all of which make each step at the same time, on the processor or a device.

    The AV is where the log has it, or is driven by actions through a vehicle model. Road users are those of
    :class:`~l5kit.environment.episode_roads.EpisodeRoads`, as in all environments. Nothing comes back to the processor
    from a device unless somebody looks at a result. All calls belong in one stream of torch.

    Args:
        bank: The scenes, which are copied to a device; all that are to be driven must be prepared.
        num_slots: N, at least 1.
        model: How actions move AVs; None to replay them.
        drives: Who drives other vehicles; None to replay all agents.
        backend: Where, as :func:`l5kit.device.opening.open_backend` opens it.

    Attributes:
        bank: As above.
        model: As above.
        backend: As above.
        roads: The road users and the routes.
        avs: The AVs, as kernels take them.
        is_new: Which AVs have done no step, as kernels take it, bool (N,).

    Raises:
        InvalidArgumentError: The bank has no scenes, no paths for the driver, or was made with another speed limit,
            there are no slots, or the model is another.
    """

    def __init__(
        self,
        bank: SceneBank,
        num_slots: int,
        *,
        model: MovingModel | None,
        drives: IntelligentDriver | None,
        backend: Backend,
    ) -> None:
        require_scenes(bank)
        self._step_s = float(bank.log.facts.step_time_s)
        self._mover = _mover_of(model, self._step_s)
        self.roads = EpisodeRoads(bank, num_slots, drives=drives, backend=backend)
        self.bank, self.model, self.backend = bank, model, backend
        self._bank_rows = {scene: row for row, scene in enumerate(bank.scenes.tolist())}
        length_m, width_m, _ = bank.log.facts.ego_extent_m
        self._length_m = float(length_m)
        self.avs = AvArrays(
            boxes=backend.upload_one(np.tile([0.0, 0.0, 0.0, length_m, width_m], (num_slots, 1))),
            velocities_mps=backend.zeros((num_slots, 2), np.float64),
            motions=backend.zeros((num_slots, 4), np.float64),
            motions_before=backend.zeros((num_slots, 4), np.float64),
        )
        self.is_new: DeviceArray = backend.zeros(num_slots, np.bool_)
        self._is_over: DeviceArray = backend.full(num_slots, True, np.bool_)
        self._no_actions = backend.zeros((num_slots, 2), np.float64)
        self._surface = backend.shared(surface_arrays(self.roads.driving_map))
        self._corners_m = backend.zeros((num_slots, 4, 2), np.float64)
        self._areas = backend.full((num_slots, 4), -1, np.int64)
        self._found = (backend.zeros(num_slots, np.bool_), backend.zeros(num_slots, np.float64))
        found = [backend.tensor(array) for array in (*self._found, self._is_over, self.traffic.places.num_driven)]
        self._result = StepResult(self.boxes[:, :3], self.motions[:, 0], *found)
        backend.wait()  # for what other streams may read

    def __len__(self) -> int:
        return len(self.traffic)

    @property
    def boxes(self) -> torch.Tensor:
        """The AVs: world x, y, yaw, length and width, metres and radians, float64 (N, 5); not a copy."""
        return self.backend.tensor(self.avs.boxes)

    @property
    def motions(self) -> torch.Tensor:
        """Their speeds, accelerations, yaw rates and steering, as in ``avs``, float64 (N, 4); not a copy."""
        return self.backend.tensor(self.avs.motions)

    @property
    def traffic(self) -> TrafficSlots:
        """The road users."""
        return self.roads.traffic

    @property
    def slots(self) -> DeviceArray:
        """All slots, as kernels take them."""
        return self.roads.every

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
        self._check(self.begin(scene_indices, frame_indices, slots))
        return self._result

    def begin(
        self,
        scene_indices: Sequence[int] | Int64Array,
        frame_indices: Sequence[int] | Int64Array,
        slots: Sequence[int] | Int64Array | None = None,
    ) -> DeviceArray:
        """Do what :meth:`reset` does, without a look at how AVs stand, and return the slots as kernels take them."""
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
        self.roads.start(chosen, bank_rows, frames)
        of_slots, states = self.backend.upload([chosen, self._states_at(bank_rows, frames)])
        of_scenes = (self.traffic.places, self.traffic.arrays.scenes)
        self.backend.run(start_avs, len(chosen), of_slots, states, *of_scenes, self.avs, self.is_new, self._is_over)
        self.roads.enter(of_slots, self.avs, begins=True)
        return of_slots

    def step(self, actions: torch.Tensor | None = None) -> StepResult:
        """Move all scenes one frame on, but for those that are over, and return how they stand.

        Args:
            actions: What AVs do, float64 or float32 (N, 2) on the device, which must be finite; the class of the model
                says what the two numbers mean. None where AVs are replayed.

        Raises:
            InvalidArgumentError: Actions are missing, or not wanted, or of another shape or type, or on another device.
        """
        self.move(actions)
        self._check(self.slots)
        return self._result

    def move(self, actions: torch.Tensor | None = None) -> None:
        """Do what :meth:`step` does, without a look at how AVs stand."""
        given, traffic = self._actions_of(actions), self.traffic
        self.roads.leave(self.slots, self.avs)
        of_bank = (traffic.arrays.scenes, traffic.arrays.ego)
        own = (self.avs, self.is_new, self._is_over)
        self.backend.run(move_avs, len(self), traffic.places, *of_bank, *own, given, self._mover)
        self.roads.enter(self.slots, self.avs, begins=False)

    def _check(self, slots: DeviceArray) -> None:
        """Write how AVs of slots (B,) stand."""
        traffic, bank = self.traffic, self.traffic.arrays
        of_traffic = (traffic.places, bank.scenes, bank.rows, traffic.seats, traffic.room)
        places = (self.avs.boxes, self._corners_m, self._areas)
        self.backend.run(check_avs, len(slots), slots, *of_traffic, self._surface, *places, *self._found)

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
        """Return x, y, yaw, speed, acceleration, yaw rate and steering of AVs that start, (B, 7)."""
        rows, poses = self.bank.frame_starts[bank_rows] + frames, self.bank.ego_poses
        if self.model is None:
            return np.column_stack([poses[rows], self.bank.ego_motion[rows]])
        before, after = poses[rows - 1], poses[rows]
        states, yaw_rates = states_at_start(before, after, length_m=self._length_m, step_time_s=self._step_s)
        motion = (states.speeds_mps, states.accelerations_mps2, yaw_rates, states.steering_rad)
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


def _mover_of(model: MovingModel | None, step_time_s: float) -> tuple[int, tuple[float, ...], float]:
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
