"""Intelligent driver model (IDM): acceleration of a driver behind a leader, and the step that results.

Vehicles are computed independently, in float64 and in a fixed order of operations, so that a batch gives the same
bits as its vehicles one by one.
"""

import math
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.parameter_checks import require_positive, require_step_time


@dataclass(frozen=True)
class IntelligentDriverParams:
    """Parameters of the intelligent driver model; the defaults are those of the agents of the nuPlan devkit.

    Attributes:
        standing_gap_m: s0, the gap to a leader at standstill, above 0.
        headway_s: T, the time gap to a leader, at least 0.
        max_acceleration_mps2: a, the highest acceleration, above 0.
        max_braking_mps2: b, the hardest braking, above 0.
        exponent: Exponent of v / v0, above 0; the larger, the later acceleration fades towards the desired speed.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    standing_gap_m: float = 1.0
    headway_s: float = 1.5
    max_acceleration_mps2: float = 1.0
    max_braking_mps2: float = 2.0
    exponent: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, may_be_0=("headway_s",))

    @property
    def kernel_parameters(self) -> tuple[float, float, float, float, float]:
        """The parameters in order, for kernels."""
        return (
            float(self.standing_gap_m),
            float(self.headway_s),
            float(self.max_acceleration_mps2),
            float(self.max_braking_mps2),
            float(self.exponent),
        )


AGENT_DRIVER = IntelligentDriverParams()
"""Driver of agents, as published with nuPlan: a 1, b 2, s0 1, T 1.5."""

AV_DRIVER = IntelligentDriverParams(max_braking_mps2=3.0)
"""Driver of the AV, as published with nuPlan: like agents, but b 3."""


@dataclass(frozen=True)
class Following:
    """State of N drivers: speeds, desired speeds, and leaders.

    Attributes:
        speeds_mps: Speeds, at least 0, (N,) float64.
        gaps_m: Gaps from bumper to bumper, negative for overlapping boxes, infinite without a leader, (N,) float64.
        leader_speeds_mps: Speeds of the leaders along the path, any finite number without a leader, (N,) float64.
        wanted_speeds_mps: v0, above 0, (N,) float64.

    Raises:
        InvalidArgumentError: Shapes do not match, a type is not float64, or a value is out of range.
    """

    speeds_mps: Float64Array
    gaps_m: Float64Array
    leader_speeds_mps: Float64Array
    wanted_speeds_mps: Float64Array

    def __post_init__(self) -> None:
        shape = (len(self.speeds_mps),)
        for name, array in vars(self).items():
            if array.shape != shape or array.dtype != np.float64:
                raise InvalidArgumentError(
                    f"Following: {name} is {array.dtype} of shape {array.shape}; pass float64 of shape {shape}"
                )
        _require_all("speeds_mps", self.speeds_mps, lowest=0.0)
        _require_all("gaps_m", np.where(self.gaps_m == math.inf, 0.0, self.gaps_m))
        _require_all("leader_speeds_mps", self.leader_speeds_mps)
        _require_all("wanted_speeds_mps", self.wanted_speeds_mps, lowest=np.nextafter(0.0, 1.0))

    def __len__(self) -> int:
        return len(self.speeds_mps)


def intelligent_driver_accelerations(seen: Following, params: IntelligentDriverParams = AGENT_DRIVER) -> Float64Array:
    """Return the accelerations of drivers, (N,) float64 in m/s2, within [-b, a].

    With s* = s0 + max(0, v T + v (v - v_lead) / (2 sqrt(a b))) and the gap s, at least s0:
    a (1 - (v / v0)^4 - (s* / s)^2). Source: Treiber, Hennecke and Helbing, Phys. Rev. E 62 (2000), with the limits of
    the nuPlan devkit. The term added to s0 is at least 0, as in Treiber and Kesting, Traffic Flow Dynamics (2013), eq.
    11.15: the devkit squares s* even if it is negative, so that a vehicle at 10 m/s brakes at b because a leader 20 m
    ahead drives away at 25 m/s.

    Args:
        seen: State of N drivers.
        params: Parameters of all drivers.
    """
    arrays = (seen.speeds_mps, seen.gaps_m, seen.leader_speeds_mps, seen.wanted_speeds_mps)
    plain = tuple(array if array.flags.carray else array.copy() for array in arrays)
    return np.asarray(_accelerations(plain, params.kernel_parameters))


def intelligent_driver_step(
    seen: Following, step_time_s: float, params: IntelligentDriverParams = AGENT_DRIVER
) -> tuple[Float64Array, Float64Array]:
    """Return the speeds (N,) m/s after a step, never below 0, and the distances (N,) m driven in it.

    The acceleration is constant during the step; a vehicle that stops within it remains at rest.

    Args:
        seen: State of N drivers.
        step_time_s: Length of the step in seconds, above 0.
        params: Parameters of all drivers.

    Raises:
        InvalidArgumentError: The step time is not above 0.
    """
    require_step_time(step_time_s)
    accelerations_mps2 = intelligent_driver_accelerations(seen, params)
    speeds_mps = np.maximum(0.0, seen.speeds_mps + accelerations_mps2 * step_time_s)
    is_stopped = (speeds_mps == 0) & (accelerations_mps2 < 0)
    driven_s = np.full(len(seen), float(step_time_s))
    np.divide(seen.speeds_mps, -accelerations_mps2, out=driven_s, where=is_stopped)
    return speeds_mps, (seen.speeds_mps + speeds_mps) / 2 * driven_s


def _require_all(name: str, values: Float64Array, *, lowest: float = -math.inf) -> None:
    is_wrong = ~(np.isfinite(values) & (values >= lowest))
    if is_wrong.any():
        vehicle = int(np.flatnonzero(is_wrong)[0])
        allowed = {-math.inf: "a finite number", 0.0: "at least 0"}.get(lowest, "above 0")
        raise InvalidArgumentError(f"Following: {name} of vehicle {vehicle} is {values[vehicle]}; it must be {allowed}")


@kernel_jit
def _accelerations(arrays: tuple[Float64Array, ...], parameters: tuple[float, ...]) -> Float64Array:
    """Return accelerations (N,), see :func:`intelligent_driver_accelerations`."""
    speeds_mps, gaps_m, leader_speeds_mps, wanted_speeds_mps = arrays
    accelerations = np.empty(speeds_mps.shape[0])
    for i in range(speeds_mps.shape[0]):
        accelerations[i] = driver_acceleration(
            speeds_mps[i], gaps_m[i], leader_speeds_mps[i], wanted_speeds_mps[i], parameters
        )
    return accelerations


@kernel_jit
def wanted_gap(
    speed_mps: float,
    leader_speed_mps: float,
    standing_gap_m: float,
    headway_s: float,
    acceleration_mps2: float,
    braking_mps2: float,
) -> float:
    """Return the desired gap s* of a driver, see :func:`intelligent_driver_accelerations`; for use inside kernels."""
    closing_m = speed_mps * (speed_mps - leader_speed_mps) / (2 * math.sqrt(acceleration_mps2 * braking_mps2))
    return standing_gap_m + max(closing_m + speed_mps * headway_s, 0.0)


@kernel_jit
def driver_acceleration(
    speed_mps: float, gap_m: float, leader_speed_mps: float, wanted_speed_mps: float, parameters: tuple[float, ...]
) -> float:
    """Return the acceleration of one driver, see :func:`intelligent_driver_accelerations`; for use inside kernels.

    ``parameters`` are the fields of :class:`IntelligentDriverParams`, in their order, as float.
    """
    acceleration = unbounded_acceleration(speed_mps, gap_m, leader_speed_mps, wanted_speed_mps, parameters)
    return min(max(acceleration, -parameters[3]), parameters[2])


@kernel_jit
def unbounded_acceleration(
    speed_mps: float, gap_m: float, leader_speed_mps: float, wanted_speed_mps: float, parameters: tuple[float, ...]
) -> float:
    """Return the acceleration of the model before clipping to [-b, a]; arguments as in :func:`driver_acceleration`."""
    standing_gap_m, headway_s, max_acceleration, max_braking, exponent = parameters
    wanted_m = wanted_gap(speed_mps, leader_speed_mps, standing_gap_m, headway_s, max_acceleration, max_braking)
    pressure = wanted_m / max(gap_m, standing_gap_m)
    part = speed_mps / wanted_speed_mps
    free = 1 - (part * part * part * part if exponent == 4.0 else part**exponent)
    acceleration: float = max_acceleration * (free - pressure * pressure)
    return acceleration
