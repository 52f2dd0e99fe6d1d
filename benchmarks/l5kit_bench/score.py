"""Unit of speed: the current score of one core of this machine, for comparing rates of different times and machines."""

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from l5kit.configs.class_path import describe_error
from l5kit.errors import InvalidArgumentError

WINDOW_S = 0.6
"""Length of a measurement; the best of three counts."""

QUICK_WINDOW_S = 0.01
"""The same for runs whose figures do not matter."""

_NUM_WINDOWS = 3
_LOOP_LENGTH = 20_000
_NUM_VALUES = 100_000
_NUM_COPIED = 2_000_000

Clock = Callable[[], float]
"""Clock that returns seconds since an arbitrary moment."""


def measure_score(*, window_s: float = WINDOW_S, clock: Clock = time.perf_counter) -> float:
    """Return the score: the geometric mean of the rates of four pieces of work on one thread.

    They are a loop of the interpreter, the sine of 100,000 numbers, sorting 100,000 numbers and copying 16 MB; each
    rate is that of the best of three windows.

    Args:
        window_s: Length of a window in seconds.
        clock: Tells the time.
    """
    return geometric_mean([_best_rate(work, window_s, clock) for work in _pieces_of_work()])


def geometric_mean(rates: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(math.fsum(map(math.log, rates)) / len(rates))


def score_of_script(path: Path) -> float:
    """Return what the function ``score()`` of a Python file returns.

    Raises:
        InvalidArgumentError: There is no such file, or no such function in it.
    """
    if not path.is_file():
        raise InvalidArgumentError(f"score script {str(path)!r} does not exist; name a Python file with score()")
    spec = importlib.util.spec_from_file_location("l5kit_score_script", path)
    if spec is None or spec.loader is None:
        raise InvalidArgumentError(f"score script {str(path)!r} must be a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidArgumentError(f"score script {str(path)!r} cannot be loaded: {describe_error(error)}") from error
    if not callable(getattr(module, "score", None)):
        raise InvalidArgumentError(f"score script {str(path)!r} has no function score(), which returns a number")
    return float(module.score())


def _pieces_of_work() -> list[Callable[[], object]]:
    values = np.random.RandomState(0).rand(_NUM_VALUES)
    source = np.zeros(_NUM_COPIED)
    target = np.empty_like(source)

    def loop() -> int:
        total = 0
        for number in range(_LOOP_LENGTH):
            total += number & 7
        return total

    return [loop, lambda: np.sin(values), lambda: np.sort(values), lambda: np.copyto(target, source)]


def _best_rate(work: Callable[[], object], window_s: float, clock: Clock) -> float:
    """Return the repetitions per second of the best window, after one repetition that is not counted."""
    work()
    return max(_window_rate(work, window_s, clock) for _ in range(_NUM_WINDOWS))


def _window_rate(work: Callable[[], object], window_s: float, clock: Clock) -> float:
    start, count = clock(), 0
    while clock() - start < window_s:
        work()
        count += 1
    return count / (clock() - start)
