"""Kinds of actions of environments: their space, and how they move the AVs of many episodes in one step."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.configs.texts import did_you_mean
from l5kit.device.backend import Backend, DeviceArray, Kernel
from l5kit.device.opening import open_backend
from l5kit.environment.actions import (
    checked_actions,
    checked_choices,
    choose_controls,
    scale_actions,
    scaled_controls,
    scaled_poses,
)
from l5kit.environment.kinematic_model import KinematicModel, UnicycleModel
from l5kit.environment.observations.compact_state import RouteRows
from l5kit.environment.slots.av_slots import AvSlots, ModelMover, is_moving
from l5kit.environment.utils import KinematicActionRescaleParams, NonKinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.lanes.route_tracking import (
    HARDEST_BRAKING_MPS2,
    MOST_ACCELERATION_MPS2,
    track_routes,
)
from l5kit.simulation.unroll import ClosedLoopSimulator
from l5kit.simulation.vehicle_models import (
    InvertibleBicycle,
    KinematicBicycle,
    PoseChange,
    PoseModel,
    VehicleModel,
    VehicleStates,
)

__all__ = [
    "MODEL_ACTIONS",
    "ActionKind",
    "ActionMover",
    "EgosNow",
    "KinematicModelActions",
    "ModelActions",
    "PoseActions",
    "RouteActions",
    "RouteRows",
    "UnicycleActions",
    "model_actions",
    "moves_in_kernels",
]


@dataclass(frozen=True, eq=False)
class EgosNow:
    """AVs of B episodes before a step.

    Attributes:
        states: As vehicle models take them.
        world_from_agent: Their poses, float64 (B, 3, 3).
        yaws_rad: Their headings as poses tell them, in [-pi, pi], (B,).
        routes: Their routes; None where nobody asks for them.
    """

    states: VehicleStates
    world_from_agent: Float64Array
    yaws_rad: Float64Array
    routes: RouteRows | None = None

    def ahead(self, said: dict[str, NumericArray], step_time_s: float) -> VehicleStates:
        """Return AVs at ``positions`` (B, 1, 2) and ``yaws`` (B, 1, 1), as seen from where they are."""
        seen = {"world_from_agent": self.world_from_agent, "yaw": self.yaws_rad}
        poses = np.empty((len(self.states), 3))
        poses[:, :2], poses[:, 2] = ClosedLoopSimulator.first_poses(seen, said)
        moved = PoseModel().step(self.states, poses, step_time_s)
        return _with_direction(moved, self.states, step_time_s)


def _with_direction(moved: VehicleStates, before: VehicleStates, step_time_s: float) -> VehicleStates:
    """Return AVs whose speeds are below 0 where they have gone backwards, which poses do not tell."""
    steps_m = moved.positions_m - before.positions_m
    ahead_m = steps_m[:, 0] * np.cos(before.yaws_rad) + steps_m[:, 1] * np.sin(before.yaws_rad)
    is_backwards = (ahead_m < 0) & (moved.speeds_mps > 0)
    if not np.count_nonzero(is_backwards):
        return moved
    speeds_mps = np.where(is_backwards, -moved.speeds_mps, moved.speeds_mps)
    changes_mps2 = (speeds_mps - before.speeds_mps) / step_time_s
    return replace(
        moved,
        speeds_mps=speeds_mps,
        accelerations_mps2=np.where(is_backwards, changes_mps2, moved.accelerations_mps2),
    )


class ActionKind(Protocol):
    """What actions of an environment are: any object with this attribute and these methods."""

    @property
    def space(self) -> spaces.Space[Any]:
        """Space of the actions of one environment."""

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return the actions of N environments as an array, or that of a single one as one of length 1.

        Args:
            actions: What somebody wants to do.
            of: Whose actions are looked at, (N,); None for a single environment.

        Raises:
            InvalidArgumentError: The shape or a value is wrong.
        """

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Begin episodes in slots (B,), whose AVs have some speeds (B,)."""

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:
        """Return the AVs of slots (B,) one step later.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite.
        """


class PoseActions:
    """Actions that are the next pose as seen from the AV: x and y in metres and heading in radians, as in L5Kit 1.5.

    Args:
        scales: What the actions -1 and 1 stand for; None for metres and radians.

    Attributes:
        said: Where the last actions lead, as seen from AVs: ``positions`` (B, 1, 2) and ``yaws`` (B, 1, 1).
    """

    def __init__(self, scales: NonKinematicActionRescaleParams | None = None) -> None:
        self.scales = scales
        self.said: dict[str, NumericArray] = {}
        self.space = spaces.Box(-1, 1, (3,), np.float32)

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (N, 3) in floating point; see :class:`ActionKind`."""
        return checked_actions(actions, 3, of=of)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Do nothing: a pose does not hang on what was before."""

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AVs at these poses."""
        poses = actions if self.scales is None else scaled_poses(actions, self.scales)
        self.said = {"positions": poses[:, None, :2], "yaws": poses[:, None, 2:]}
        return egos.ahead(self.said, step_time_s)


