"""Actions that are controls of vehicle models, and how they move AVs; used by exported policies without torch."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.configs.texts import did_you_mean
from l5kit.device.backend import Kernel, KernelArguments
from l5kit.device.opening import open_backend
from l5kit.environment.observations.compact_state import RouteRows
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.lanes.route_tracking import (
    EMERGENCY_BRAKING_MPS2,
    HARDEST_BRAKING_MPS2,
    MOST_ACCELERATION_MPS2,
    track_routes,
)
from l5kit.simulation.vehicle_models import (
    InvertibleBicycle,
    KinematicBicycle,
    PoseChange,
    PoseModel,
    VehicleModel,
    VehicleStates,
)

if TYPE_CHECKING:
    from gymnasium import spaces

    from l5kit.environment.gym_types import AnySpace

_MOST_ACCELERATION_MPS2 = 4.0
_MOST_CURVATURE_1PM = 0.2
_MOST_STEERING_RADPS = 0.5
_LONGEST_STEP = (2.5, 0.25, 0.1)

ROUTE_ACTIONS = ("route", "route_emergency")
"""Kinds of actions that are accelerations along the route."""

MODEL_ACTIONS = ("bicycle", "curvature", "pose_change", "grid", *ROUTE_ACTIONS)
"""Kinds of actions that :func:`model_actions` supports."""


@dataclass(frozen=True, eq=False)
class EgosNow:
    """AVs of B episodes before a step.

    Attributes:
        states: States for vehicle models.
        world_from_agent: Poses, float64 (B, 3, 3).
        yaws_rad: Headings of the poses, in [-pi, pi], (B,).
        routes: Routes; None if no action needs them.
    """

    states: VehicleStates
    world_from_agent: Float64Array
    yaws_rad: Float64Array
    routes: RouteRows | None = None

    def ahead(self, said: dict[str, NumericArray], step_time_s: float) -> VehicleStates:
        """Return the AVs moved to ``positions`` (B, 1, 2) and ``yaws`` (B, 1, 1) in their own frames."""
        from l5kit.simulation.unroll import ClosedLoopSimulator  # imported here, as it imports torch

        seen = {"world_from_agent": self.world_from_agent, "yaw": self.yaws_rad}
        poses = np.empty((len(self.states), 3))
        poses[:, :2], poses[:, 2] = ClosedLoopSimulator.first_poses(seen, said)
        before, moved = self.states, PoseModel().step(self.states, poses, step_time_s)

        # Poses alone do not show reversing: there speeds are negative, and accelerations are changes of these speeds.
        headings, is_backwards = (np.cos(before.yaws_rad), np.sin(before.yaws_rad)), np.empty(len(before), np.bool_)
        if not _find_backwards(before.positions_m.copy(), moved.positions_m, headings, moved.speeds_mps, is_backwards):
            return moved
        speeds_mps = np.where(is_backwards, -moved.speeds_mps, moved.speeds_mps)
        changes_mps2 = (speeds_mps - before.speeds_mps) / step_time_s
        return replace(
            moved,
            speeds_mps=speeds_mps,
            accelerations_mps2=np.where(is_backwards, changes_mps2, moved.accelerations_mps2),
        )


@kernel_jit
def _find_backwards(
    before_m: Float64Array,
    positions_m: Float64Array,
    headings: tuple[Float64Array, Float64Array],
    speeds_mps: Float64Array,
    is_backwards: BoolArray,
) -> bool:
    """Mark the AVs that moved against their heading, given as cosine and sine, and return whether there are any."""
    cos, sin = headings
    is_any = False
    for i in range(len(is_backwards)):
        ahead_m = (positions_m[i, 0] - before_m[i, 0]) * cos[i] + (positions_m[i, 1] - before_m[i, 1]) * sin[i]
        is_backwards[i] = ahead_m < 0 and speeds_mps[i] > 0
        is_any = is_any or is_backwards[i]
    return is_any


def box_space(size: int) -> "spaces.Box":
    """Return the space of actions of ``size`` values from -1 to 1."""
    from gymnasium import spaces  # imported here, as exported policies run without it

    return spaces.Box(-1, 1, (size,), np.float32)


@kernel_jit
def control_of(value: float, low: float, high: float) -> float:
    """Return the control of an action value: ``low`` for -1 or less, 0 for 0, and ``high`` for 1 or more."""
    if value < 0:
        return low if value < -1.0 else -value * low
    return high if value > 1.0 else value * high


@kernel_jit
def scale_actions(item: int, arguments: KernelArguments) -> None:
    """Write the controls of an action, zeros if it is not finite.

    Arguments: lowest and highest controls, (A,) each; actions (N, A); outputs: controls (N, A) and a mask of actions
    that are not finite, (N,).
    """
    lows, highs, actions, controls, is_bad = arguments
    is_bad[item] = False
    for column in range(len(lows)):
        is_bad[item] = is_bad[item] or not math.isfinite(actions[item, column])
    for column in range(len(lows)):
        value = 0.0 if is_bad[item] else float(actions[item, column])
        controls[item, column] = control_of(value, lows[column], highs[column])


@kernel_jit
def choose_controls(item: int, arguments: KernelArguments) -> None:
    """Write the controls of a grid number, zeros if it is not in the grid.

    Arguments: lowest and highest controls, (A,) each; number of values of each control, int64 (A,); grid numbers, int64
    (N,); outputs: controls (N, A) and a mask of numbers that are not in the grid, (N,).
    """
    lows, highs, sizes, choices, controls, is_bad = arguments
    num_choices = 1
    for column in range(len(sizes)):
        num_choices *= sizes[column]
    rest = choices[item]
    is_bad[item] = not 0 <= rest < num_choices
    for index in range(len(sizes)):
        # the last control varies fastest
        column = len(sizes) - 1 - index
        value = 2.0 * (rest % sizes[column]) / (sizes[column] - 1) - 1.0
        rest //= sizes[column]
        controls[item, column] = 0.0 if is_bad[item] else control_of(value, lows[column], highs[column])


def checked_actions(actions: ArrayLike, num_values: int, *, of: BoolArray | None) -> NumericArray:
    """Return a copy of actions (N, A), in floating point.

    Args:
        actions: Actions (N, A) of N environments; (A,) of a single one, which becomes (1, A).
        num_values: A.
        of: Environments whose values are checked, bool (N,); None for a single one.

    Raises:
        InvalidArgumentError: The shape is wrong, or a checked value is not finite.
    """
    values: NumericArray = np.array(actions)
    shape = (num_values,) if of is None else (len(of), num_values)
    if values.shape != shape or values.dtype.kind not in "fiub":
        wanted = f"{num_values} numbers" if of is None else f"numbers of shape {shape}"
        raise InvalidArgumentError(f"action must be {wanted}, got shape {values.shape} of {values.dtype}")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    # ignore values of environments that are not checked
    is_bad = ~np.isfinite(values)
    if of is not None:
        is_bad[~of] = False
    if np.count_nonzero(is_bad):
        if of is None:
            raise InvalidArgumentError(f"action is {values.tolist()}; all of it must be finite")
        first = int(np.argmax(is_bad.any(axis=-1)))
        raise InvalidArgumentError(
            f"action of environment {first} is {values[first].tolist()}; all of it must be finite"
        )
    return values[None] if of is None else values


@dataclass(frozen=True, eq=False)
class ModelActions:
    """Actions that are controls of a vehicle model of the simulation.

    Attributes:
        model: Model that moves the AVs.
        lows: Controls of the action -1, below 0, (A,).
        highs: Controls of the action 1, above 0, (A,); 0 means 0, with linear interpolation between.
        grid: Number of values of each control; None for continuous actions. With a grid, an action is the number of a
            combination, the last control varying fastest. Odd numbers of values include 0.

    Raises:
        InvalidArgumentError: The numbers of controls differ, or a limit or a number of values is invalid.
    """

    model: VehicleModel
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    grid: tuple[int, ...] | None = None

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

    @cached_property
    def space(self) -> "AnySpace":
        """Space of an action."""
        from gymnasium import spaces  # imported here, as exported policies run without it

        return box_space(self.num_outputs) if self.grid is None else spaces.Discrete(self.num_outputs)

    @property
    def num_outputs(self) -> int:
        """Number of values of an action; with a grid the number of its combinations."""
        return len(self.lows) if self.grid is None else int(np.prod(self.grid))

    def checked(self, actions: ArrayLike, of: BoolArray | None) -> NumericArray:
        """Return actions (N, A) as floating point, or grid numbers (N,) as int64."""
        if self.grid is None:
            return checked_actions(actions, len(self.lows), of=of)

        # one whole number for each environment, 0 for those that are not checked
        values: NumericArray = np.asarray(actions)
        if values.shape != (() if of is None else (len(of),)) or values.dtype.kind not in "iu":
            wanted = "a whole number" if of is None else f"{len(of)} whole numbers"
            raise InvalidArgumentError(f"action must be {wanted}, got shape {values.shape} of {values.dtype}")
        chosen = values.reshape(-1) if of is None else np.where(of, values, 0)

        # all of them in the grid
        num_choices = int(np.prod(self.grid))
        is_bad = (chosen < 0) | (chosen >= num_choices)
        if is_bad.any():
            first = int(np.argmax(is_bad))
            where = "" if of is None else f" of environment {first}"
            raise InvalidArgumentError(f"action{where} is {int(chosen[first])}; there are 0 to {num_choices - 1}")
        return chosen.astype(np.int64)

    def begin(self, slots: Int64Array, speeds_mps: Float64Array) -> None:
        """Do nothing: vehicle states hold everything."""

    def controls(self, actions: NumericArray) -> Float64Array:
        """Return the controls (B, A) of actions."""
        size, backend = len(actions), open_backend("cpu")
        controls: Float64Array = np.empty((size, len(self.lows)))
        kernel, parameters = self.control_kernel()
        values = np.array(actions, np.float64 if self.grid is None else np.int64)
        backend.run(kernel, size, *parameters, values, controls, np.empty(size, np.bool_))
        return controls

    def control_kernel(self) -> tuple[Kernel, tuple[NumericArray, ...]]:
        """Return the kernel that writes the controls of actions, and its first arguments."""
        limits = np.array(self.lows, np.float64), np.array(self.highs, np.float64)
        if self.grid is None:
            return scale_actions, limits
        return choose_controls, (*limits, np.array(self.grid, np.int64))

    def move(self, slots: Int64Array, egos: EgosNow, actions: NumericArray, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the AVs as the model moves them."""
        return self.model.step(egos.states, self.controls(actions), step_time_s)


