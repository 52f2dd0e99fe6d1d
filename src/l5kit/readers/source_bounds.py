"""How great the values of a source scene may be, for all readers: what lies beyond is damaged, and is refused by name.

The bounds are wide: no road user and no map of a scene comes near them. Within them records are exact to a millimetre
and the semantic map to a centimetre, times fit into an int64 with all differences of two, and scenes with frames of
their own find room side by side.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.errors import InvalidArgumentError

FURTHEST_M: Final = 1e7
"""Coordinates lie so near to the origin of their frame at most."""

FURTHEST_FROM_AV_M: Final = 1e5
"""Road users and elements of the map lie so near to the first place of the AV at most, in x, y and z."""

GREATEST_SIZE_M: Final = 100.0
"""Boxes are so long, wide and high at most."""

GREATEST_SPEED_MPS: Final = 1e3
"""Velocities are so great at most, in x and in y."""

GREATEST_AV_SPEED_MPS: Final = 150.0
"""The AV moves so fast at most from step to step, as ``l5kit validate`` asks of logs."""

GREATEST_ANGLE_RAD: Final = 1e6
"""Headings are so great at most; more turns leave nothing of the angle."""

FIRST_TIME_NS: Final = 1
"""Times are so late at least, as logs know no time 0."""

LAST_TIME_NS: Final = 9_200_000_000_000_000_000
"""Times are so early at most, which is in the year 2261; an int64 ends a little later."""

SHORTEST_STEP_NS: Final = 1_000_000
"""Steps are so far apart at least, as ``l5kit validate`` asks of logs."""

LONGEST_TEXT: Final = 256
"""Ids and names have so many characters at most."""

MOST_STATES: Final = 20_000_000
"""A scene has so many tracks times steps at most, with which it takes some gigabytes."""


def require_within(
    name: str, of_what: str, values: NumericArray, limit: float, *, unit: str, around: NumericArray | float = 0.0
) -> None:
    """Refuse values that are no numbers or too great.

    Args:
        name: What they are called.
        of_what: Of what they are, such as ``lane 'a'``.
        values: Any shape; the first axis counts steps, points or whatever ``of_what`` has several of.
        limit: The greatest distance from ``around`` that is allowed, of each number by itself.
        unit: Unit of the limit.
        around: What they may be distant from.

    Raises:
        InvalidArgumentError: One is not within; the message has its place and value.
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
    """Return which values are numbers and no further away than a limit; same shape."""
    with np.errstate(invalid="ignore", over="ignore"):
        within: BoolArray = np.abs(np.asarray(values, np.float64) - around) <= limit
    return within


def as_times_ns(name: str, times: NumericArray, *, ns_per_unit: float, start_ns: int = 0) -> Int64Array:
    """Return times of a source in whole nanoseconds, int64, of the same shape.

    Args:
        name: What the source calls them.
        times: In the unit of the source, (T,).
        ns_per_unit: Nanoseconds in such a unit.
        start_ns: What is added.

    Raises:
        InvalidArgumentError: One is no number, or not one that a log has; it would overflow in silence.
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
    """Return whether a value can be an id or name: text that is not empty, not endless, and can be written."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
        return False
    return not any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in value)


def require_text(what: str, value: object) -> None:
    """Refuse what can be no id or name.

    Args:
        what: What it is, such as ``the id of a lane``.
        value: The id or name.

    Raises:
        InvalidArgumentError: It is no text, empty, has too many characters, or some that cannot be written as UTF-8.
    """
    if not is_text(value):
        shown = repr(value)
        raise InvalidArgumentError(
            f"{what} must be text that is not empty, of {LONGEST_TEXT} characters at most, all of which can be written "
            f"as UTF-8, got {shown if len(shown) <= 80 else f'{shown[:80]} ...'}"
        )


def require_few_states(num_tracks: int, num_steps: int, *, called: str = "steps", advice: str = "") -> None:
    """Refuse a scene whose arrays would take all memory.

    Args:
        num_tracks: Its tracks.
        num_steps: Its steps.
        called: What the source calls steps.
        advice: What is to be done, if something is.

    Raises:
        ValueError: It has more than :data:`MOST_STATES` of both.
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
        steps: Its step, (M,).
        num_steps: Steps of the scene, which has so few states that all of them can be counted.
        problem_of: Says what is wrong in a step.

    Raises:
        ValueError: There is one; the message names the first.
    """
    counts = np.bincount(tracks * num_steps + steps)
    if counts.max(initial=0) > 1:
        track, step = divmod(int(np.argmax(counts > 1)), num_steps)
        raise ValueError(f"track {ids[track]!r} {problem_of(step)}")