class UnicycleActions:
    """Actions that are steering and acceleration of a unicycle, the third value unused, as in L5Kit 1.5.

    Args:
        num_slots: Number of environments, N.
        model: Limits of the unicycle.
        scales: What the actions -1 and 1 stand for; None for radians and metres per step in a step.
    """

    def __init__(
        self, num_slots: int, model: UnicycleModel, scales: KinematicActionRescaleParams | None = None
    ) -> None:
        self.model, self.scales = model, scales
        self.space = spaces.Box(-1, 1, (3,), np.float32)
        self._steps_m: Float64Array = np.full(num_slots, np.nan)
        self._speeds_mps: Float64Array = np.zeros(num_slots)

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (N, 3) in floating point; see :class:`ActionKind`."""
        return checked_actions(actions, 3, of=of)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Begin with speeds."""
        self._speeds_mps[slots], self._steps_m[slots] = speeds_mps, np.nan

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:
        """Return the AVs after turning and going on; speeds are counted in metres per step."""
        controls = actions if self.scales is None else scaled_controls(actions, self.scales)
        begins = np.isnan(self._steps_m[slots])
        before_m = np.where(begins, step_time_s * self._speeds_mps[slots], self._steps_m[slots])
        positions_m, yaws_rad, steps_m = self.model.moved(before_m, controls)
        said = {"positions": positions_m[:, None], "yaws": yaws_rad[:, None, None]}
        moved = egos.ahead(said, step_time_s)
        self._steps_m[slots] = steps_m
        return moved


class KinematicModelActions:
    """Actions that are steering and acceleration for a kinematic model of L5Kit 1.5, of a single environment.

    Args:
        model: Moves the AV.
        step_time_s: Seconds of a step.
        scales: What the actions -1 and 1 stand for; None for the numbers of the model.

    Attributes:
        said: As for :class:`PoseActions`.
    """

    def __init__(
        self, model: KinematicModel, step_time_s: float, scales: KinematicActionRescaleParams | None = None
    ) -> None:
        self.model, self.scales = model, scales
        self.said: dict[str, NumericArray] = {}
        self.space = spaces.Box(-1, 1, (3,), np.float32)
        self._step_time_s = step_time_s

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (1, 3) in floating point; see :class:`ActionKind`."""
        return checked_actions(actions, 3, of=of)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:  # noqa: ARG002
        """Begin with a speed."""
        self.model.reset(np.array([0.0, 0.0, 0.0, self._step_time_s * float(speeds_mps[0])]))

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AV that the model has moved."""
        controls = actions if self.scales is None else scaled_controls(actions, self.scales)
        before = dict(vars(self.model))
        self.said = self.model.update(controls[0, :2])
        try:
            return egos.ahead(self.said, step_time_s)
        except InvalidArgumentError:
            vars(self.model).update(before)
            raise


