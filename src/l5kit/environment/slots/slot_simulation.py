"""Slot simulation: AVs and road users of many scenes, moved and checked in one step, also on a device."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from l5kit._types import Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.device.tensors import as_device_array
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.rewards.step_faults import surface_arrays
from l5kit.environment.slots.av_slots import AvSlots, ModelMover, MovingModel
from l5kit.environment.slots.av_steps import check_avs
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots, require_range, require_scenes
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver


@dataclass(frozen=True, eq=False)
class StepResult:
    """State of N AVs and their scenes after a step, on the device, in memory that the next step reuses.

    Attributes:
        poses: World x and y of the centre and yaw, metres and radians, float64 (N, 3).
        speeds_mps: Speed along the heading, negative if reversing, float64 (N,).
        is_collided: Whether the box of the AV overlaps that of a road user, bool (N,).
        off_road_m: Distance of the farthest corner from the drivable surface, infinite from 0.5 m on, 0 without a map,
            float64 (N,).
        is_over: Whether the slot is in the last frame of its scene, or empty: further steps do not change it, bool
            (N,).
        num_driven: Number of agents that were driven into the frame, int64 (N,).
    """

    poses: torch.Tensor
    speeds_mps: torch.Tensor
    is_collided: torch.Tensor
    off_road_m: torch.Tensor
    is_over: torch.Tensor
    num_driven: torch.Tensor

    def clone(self) -> "StepResult":
        """Return a copy in new memory."""
        return StepResult(*(getattr(self, each.name).clone() for each in fields(self)))


class SlotSimulation:
    """Simulation of N scenes that are stepped at the same time, on the processor or a device.

    AVs are replayed, or driven by actions through a vehicle model. Road users are those of
    :class:`~l5kit.environment.episode_roads.EpisodeRoads`, as in all environments. Nothing is copied from a device to
    the host unless a result is read. All calls must be made in the same torch stream.

    Args:
        bank: The scenes, which are copied to a device; all scenes in use must be prepared.
        num_slots: N, at least 1.
        model: Vehicle model that moves AVs by actions; None to replay them.
        drives: Driver of other vehicles; None to replay all agents.
        backend: Backend of the arrays and kernels, from :func:`l5kit.device.opening.open_backend`.

    Attributes:
        bank: The scenes.
        model: Vehicle model that moves AVs by actions.
        backend: Backend of the arrays and kernels.
        roads: Road users and routes.

    Raises:
        InvalidArgumentError: The bank has no scenes, no paths for the driver, or another speed limit than the driver,
            there are no slots, or the model is not supported.
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
        facts = bank.log.facts
        mover = ModelMover(num_slots, model, step_time_s=facts.step_time_s, backend=backend)
        self.roads = EpisodeRoads(bank, num_slots, drives=drives, backend=backend)
        self.bank, self.model, self.backend = bank, model, backend
        length_m, width_m, _ = facts.ego_extent_m
        self._slots = AvSlots(
            num_slots,
            mover,
            size_m=(length_m, width_m),
            step_time_s=facts.step_time_s,
            roads=self.roads,
            backend=backend,
        )
        self._no_actions = backend.zeros((num_slots, 2))
        self._surface = backend.shared(surface_arrays(self.roads.driving_map))
        self._corners_m = backend.zeros((num_slots, 4, 2))
        self._areas = backend.full((num_slots, 4), -1, np.int64)
        is_collided, off_road_m = backend.zeros(num_slots, np.bool_), backend.zeros(num_slots)
        self._checks = (is_collided, off_road_m, backend.full(num_slots, True, np.bool_))
        columns = [backend.tensor(array) for array in (*self._checks, self.traffic.current.num_driven)]
        self._result = StepResult(self.boxes[:, :3], self.motions[:, 0], *columns)
        backend.wait()  # for data that other streams may read

    def __len__(self) -> int:
        return len(self.traffic)

    @property
    def avs(self) -> AvArrays:
        """The AVs as kernel arrays."""
        return self._slots.arrays

    @property
    def boxes(self) -> torch.Tensor:
        """Boxes of the AVs: world x, y, yaw, length and width, metres and radians, float64 (N, 5); not a copy."""
        return self.backend.tensor(self.avs.boxes)

    @property
    def motions(self) -> torch.Tensor:
        """Speeds, accelerations, yaw rates and steering of the AVs, as in ``avs``, float64 (N, 4); not a copy."""
        return self.backend.tensor(self.avs.motions)

    @property
    def traffic(self) -> TrafficSlots:
        """The road users."""
        return self.roads.traffic

    @property
    def slots(self) -> DeviceArray:
        """Numbers of all slots as a kernel array."""
        return self.roads.every

    def reset(
        self,
        scene_indices: Sequence[int] | Int64Array,
        frame_indices: Sequence[int] | Int64Array,
        slots: Sequence[int] | Int64Array | None = None,
    ) -> StepResult:
        """Put slots (B,) at frames (B,) of scenes (B,) of the log, with all road users at their logged poses.

        A driven AV starts with the speed and turn rate of the step before, as in all environments, a replayed one with
        the logged ones.

        Args:
            scene_indices: Scenes of the log.
            frame_indices: Their frames, counted in the scenes; those of driven AVs are 1 or later.
            slots: The slots, all different; None for all, (N,).

        Raises:
            IndexOutOfRangeError: A slot or frame does not exist, or a scene is not prepared.
            InvalidArgumentError: The arrays differ in length, or scenes were added to the bank after it was uploaded.
        """
        bank = self.bank
        chosen = np.arange(len(self)) if slots is None else np.asarray(slots, np.int64)
        frames, scenes = np.asarray(frame_indices, np.int64), np.asarray(scene_indices, np.int64)
        if not chosen.shape == frames.shape == scenes.shape == (chosen.size,):
            raise InvalidArgumentError(
                f"scene_indices, frame_indices and slots have shapes {scenes.shape}, {frames.shape} and "
                f"{chosen.shape}; pass one number each for every slot"
            )
        missing = scenes[~np.isin(scenes, bank.scenes)]
        if len(missing):
            raise IndexOutOfRangeError(
                f"scene_indices has {missing[0]}, which is not on {self.backend.device}; prepare it in the bank before "
                "creating the simulation"
            )
        first, name = (0, "frame_indices") if self.model is None else (1, "frame_indices of driven AVs")
        ends = np.diff(bank.frame_starts)[bank.prepare(scenes)]
        require_range(name, frames, ends, first=first)
        rows = self.roads.start(chosen, scenes, frames)
        if self.model is None:
            self._slots.put(chosen, np.column_stack([bank.ego_poses[rows], bank.ego_motion[rows]]))
        else:
            self._slots.start(chosen, bank.ego_poses[rows - 1], bank.ego_poses[rows])
        return self._checked()

    def step(self, actions: torch.Tensor | None = None) -> StepResult:
        """Advance all scenes by one frame, except those that are over, and return their states.

        Args:
            actions: Actions of the AVs, float64 or float32 (N, 2) on the device, which must be finite; the class of the
                model defines the two numbers. None if AVs are replayed.

        Raises:
            InvalidArgumentError: Actions are missing or unexpected, have another shape or dtype, or another device.
        """
        given = self._actions_of(actions)
        self._slots.move(self._slots.choose_going(self._checks[-1]), given)
        return self._checked()

    def _checked(self) -> StepResult:
        """Run the checks of all AVs, and return the result."""
        traffic, rows = self.traffic, self.roads.rows(self.slots)
        of_traffic = (traffic.current, traffic.arrays.starts, rows.sizes, rows.scene_rows)
        own = (self._surface, self.avs.boxes, self._corners_m, self._areas, self._checks)
        self.backend.run(check_avs, len(self), *of_traffic, *own)
        return self._result

    def _actions_of(self, actions: torch.Tensor | None) -> DeviceArray:
        """Return actions as arrays for kernels."""
        if (actions is None) != (self.model is None):
            raise InvalidArgumentError(
                "actions is None, but AVs are driven; pass a tensor (N, 2)"
                if actions is None
                else "actions are given, but AVs are replayed; create the simulation with a model, or pass None"
            )
        if actions is None:
            return self._no_actions
        doubles = actions.double() if actions.dtype == torch.float32 else actions
        return as_device_array("actions", doubles, (len(self), 2), self.backend)
