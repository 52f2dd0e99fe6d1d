"""Checks of the parameters of drivers, trackers and vehicle models."""

import math
from collections.abc import Collection

from l5kit.errors import InvalidArgumentError


def require_step_time(step_time_s: float) -> None:
    """Refuse a step time that is not finite and above 0.

    Raises:
        InvalidArgumentError: The step time is not finite, or not above 0.
    """
    if not 0 < step_time_s < math.inf:
        raise InvalidArgumentError(f"step_time_s is {step_time_s}; pass seconds above 0")


def require_positive(parameters: object, *, may_be_0: Collection[str] = ()) -> None:
    """Refuse parameters that are not finite and positive.

    Args:
        parameters: A dataclass of numbers.
        may_be_0: Names of parameters that may be 0.

    Raises:
        InvalidArgumentError: A parameter is out of range; the message names it.
    """
    for name, value in vars(parameters).items():
        if not (0 < value < math.inf or (value == 0 and name in may_be_0)):
            allowed = "at least 0" if name in may_be_0 else "above 0"
            raise InvalidArgumentError(
                f"{type(parameters).__name__}: {name} is {value}; it must be finite and {allowed}"
            )