@dataclass(frozen=True, eq=False)
class ModelActions:
    """Actions that are controls of a vehicle model of the simulation.

    Attributes:
        model: Moves the AVs.
        lows: What the action -1 stands for, below 0, (A,).
        highs: What the action 1 stands for, above 0, (A,); 0 stands for 0, and what lies between is in proportion.
        grid: How many values each control has; None for all between -1 and 1. An action is then one number: that of
            the combination, the last control changing first. Odd numbers have a value 0.
        space: Space of an action.

    Raises:
        InvalidArgumentError: The numbers of controls differ, or a limit or a number of values is not possible.
    """

    model: VehicleModel
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    grid: tuple[int, ...] | None = None
    space: spaces.Space[Any] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.lows) != len(self.highs) or not self.lows:
            raise InvalidArgumentError(
                f"ModelActions: lows {self.lows} and highs {self.highs} need one for each control"
            )
        for low, high in zip(self.lows, self.highs, strict=True):
            if not -np.inf < low < 0 < high < np.inf:
                raise InvalidArgumentError(f"ModelActions: limits are {low} and {high}; pass one below 0 and one above")
        if self.grid is not None and (len(self.grid) != len(self.lows) or min(self.grid) < 2):
            raise InvalidArgumentError(
                f"ModelActions: grid is {self.grid}; pass two values or more for each of {len(self.lows)} controls"
            )
        size = (len(self.lows),)
        space = spaces.Box(-1, 1, size, np.float32) if self.grid is None else spaces.Discrete(int(np.prod(self.grid)))
        object.__setattr__(self, "space", space)

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (N, A) in floating point, or those of the grid as whole numbers (N,)."""
        if self.grid is None:
            return checked_actions(actions, len(self.lows), of=of)
        return checked_choices(actions, int(np.prod(self.grid)), of=of)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Do nothing: states of vehicles have all that counts."""

    def controls(self, actions: NumericArray) -> Float64Array:
        """Return the controls (B, A) that actions stand for."""
        size, backend = len(actions), open_backend("cpu")
        controls: Float64Array = np.empty((size, len(self.lows)))
        kernel, parameters = self.control_kernel()
        values = np.array(actions, np.float64 if self.grid is None else np.int64)
        backend.run(kernel, size, *parameters, values, controls, np.empty(size, np.bool_))
        return controls

    def control_kernel(self) -> tuple[Kernel, tuple[NumericArray, ...]]:
        """Return what writes the controls of actions, and the arrays that it takes before these."""
        limits = np.array(self.lows, np.float64), np.array(self.highs, np.float64)
        if self.grid is None:
            return scale_actions, limits
        return choose_controls, (*limits, np.array(self.grid, np.int64))

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AVs that the model has moved."""
        return self.model.step(egos.states, self.controls(actions), step_time_s)


@dataclass(frozen=True, eq=False)
class RouteActions(ModelActions):
    """Actions that are accelerations along the route; the curvature that keeps to it is found for them.

    The acceleration goes to the wanted one within the bounds of comfort, and is never more than limits and bends allow,
    see
    :func:`~l5kit.simulation.lanes.route_tracking.track_route`. A vehicle without a route goes straight on.
    """

    model: InvertibleBicycle

    def steered(
        self, actions: NumericArray, states: VehicleStates, routes: RouteRows, step_time_s: float
    ) -> Float64Array:
        """Return the controls of the model (B, 2) that actions (B, 1) of vehicles on routes stand for."""
        geometry = self.model.geometry
        shares = np.array([geometry.rear_axle_share, geometry.wheel_base_share])
        return track_routes(
            routes.paths,
            routes.routes,
            routes.positions,
            motions=np.stack([states.speeds_mps, states.accelerations_mps2, states.steering_rad], axis=-1),
            axles_m=states.lengths_m[:, None] * shares,
            wanted_mps2=self.controls(actions)[:, 0],
            step_s=step_time_s,
        )

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AVs that have followed their routes."""
        assert egos.routes is not None
        return self.model.step(egos.states, self.steered(actions, egos.states, egos.routes, step_time_s), step_time_s)


