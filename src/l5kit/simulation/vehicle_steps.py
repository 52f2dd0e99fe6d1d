"""Vehicle steps: state of one vehicle after one time step, for use inside kernels.

The formulas are in the docstrings of the classes of :mod:`l5kit.simulation.vehicle_models`.
"""

import math
from typing import TypeAlias

from l5kit._kernels import kernel_jit

VehicleNow: TypeAlias = tuple[float, float, float, float, float, float, float]
"""World x and y of the centre in m, yaw in rad, speed, acceleration, steering in rad, and length in m."""

Action: TypeAlias = tuple[float, float]
"""Two numbers that control a vehicle for a step; their meaning depends on the vehicle model."""

Moved: TypeAlias = tuple[float, float, float, float, float, float]
"""State after the step, without the length."""

UNICYCLE, CURVATURE, BICYCLE = range(3)
"""Models: ``Unicycle``, ``InvertibleBicycle`` and ``KinematicBicycle``."""


@kernel_jit
def step_vehicle(kind: int, now: VehicleNow, action: Action, parameters: tuple[float, ...], step_s: float) -> Moved:
    """Return the state after a step of a vehicle model, one of the constants above, with its ``parameters``."""
    if kind == UNICYCLE:
        return _step_unicycle(now, action, parameters, step_s)
    if kind == CURVATURE:
        return _step_by_curvature(now, action, parameters, step_s)
    return _step_bicycle(now, action, parameters, step_s)


@kernel_jit
def _step_unicycle(now: VehicleNow, action: Action, parameters: tuple[float, ...], step_s: float) -> Moved:
    """Return the state after a step of a ``Unicycle``; ``parameters`` are its limits."""
    x, y, yaw, speed, _, steering, _ = now
    acceleration = min(max(action[0], parameters[0]), parameters[1])
    speed = speed + acceleration * step_s
    yaw = yaw + min(max(action[1], parameters[2]), parameters[3]) * step_s
    x, y = x + speed * step_s * math.cos(yaw), y + speed * step_s * math.sin(yaw)
    return x, y, yaw, speed, acceleration, steering


@kernel_jit
def _step_by_curvature(now: VehicleNow, action: Action, parameters: tuple[float, ...], step_s: float) -> Moved:
    """Return the state after a step of an ``InvertibleBicycle``; ``parameters`` are limits and axle ratios."""
    x, y, yaw, speed, _, _, length_m = now
    acceleration = min(max(action[0], -parameters[0]), parameters[0])
    curvature = min(max(action[1], -parameters[1]), parameters[1])
    distance_m = speed * step_s + acceleration * step_s * step_s / 2
    after = yaw + curvature * distance_m
    x, y = _moved_centre((x, y), distance_m, (yaw, after), parameters[2] * length_m)
    return x, y, after, speed + acceleration * step_s, acceleration, math.atan(curvature * parameters[3] * length_m)


@kernel_jit
def _step_bicycle(now: VehicleNow, action: Action, parameters: tuple[float, ...], step_s: float) -> Moved:
    """Return the state after a step of a ``KinematicBicycle``; ``parameters`` as in its ``step``."""
    x, y, yaw, speed, acceleration, steering, length_m = now
    distance_m = speed * step_s
    acceleration = acceleration + parameters[1] * (action[0] - acceleration)
    after = yaw + distance_m * math.tan(steering) / (parameters[4] * length_m)
    turned = steering + parameters[2] * action[1] * step_s
    x, y = _moved_centre((x, y), distance_m, (yaw, after), parameters[3] * length_m)
    return x, y, after, speed + acceleration * step_s, acceleration, min(max(turned, -parameters[0]), parameters[0])


@kernel_jit
def _moved_centre(
    before_m: tuple[float, float], distance_m: float, yaws_rad: tuple[float, float], rear_m: float
) -> tuple[float, float]:
    """Return the new centre after the rear axle, ``rear_m`` behind it, went ahead and the heading turned.

    The displacement is added to the old centre, so that a standing vehicle keeps its exact position.
    """
    cos, sin = math.cos(yaws_rad[0]), math.sin(yaws_rad[0])
    x = before_m[0] + (distance_m * cos + rear_m * (math.cos(yaws_rad[1]) - cos))
    y = before_m[1] + (distance_m * sin + rear_m * (math.sin(yaws_rad[1]) - sin))
    return x, y
