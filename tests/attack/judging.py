"""Outcomes of a reading, and their classification."""

import dataclasses
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from l5kit.errors import ConfigError, L5KitError


class Outcome(IntEnum):
    """Classes of outcomes, from good to bad."""

    RIGHT = 0
    """As the undamaged set has it."""
    AS_STORED = 1
    """Other values than before, which are what the records now say: no format without checksums shows that."""
    WARNED = 2
    """As one of the two above, with a warning."""
    NAMED = 3
    """An error of ours that says what and where."""
    BLOCKED = 4
    """An error of ours for something that is whole and could have been read."""
    VAGUE = 5
    """An error of ours that names neither file nor scene nor frame."""
    RAW = 6
    """Any other error."""
    WRONG = 7
    """Something else than what is stored, without an error."""
    MEMORY = 8
    """Far more memory than the set could need."""
    HANG = 9
    """No end within the limit."""
    CRASH = 10
    """The end of the process."""


_GOOD = frozenset({Outcome.RIGHT, Outcome.AS_STORED, Outcome.WARNED, Outcome.NAMED})


@dataclass(frozen=True)
class Reading:
    """One reading and its outcome.

    Attributes:
        reader: Who read.
        way: How the log was opened.
        what: What was read.
        outcome: The class.
        cause: What readings of the same cause have in common.
        detail: The message, or the values that differ.
    """

    reader: str
    way: str
    what: str
    outcome: Outcome
    cause: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Expected:
    """Allowed outcomes of a reading.

    Attributes:
        clean: Returns the value of the undamaged set; None if any value without an error is right.
        stored: Returns the value of the stored rows; None if that would be wrong, too.
        must_work: Whether an error is wrong.
        warns_if_stored: Whether the stored value needs a warning.
    """

    clean: Callable[[], Any] | None = None
    stored: Callable[[], Any] | None = None
    must_work: bool = False
    warns_if_stored: bool = False


ANYTHING = Expected()


def is_good(reading: Reading, family: str) -> bool:
    """Return whether a reading is an allowed outcome for a damaged set.

    If records are damaged, intact ones must stay readable. If files are damaged, more may be unreadable: scenes index
    all other arrays, and the agents mask needs all agents.
    """
    return reading.outcome in _GOOD or (reading.outcome is Outcome.BLOCKED and family != "records")


class MismatchError(Exception):
    """Raised by a reader that has found something wrong by itself."""


def judge_value(value: Any, expected: Expected, said: list[str]) -> tuple[Outcome, str, str]:
    """Return outcome, cause and detail of a value, and of the warnings that came with it."""
    good = Outcome.WARNED if said else Outcome.RIGHT
    if expected.clean is None:
        return good, "", "; ".join(said)
    difference = _difference_to(value, expected.clean)
    if difference is None:
        return good, "", "; ".join(said)
    if expected.stored is None:
        return Outcome.WRONG, f"other than before, though the break can be seen: {_kind_of(difference)}", difference
    from_stored = _difference_to(value, expected.stored)
    if from_stored is not None:
        return (
            Outcome.WRONG,
            f"neither as before nor as stored: {_kind_of(from_stored)}",
            f"{difference}; {from_stored}",
        )
    if expected.warns_if_stored and not said:
        return Outcome.WRONG, "something is left out without a warning", difference
    return (Outcome.WARNED if said else Outcome.AS_STORED), "", difference


def judge_error(error: BaseException, expected: Expected, place: str) -> tuple[Outcome, str, str]:
    """Return outcome, cause and detail of an error.

    Args:
        error: The error.
        expected: What was expected.
        place: The folder of the set, which an error should name.
    """
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, MismatchError):
        return Outcome.WRONG, str(error).split(":")[0], detail
    raw = _raw_cause(error, place)
    if raw is not None:
        return Outcome.RAW, f"{_chain(error)} at {where(raw)}", detail
    if not isinstance(error, ConfigError) and not _names_something(str(error), place):
        return Outcome.VAGUE, f"{_chain(error)} at {where(error)}", detail
    if expected.must_work:
        return Outcome.BLOCKED, f"{_chain(error)} at {where(error)}", detail
    return Outcome.NAMED, f"{_chain(error)} at {where(error)}", detail