@dataclass(frozen=True, eq=False)
class RouteActions(ModelActions):
    """Actions that are accelerations along the route; steering follows the route automatically.

    The acceleration approaches that of the action within comfort bounds, and is limited by speed limits and bends; see
    :func:`~l5kit.simulation.lanes.route_tracking.track_route`. A vehicle without a route goes straight.
    """

    model: InvertibleBicycle

    def steered(
        self, actions: NumericArray, states: VehicleStates, routes: RouteRows, step_time_s: float
    ) -> Float64Array:
        """Return the controls (B, 2) of the model for actions (B, 1) of vehicles on routes."""
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
        """Return the AVs after following their routes."""
        assert egos.routes is not None
        return self.model.step(egos.states, self.steered(actions, egos.states, egos.routes, step_time_s), step_time_s)


def model_actions(name: str) -> ModelActions:
    """Return the actions of a kind by name.

    Args:
        name: ``bicycle``: acceleration of 4 m/s2 and steering rate of 0.5 rad/s for
            :class:`~l5kit.simulation.vehicle_models.KinematicBicycle`. ``curvature``: acceleration of 4 m/s2 and
            curvature of 0.2 1/m for :class:`~l5kit.simulation.vehicle_models.InvertibleBicycle`. ``grid``: 7 times 9
            values of these. ``pose_change``: 2.5 m ahead, 0.25 m to the left and 0.1 rad for
            :class:`~l5kit.simulation.vehicle_models.PoseChange`. ``route``: acceleration along the route, from
            -3.7 to 2.2 m/s2 (the comfort bounds), for :class:`RouteActions`. ``route_emergency``: the same from -6
            m/s2 on; braking below -3.7 m/s2 is applied at once.

    Raises:
        InvalidArgumentError: The kind does not exist.
    """
    if name in ROUTE_ACTIONS:
        braking_mps2 = HARDEST_BRAKING_MPS2 if name == "route" else EMERGENCY_BRAKING_MPS2
        return RouteActions(InvertibleBicycle(), (-braking_mps2,), (MOST_ACCELERATION_MPS2,))
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
