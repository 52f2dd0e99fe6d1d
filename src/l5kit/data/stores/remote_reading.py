"""Patience with remote services: how often a file is asked for, how long is waited, how much at the same time."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from l5kit.errors import InvalidArgumentError

_ENV_PREFIX = "L5KIT_REMOTE_"


@dataclass(frozen=True)
class RemoteReading:
    """How files are read from a remote service.

    The longest that a file can take is ``attempts`` times ``timeout_s``, and the delays between them.

    Attributes:
        attempts: How often a file is asked for if the service does not answer, breaks off or is busy.
        timeout_s: Longest time for one attempt, seconds.
        first_delay_s: Time before the second attempt, seconds; it doubles from one attempt to the next.
        max_delay_s: Longest time between two attempts, seconds.
        concurrency: Most files that a process asks for at the same time, of one dataset.

    Raises:
        InvalidArgumentError: A number is out of range.
    """

    attempts: int = 5
    timeout_s: float = 30.0
    first_delay_s: float = 0.25
    max_delay_s: float = 8.0
    concurrency: int = 16

    def __post_init__(self) -> None:
        for name in ("attempts", "concurrency"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1000:
                raise InvalidArgumentError(f"{name} of RemoteReading must be a whole number, 1 to 1000, got {value!r}")
        for name in ("timeout_s", "first_delay_s", "max_delay_s"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise InvalidArgumentError(f"{name} of RemoteReading must be seconds, 0 or more, got {value!r}")
        if self.timeout_s == 0:
            raise InvalidArgumentError("timeout_s of RemoteReading must be more than 0 seconds, got 0")

    @classmethod
    def from_environment(cls) -> Self:
        """Return the defaults, with what the environment says: ``L5KIT_REMOTE_TIMEOUT_S=5`` and so on.

        Raises:
            InvalidArgumentError: A variable holds no number, or one that is out of range.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            variable = _ENV_PREFIX + field.name.upper()
            text = os.environ.get(variable)
            if text:
                try:
                    given[field.name] = int(text) if field.type is int else float(text)
                except ValueError as error:
                    raise InvalidArgumentError(
                        f"the environment variable {variable} must be a number, got {text!r}"
                    ) from error
        return replace(cls(), **given)

    def delays_s(self) -> Iterator[float]:
        """Yield the times between attempts, seconds; one less than there are attempts."""
        for repetition in range(self.attempts - 1):
            yield min(self.first_delay_s * 2.0**repetition, self.max_delay_s)
