"""Type-checked access to the dictionaries of a source; errors name path, value and expected type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, NumericArray
from l5kit.readers.source_map import with_heights


@dataclass(frozen=True, slots=True)
class SourceFields:
    """A dictionary from an untrusted file.

    Attributes:
        values: Its content.
        path: Its path in the file, for errors, such as ``tracks['7'].state``; empty for the whole file.
    """

    values: Mapping[object, object]
    path: str = ""

    @classmethod
    def of(cls, value: object, path: str = "") -> "SourceFields":
        """Wrap a value as fields.

        Raises:
            TypeError: It is no dictionary.
        """
        if not isinstance(value, Mapping):
            raise TypeError(f"{path or 'the file'} must hold a dictionary, got {_shown(value)}")
        return cls(value, path)

    def has(self, key: str) -> bool:
        """Return whether there is a value that is not None."""
        return self.values.get(key) is not None

    def at(self, key: str) -> object:
        """Return a value that must exist.

        Raises:
            ValueError: It is missing; the message lists the existing keys.
        """
        try:
            return self.values[key]
        except KeyError:
            known = ", ".join(str(name)[:40] for name in list(self.values)[:20])
            raise ValueError(f"{self._name_of(key)} is missing; there are: {known or 'none'}") from None

    def fields(self, key: str) -> "SourceFields":
        """Return a dictionary in this one."""
        return SourceFields.of(self.at(key), self._name_of(key))

    def items(self) -> Iterator[tuple[str, "SourceFields"]]:
        """Yield the nested dictionaries by their keys, which are text or whole numbers."""
        for key, value in self.values.items():
            yield str(key), SourceFields.of(value, f"{self.path}[{str(key)!r:.60}]")

    def text(self, key: str, default: str | None = None) -> str:
        """Return text, or a default if there is no value.

        Raises:
            TypeError: It is not text, and there is none without a default.
        """
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise TypeError(f"{self._name_of(key)} must be text, got {_shown(value)}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Return the ids of a list, text or whole numbers; empty without a list."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, np.ndarray):
            value = value.ravel().tolist()
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise TypeError(f"{self._name_of(key)} must be a list of ids, got {_shown(value)}")
        return tuple(str(each) for each in value)

    def name_or_none(self, key: str) -> str | None:
        """Return an id, text or a whole number, or None."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def number(self, key: str) -> float | None:
        """Return a number, or None if there is none or it is not finite."""
        value = self.values.get(key)
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.ravel()[0]
        if value is None or not isinstance(value, int | float | np.number):
            return None
        number = float(value)
        return number if np.isfinite(number) else None

    def floats(self, key: str, *axes: int | None) -> Float64Array:
        """Return numbers of a given shape.

        Args:
            key: Name of the value.
            axes: Length of each axis, None for any; an extra last axis of length 1 is removed.

        Raises:
            TypeError: They are not numbers.
            ValueError: They are missing, or have another shape.
        """
        values = as_floats(self.at(key), self._name_of(key))
        if values.ndim == len(axes) + 1 and values.shape[-1] == 1:
            values = values[..., 0]
        if values.ndim != len(axes) or any(
            size not in (None, real) for size, real in zip(axes, values.shape, strict=True)
        ):
            wanted = ", ".join("any" if size is None else str(size) for size in axes)
            raise ValueError(f"{self._name_of(key)} must have the shape ({wanted}), got {values.shape}")
        return values

    def points(self, key: str, num_points: int | None = None) -> Float64Array:
        """Return points of two or three numbers, (n, 3); the height is 0 if missing.

        Args:
            key: Name of the value.
            num_points: Number of points; None for any.

        Raises:
            TypeError: They are not numbers.
            ValueError: They are missing, or have another shape.
        """
        points_m = self.floats(key, num_points, None)
        if points_m.shape[1] not in (2, 3):
            raise ValueError(f"{self._name_of(key)} must have 2 or 3 columns, got {points_m.shape[1]}")
        return with_heights(points_m)

    def _name_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def as_floats(value: object, name: str) -> Float64Array:
    """Return an array or nested lists of numbers as float64.

    Args:
        value: The numbers.
        name: Their name, for errors.

    Raises:
        TypeError: They are not numbers.
    """
    values: NumericArray
    try:
        values = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be numbers in rows of one length, got {_shown(value)}") from error
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers, got {_shown(value)}")
    return values.astype(np.float64, copy=False)


def _shown(value: object) -> str:
    """Return a value for error messages, without descending into it."""
    if isinstance(value, str | int | float) or value is None:
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:80]} ..."
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"a {type(value).__name__}"
