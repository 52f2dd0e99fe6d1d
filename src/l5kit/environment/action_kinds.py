"""Action kinds of environments: their space, and how they move the AVs of many episodes in one step."""

import math
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.gym_types import AnySpace
from l5kit.environment.kinematic_model import KinematicModel, UnicycleModel
from l5kit.environment.model_actions import EgosNow, ModelActions, RouteActions, box_space, checked_actions
from l5kit.environment.slots.av_slots import AvSlots, ModelMover, is_moving
from l5kit.environment.utils import KinematicActionRescaleParams, NonKinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.vehicle_models import VehicleStates

MAX_ACC = 6
"""Acceleration of the action 1 in kinematic mode, metres per second squared."""

MAX_STEER = math.radians(45)
"""Turn rate of the action 1 in kinematic mode, radians per second."""


def kinematic_scales(step_time_s: float, *, acceleration_per_step: bool) -> KinematicActionRescaleParams:
    """Return the scales from kinematic actions to steering and acceleration of one step.

    Args:
        step_time_s: Seconds of a step.
        acceleration_per_step: Whether acceleration is scaled by the square of the step time, as speeds are in metres
            per step; else by the step time itself, as in L5Kit 1.5.
    """
    return KinematicActionRescaleParams(
        MAX_STEER * step_time_s, MAX_ACC * step_time_s ** (2 if acceleration_per_step else 1)
    )


def scaled_controls(actions: NumericArray, scales: KinematicActionRescaleParams) -> NumericArray:
    """Return the steering and acceleration of actions (..., 3) in the dtype of the actions; the third is unused."""
    scaled = actions.copy()
    for column, scale in enumerate((scales.steer_scale, scales.acc_scale)):
        scaled[..., column] = scale * actions[..., column].astype(np.float64)
    return scaled


class ActionKind(Protocol):
    """Protocol of the actions of an environment: their space, their checks and how they move AVs."""

    @property
    def space(self) -> AnySpace:
        """Space of the actions of one environment."""

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return the actions of N environments as an array; the action of a single one gets a first axis of length 1.

        Args:
            actions: The requested actions.
            of: Environments whose actions are checked, bool (N,); None for a single environment.

        Raises:
            InvalidArgumentError: The shape or a value is wrong.
        """

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Begin episodes in slots (B,) with the speeds of their AVs (B,)."""

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:
        """Return the AVs of slots (B,) one step later.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite.
        """


class _LegacyActions:
    """Base of actions of three numbers, as in L5Kit 1.5."""

    @property
    def space(self) -> AnySpace:
        """Space of the actions of one environment."""
        return box_space(3)

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (N, 3) as floating point; see :class:`ActionKind`."""
        return checked_actions(actions, 3, of=of)


class PoseActions(_LegacyActions):
    """Actions that are the next pose in the frame of the AV: x and y in metres, heading in radians, as in L5Kit 1.5.

    Args:
        scales: Values of the actions -1 and 1; None for metres and radians.

    Attributes:
        said: Targets of the last actions in the frames of the AVs: ``positions`` (B, 1, 2) and ``yaws`` (B, 1, 1).
    """

    def __init__(self, scales: NonKinematicActionRescaleParams | None = None) -> None:
        self.scales = scales
        self.said: dict[str, NumericArray] = {}

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Do nothing: poses have no state."""

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AVs at the poses of the actions."""
        poses, scales = actions, self.scales
        if scales is not None:
            # poses (B, 3) of actions from -1 to 1, in the dtype of the actions
            poses = actions.copy()
            pairs = ((scales.x_mu, scales.x_scale), (scales.y_mu, scales.y_scale), (scales.yaw_mu, scales.yaw_scale))
            for column, (mean, scale) in enumerate(pairs):
                poses[..., column] = mean + scale * actions[..., column]
        self.said = {"positions": poses[:, None, :2], "yaws": poses[:, None, 2:]}
        return egos.ahead(self.said, step_time_s)


class UnicycleActions(_LegacyActions):
    """Actions that are steering and acceleration of a unicycle, as in L5Kit 1.5; the third value is unused.

    Args:
        num_slots: Number of environments, N.
        model: Limits of the unicycle.
        scales: Values of the actions -1 and 1; None for radians, and metres per step of speed change, in each step.
    """

    def __init__(
        self, num_slots: int, model: UnicycleModel, scales: KinematicActionRescaleParams | None = None
    ) -> None:
        self.model, self.scales = model, scales
        self._steps_m: Float64Array = np.full(num_slots, np.nan)
        self._speeds_mps: Float64Array = np.zeros(num_slots)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Reset the speeds of slots."""
        self._speeds_mps[slots], self._steps_m[slots] = speeds_mps, np.nan

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:
        """Return the AVs after a turn and a straight move; speeds are in metres per step."""
        controls = actions if self.scales is None else scaled_controls(actions, self.scales)
        # The first step of an episode starts from the logged speed, later steps from the simulated one.
        begins = np.isnan(self._steps_m[slots])
        before_m = np.where(begins, step_time_s * self._speeds_mps[slots], self._steps_m[slots])
        positions_m, yaws_rad, steps_m = self.model.moved(before_m, controls)
        said = {"positions": positions_m[:, None], "yaws": yaws_rad[:, None, None]}
        moved = egos.ahead(said, step_time_s)
        self._steps_m[slots] = steps_m
        return moved


