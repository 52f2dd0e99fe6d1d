"""Thresholds of EPDMS; the weights of its terms stand in their table."""

from dataclasses import dataclass
from typing import Final

from l5kit.errors import InvalidArgumentError

STEP_S: Final = 0.1
"""Time between two states of a window, seconds."""


@dataclass(frozen=True)
class EpdmsParams:
    """Thresholds of the terms, and which windows there are; the defaults are those of NAVSIM v2.

    Attributes:
        horizon_s: Length of a window.
        past_s: What history comfort looks back.
        stride_s: From one window to the next, whose plans extended comfort compares.
        seam_m: A corner that is as far from the road has left it. NAVSIM has no tolerance; the format of maps has
            centimetres, so that areas that share a border may be as far apart.
        looks_s: How much later the time to collision looks at others.
        free_way_m: Where no plan comes farther, progress is 1.
        most_offset_m: A centre that is farther from the route's centre line does not keep its lane.
        offset_s: How long that has to last.
        acceleration_mps2: Largest root mean square of the differences of two plans, for extended comfort.
        jerk_mps3: The same of jerks.
        yaw_rate_radps: The same of yaw rates.
        yaw_acceleration_radps2: The same of yaw accelerations.

    Raises:
        InvalidArgumentError: A value is negative, or a time is no whole number of steps.
    """

    horizon_s: float = 4.0
    past_s: float = 1.5
    stride_s: float = 0.5
    seam_m: float = 0.01
    looks_s: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9)
    free_way_m: float = 5.0
    most_offset_m: float = 0.5
    offset_s: float = 2.0
    acceleration_mps2: float = 0.7
    jerk_mps3: float = 0.5
    yaw_rate_radps: float = 0.1
    yaw_acceleration_radps2: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            values = value if isinstance(value, tuple) else (value,)
            is_time = name.endswith("_s")
            is_whole = not is_time or all(abs(each - STEP_S * steps_of(each)) < 1e-6 for each in values)
            if not (values and min(values) >= 0 and is_whole):
                raise InvalidArgumentError(
                    f"EpdmsParams: {name} is {value}; it must be at least 0, and times whole numbers of {STEP_S} s"
                )
        if not 0 < self.stride_s <= self.horizon_s or max(self.looks_s) > self.horizon_s:
            raise InvalidArgumentError(
                f"EpdmsParams: stride_s {self.stride_s} must be above 0, and neither it nor looks_s {self.looks_s} "
                f"above horizon_s {self.horizon_s}"
            )

    @property
    def num_steps(self) -> int:
        """Steps of a window, which has one state more."""
        return steps_of(self.horizon_s)

    @property
    def num_past(self) -> int:
        """States of the past, without the present one."""
        return steps_of(self.past_s)

    @property
    def num_between(self) -> int:
        """Steps from one window to the next."""
        return steps_of(self.stride_s)


def steps_of(time_s: float) -> int:
    """Return how many steps a time is."""
    return round(time_s / STEP_S)
