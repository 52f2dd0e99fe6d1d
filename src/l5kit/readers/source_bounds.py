"""Allowed ranges of the values of a source scene, common to all readers; values beyond them mean damaged data.

The bounds are wide: no real road user or map comes near them. Within them records are exact to a millimetre and the
semantic map to a centimetre, differences of times fit into an int64, and scenes with their own frames can be placed
side by side.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.errors import InvalidArgumentError

FURTHEST_M: Final = 1e7
"""Maximum absolute coordinate, from the origin of its frame."""

FURTHEST_FROM_AV_M: Final = 1e5
"""Maximum distance of road users and map elements from the first position of the AV, in each of x, y and z."""

GREATEST_SIZE_M: Final = 100.0
"""Maximum length, width and height of a box."""

GREATEST_SPEED_MPS: Final = 1e3
"""Maximum absolute velocity, in x and in y."""

GREATEST_AV_SPEED_MPS: Final = 150.0
"""Maximum speed of the AV between steps, as in ``l5kit validate``."""

GREATEST_ANGLE_RAD: Final = 1e6
"""Maximum absolute heading; beyond it rounding leaves nothing of the angle."""

FIRST_TIME_NS: Final = 1
"""Minimum time, as logs have no time 0."""

LAST_TIME_NS: Final = 9_200_000_000_000_000_000
"""Maximum time, in the year 2261, a little before the end of an int64."""

SHORTEST_STEP_NS: Final = 1_000_000
"""Minimum time between steps, as in ``l5kit validate``."""

LONGEST_TEXT: Final = 256
"""Maximum number of characters of ids and names."""

MOST_STATES: Final = 20_000_000
"""Maximum number of tracks times steps of a scene, which takes some gigabytes."""


def require_within(
    name: str, of_what: str, values: NumericArray, limit: float, *, unit: str, around: NumericArray | float = 0.0
) -> None:
    """Refuse values that are not finite or out of range.

    Args:
        name: Name of the values.
        of_what: Their owner, such as ``lane 'a'``.
        values: Any shape; the first axis counts steps, points or other items of ``of_what``.
        limit: Maximum distance from ``around``, for each number separately.
        unit: Unit of the limit.
        around: Centre of the range.

    Raises:
        InvalidArgumentError: A value is out of range; the message has its index and value.
    """
    is_wrong = ~is_within(values, limit, around=around)
    if is_wrong.any():
        index = np.unravel_index(int(np.argmax(is_wrong)), np.shape(values))
        row = np.asarray(values)[index[:1]] if np.ndim(values) else np.asarray(values)
        where = f", number {int(index[0])}," if np.ndim(values) > 1 else ""
        centre = f" {unit} of {np.asarray(around).tolist()}" if np.any(around) else f" {unit} of 0"
        raise InvalidArgumentError(
            f"{name} of {of_what}{where} must be finite and within {limit:g}{centre}, got {row.tolist()}"
        )


def is_within(values: NumericArray, limit: float, *, around: NumericArray | float = 0.0) -> BoolArray:
    """Return which values are numbers within a limit; same shape."""
    with np.errstate(invalid="ignore", over="ignore"):
        within: BoolArray = np.abs(np.asarray(values, np.float64) - around) <= limit
    return within


def as_times_ns(name: str, times: NumericArray, *, ns_per_unit: float, start_ns: int = 0) -> Int64Array:
    """Return times of a source in integer nanoseconds, int64, of the same shape.

    Args:
        name: Name of the times in the source.
        times: Times in the unit of the source, (T,).
        ns_per_unit: Nanoseconds per unit.
        start_ns: Offset to add.

    Raises:
        InvalidArgumentError: A time is not a number or out of the range of logs, where it would overflow silently.
    """
    first, last = (FIRST_TIME_NS - start_ns) / ns_per_unit, (LAST_TIME_NS - start_ns) / ns_per_unit
    values = np.asarray(times)
    is_wrong = ~((values >= first) & (values <= last))
    if is_wrong.any():
        step = int(np.argmax(is_wrong))
        raise InvalidArgumentError(f"{name} must be from {first:g} to {last:g}, got {values[step]} in step {step}")
    if values.dtype.kind in "iu" and float(ns_per_unit).is_integer():
        return values.astype(np.int64) * int(ns_per_unit) + start_ns
    scaled: Float64Array = values.astype(np.float64) * ns_per_unit
    return np.rint(scaled).astype(np.int64) + start_ns


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value can be an id or name: nonempty text of limited length that UTF-8 can encode."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
        return False
    return not any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in value)


def require_text(what: str, value: object) -> None:
    """Refuse a value that cannot be an id or name.

    Args:
        what: Its description, such as ``the id of a lane``.
        value: The id or name.

    Raises:
        InvalidArgumentError: It is not text, empty, too long, or cannot be encoded as UTF-8.
    """
    if not is_text(value):
        shown = repr(value)
        raise InvalidArgumentError(
            f"{what} must be text that is not empty, of {LONGEST_TEXT} characters at most, all of which can be written "
            f"as UTF-8, got {shown if len(shown) <= 80 else f'{shown[:80]} ...'}"
        )


def require_few_states(num_tracks: int, num_steps: int, *, called: str = "steps", advice: str = "") -> None:
    """Refuse a scene whose arrays would exhaust the memory.

    Args:
        num_tracks: Its tracks.
        num_steps: Its steps.
        called: Name of the steps in the source.
        advice: What the user can do, if anything.

    Raises:
        ValueError: Tracks times steps exceed :data:`MOST_STATES`.
    """
    if num_tracks * num_steps > MOST_STATES:
        raise ValueError(
            f"it has {num_tracks} tracks and {num_steps} {called}, more than {MOST_STATES} states in all{advice}"
        )


def require_one_state(
    ids: Sequence[str], tracks: Int64Array, steps: Int64Array, num_steps: int, *, problem_of: Callable[[int], str]
) -> None:
    """Refuse a track that a source lists twice in a step.

    Args:
        ids: Ids of the tracks.
        tracks: Track of each row, (M,).
        steps: Step of each row, (M,).
        num_steps: Steps of the scene; tracks times steps must be few enough to count in an array.
        problem_of: Returns the message for a step.

    Raises:
        ValueError: There is such a track; the message names the first.
    """
    counts = np.bincount(tracks * num_steps + steps)
    if counts.max(initial=0) > 1:
        track, step = divmod(int(np.argmax(counts > 1)), num_steps)
        raise ValueError(f"track {ids[track]!r} {problem_of(step)}")
