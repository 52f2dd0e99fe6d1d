"""The time that a training takes, over all processes that it was taken up in."""

import time


class TrainingClock:
    """Counts minutes from now on.

    Args:
        minutes: Those before.
    """

    def __init__(self, minutes: float = 0.0) -> None:
        self._before = minutes
        self._start_s = time.perf_counter()

    @property
    def minutes(self) -> float:
        """Minutes in all."""
        return self._before + (time.perf_counter() - self._start_s) / 60