def _raw_cause(error: BaseException, place: str) -> BaseException | None:
    """Return the error that is none of ours and says nothing to a person, if there is one.

    The error of a sample hands on the text of its cause, so that the cause must be readable as well. One of the system
    is readable if it names a file, by itself or in words: those of l5kit about missing files do that.
    """
    if isinstance(error, L5KitError):
        is_handed_on = type(error).__name__ == "SampleError" and error.__cause__ is not None
        return _raw_cause(error.__cause__, place) if is_handed_on and error.__cause__ is not None else None
    return None if isinstance(error, OSError) and (error.filename or place in str(error)) else error


_PLACES = re.compile(
    r"\b(scene|frame|sample|row|track|agent)s?(_index)? (of )?\d+|\.zarr|for a dataset of \d+ samples"
    r"|(model|raster|data_generation)_params\.|raster_size"
)


def _names_something(message: str, place: str) -> bool:
    return place in message or bool(_PLACES.search(message))


def _chain(error: BaseException) -> str:
    names = [type(error).__name__]
    cause = error.__cause__
    if type(error).__name__ == "SampleError" and cause is not None:
        names.append(type(cause).__name__)
    return " from ".join(names)


def where(error: BaseException) -> str:
    """Return the last frames of a traceback: the deepest one of l5kit, and the deepest of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/l5kit/" in frame.filename]
    named = [f"l5kit/{frame.filename.rpartition('/l5kit/')[2]}:{frame.lineno} {frame.name}" for frame in ours[-1:]]
    if frames and (not ours or frames[-1] is not ours[-1]):
        named.append(f"{'/'.join(frames[-1].filename.split('/')[-2:])}:{frames[-1].lineno} {frames[-1].name}")
    return " > ".join(named) or "nowhere"


def _difference_to(value: Any, make: Callable[[], Any]) -> str | None:
    """Return how a value differs from what is made; the error of making counts as a difference."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = make()
    except Exception as error:
        return f"no such thing: {type(error).__name__}: {error}"
    return difference(value, other)


def _kind_of(difference_: str) -> str:
    return re.sub(r"\d+", "N", difference_.split(" is ")[0].split(" has ")[0])[:60]


def difference(value: Any, other: Any, name: str = "it") -> str | None:
    """Return where two values differ, None where they do not; NaN is equal to itself."""
    if dataclasses.is_dataclass(other) and not isinstance(other, type):
        return difference(vars(value), vars(other), name)
    if isinstance(other, dict):
        if not hasattr(value, "keys"):
            return f"{name} is {type(value).__name__} {str(value)[:80]}, not a dict"
        if set(value) != set(other):
            return f"{name} has keys {sorted(map(str, value))[:30]}, not {sorted(map(str, other))[:30]}"
        first = ("scene_index", "timestamp", "track_id", "frame_index", "centroid")
        keys = [key for key in first if key in other] + [key for key in other if key not in first]
        return next((found for key in keys if (found := difference(value[key], other[key], str(key)))), None)
    if isinstance(other, (list, tuple)):
        if len(value) != len(other):
            return f"{name} has {len(value)} entries, not {len(other)}"
        pairs = enumerate(zip(value, other, strict=True))
        return next((found for i, (a, b) in pairs if (found := difference(a, b, f"{name}[{i}]"))), None)
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return _array_difference(np.asarray(value), np.asarray(other), name)


def _array_difference(value: np.ndarray, other: np.ndarray, name: str) -> str | None:
    if value.shape != other.shape:
        return f"{name} is of shape {value.shape}, not {other.shape}"
    names = value.dtype.names
    if names and value.dtype != other.dtype and set(names) == set(other.dtype.names or ()):
        # records are equal whatever the order of their fields
        return next(
            (found for key in names if (found := _array_difference(value[key], other[key], f"{name}.{key}"))), None
        )
    if value.dtype.names or value.dtype.kind in "OUS" or other.dtype.kind in "OUS":
        is_same = value.tobytes() == other.tobytes() if value.dtype.names else bool((value == other).all())
        return None if is_same else f"{name} is {_shown(value)}, not {_shown(other)}"
    is_equal = (value == other) | ((value != value) & (other != other))
    if is_equal.all():
        return None
    place = tuple(int(index[0]) for index in np.nonzero(np.atleast_1d(~is_equal)))
    got, wanted = np.atleast_1d(value)[place], np.atleast_1d(other)[place]
    return f"{name} is {got!r}, not {wanted!r} at {place} ({int((~is_equal).sum())} of {is_equal.size} values)"


def _shown(values: np.ndarray) -> str:
    try:
        return str(values.tolist())[:150]
    except (SystemError, ValueError):  # NumPy cannot make strings with invalid code points
        return repr(values.tobytes())[:150]