def moves_in_kernels(kind: object) -> TypeGuard[ModelActions]:
    """Return whether :class:`ActionMover` moves AVs by actions of a kind, on the processor and on a device.

    Raises:
        InvalidArgumentError: They have other controls than their model.
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
    """Moves AVs by actions of a model, on the processor or a device.

    Args:
        num_slots: Number of AVs, N.
        kind: What actions are, one that :func:`moves_in_kernels`.
        step_time_s: Seconds of a step.
        backend: Where.
        refuses: Whether an action that leads nowhere is an error. Else the AV stays, and ``is_bad`` tells.
    """

    def __init__(
        self, num_slots: int, kind: ModelActions, *, step_time_s: float, backend: Backend, refuses: bool
    ) -> None:
        assert is_moving(kind.model)
        is_route = isinstance(kind, RouteActions)
        super().__init__(num_slots, kind.model, step_time_s=step_time_s, backend=backend, follows_routes=is_route)
        self._kind, self._refuses = kind, refuses
        self._limits = backend.shared(kind.control_kernel()[1])
        self._controls: DeviceArray = backend.zeros((num_slots, _NUM_CONTROLS), np.float64)

    def moved(self, avs: AvSlots, slots: DeviceArray, actions: DeviceArray) -> DeviceArray:
        """Return the AVs of slots one step later; see :class:`ModelMover`."""
        columns = super().moved(avs, slots, actions)
        if self._refuses and self.is_bad[: len(slots)].any():
            first = int(np.argmax(self.is_bad))
            raise InvalidArgumentError(
                f"action of environment {slots[first]} is {actions[first].tolist()}, which leads to a state that is "
                "not finite; look at the limits of the actions"
            )
        return columns

    def controls_of(self, size: int, actions: DeviceArray) -> DeviceArray:
        """Return the controls that actions (B, A), or numbers of a grid (B,), stand for."""
        kernel, given = self._kind.control_kernel()[0], actions
        if self._backend.is_serial:  # of one type, so that the kernel is compiled once
            given = np.asarray(actions, np.float64 if self._kind.grid is None else np.int64)
        self._backend.run(kernel, size, *self._limits, given, self._controls, self.is_bad)
        return self._controls


_NUM_CONTROLS = 2
"""Of each model that moves AVs in kernels."""

_MOST_ACCELERATION_MPS2 = 4.0
_MOST_CURVATURE_1PM = 0.2
_MOST_STEERING_RADPS = 0.5
_LONGEST_STEP = (2.5, 0.25, 0.1)

MODEL_ACTIONS = ("bicycle", "curvature", "pose_change", "grid", "route")
"""What :func:`model_actions` knows."""


def model_actions(name: str) -> ModelActions:
    """Return the actions of a vehicle model.

    Args:
        name: ``bicycle``: acceleration of 4 m/s2 and steering rate of 0.5 rad/s for
            :class:`~l5kit.simulation.vehicle_models.KinematicBicycle`. ``curvature``: acceleration of 4 m/s2 and
            curvature of 0.2 1/m for :class:`~l5kit.simulation.vehicle_models.InvertibleBicycle`. ``grid``: 7 times 9
            values of these. ``pose_change``: 2.5 m ahead, 0.25 m to the left and 0.1 rad for
            :class:`~l5kit.simulation.vehicle_models.PoseChange`. ``route``: acceleration along the route, from
            -3.7 to 2.2 m/s2 (the bounds of comfort), for :class:`RouteActions`.

    Raises:
        InvalidArgumentError: There is no such kind.
    """
    if name == "route":
        return RouteActions(InvertibleBicycle(), (-HARDEST_BRAKING_MPS2,), (MOST_ACCELERATION_MPS2,))
    curved = (_MOST_ACCELERATION_MPS2, _MOST_CURVATURE_1PM)
    known: dict[str, tuple[VehicleModel, tuple[float, ...], tuple[int, ...] | None]] = {
        "bicycle": (KinematicBicycle(), (_MOST_ACCELERATION_MPS2, _MOST_STEERING_RADPS), None),
        "curvature": (InvertibleBicycle(), curved, None),
        "grid": (InvertibleBicycle(), curved, (7, 9)),
        "pose_change": (PoseChange(), _LONGEST_STEP, None),
    }
    if name not in known:
        raise InvalidArgumentError(
            f"actions is {name!r}{did_you_mean(name, MODEL_ACTIONS)}; it must be one of {', '.join(MODEL_ACTIONS)}, "
            "poses and kinematic"
        )
    model, highs, grid = known[name]
    return ModelActions(model, tuple(-high for high in highs), highs, grid)