class KinematicModelActions(_LegacyActions):
    """Actions that are steering and acceleration of a kinematic model of L5Kit 1.5, for a single environment.

    Args:
        model: Model that moves the AV.
        step_time_s: Seconds of a step.
        scales: Values of the actions -1 and 1; None for the units of the model.

    Attributes:
        said: As in :class:`PoseActions`.
    """

    def __init__(
        self, model: KinematicModel, step_time_s: float, scales: KinematicActionRescaleParams | None = None
    ) -> None:
        self.model, self.scales = model, scales
        self.said: dict[str, NumericArray] = {}
        self._step_time_s = step_time_s

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:  # noqa: ARG002
        """Reset the model to a speed."""
        self.model.reset(np.array([0.0, 0.0, 0.0, self._step_time_s * float(speeds_mps[0])]))

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AV as the model moves it."""
        controls = actions if self.scales is None else scaled_controls(actions, self.scales)
        # restore the model if the action leads to a state that is not finite
        before = dict(vars(self.model))
        self.said = self.model.update(controls[0])
        try:
            return egos.ahead(self.said, step_time_s)
        except InvalidArgumentError:
            vars(self.model).update(before)
            raise


def moves_in_kernels(kind: object) -> TypeGuard[ModelActions]:
    """Return whether :class:`ActionMover` can move AVs by actions of this kind, on the processor and on a device.

    Raises:
        InvalidArgumentError: The number of controls differs from that of the model.
    """
    if type(kind) not in (ModelActions, RouteActions) or not isinstance(kind, ModelActions):
        return False
    name, num_controls = type(kind.model).__name__, _NUM_CONTROLS
    if isinstance(kind, RouteActions):
        name, num_controls = "a route", 1
    if is_moving(kind.model) and len(kind.lows) != num_controls:
        raise InvalidArgumentError(
            f"actions has limits of {len(kind.lows)} controls; {name} takes {num_controls}, see its class"
        )
    return is_moving(kind.model)


class ActionMover(ModelMover):
    """Mover of AVs by actions of a model, on the processor or a device.

    Args:
        num_slots: Number of AVs, N.
        kind: The actions; :func:`moves_in_kernels` holds for them.
        step_time_s: Seconds of a step.
        backend: Backend that runs the kernels.
        refuses: Whether an action that leads to a state that is not finite is an error. Else the AV stays, and
            ``is_bad`` marks it.
    """

    def __init__(
        self, num_slots: int, kind: ModelActions, *, step_time_s: float, backend: Backend, refuses: bool
    ) -> None:
        assert is_moving(kind.model)
        is_route = isinstance(kind, RouteActions)
        super().__init__(num_slots, kind.model, step_time_s=step_time_s, backend=backend, follows_routes=is_route)
        self._kind, self._refuses = kind, refuses
        self._limits = backend.shared(kind.control_kernel()[1])
        self._controls: DeviceArray = backend.zeros((num_slots, _NUM_CONTROLS))

    def moved(self, avs: AvSlots, slots: DeviceArray, actions: DeviceArray) -> DeviceArray:
        """Return the AVs of slots one step later, by actions (B, A) or grid numbers (B,); see ``ModelMover``."""
        kernel, given = self._kind.control_kernel()[0], actions
        if self._backend.is_serial:  # always the same dtype, so that the kernel is compiled once
            given = np.asarray(actions, np.float64 if self._kind.grid is None else np.int64)
        self._backend.run(kernel, len(slots), *self._limits, given, self._controls, self.is_bad)
        columns = super().moved(avs, slots, self._controls)
        if self._refuses and self.is_bad[: len(slots)].any():
            first = int(np.argmax(self.is_bad))
            raise InvalidArgumentError(
                f"action of environment {slots[first]} is {actions[first].tolist()}, which leads to a state that is "
                "not finite; look at the limits of the actions"
            )
        return columns


_NUM_CONTROLS = 2
"""Number of controls of every model that moves AVs in kernels."""
