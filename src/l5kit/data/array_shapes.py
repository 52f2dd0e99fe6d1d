"""Array shapes: checks of the arrays of dataclasses, and read-only arrays."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray
from l5kit.errors import InvalidArgumentError

_Parts = TypeVar("_Parts")


def require_shapes(holder: object, **expected: tuple[int, ...]) -> None:
    """Refuse a dataclass of arrays with mismatched shapes.

    Classes created for each sample compare their shapes themselves, which takes a third of the time, and call
    :func:`refuse_shapes`.

    Args:
        holder: Object with the arrays as attributes.
        **expected: Expected shape of each array.

    Raises:
        InvalidArgumentError: An array has another shape.
    """
    for name, shape in expected.items():
        if getattr(holder, name).shape != shape:
            refuse_shapes(holder, **expected)


def refuse_shapes(holder: object, **expected: tuple[int, ...]) -> NoReturn:
    """Raise an InvalidArgumentError with the expected and actual shapes."""
    rows = ", ".join(f"{name} {getattr(holder, name).shape} for {shape}" for name, shape in expected.items())
    raise InvalidArgumentError(f"{type(holder).__name__}: shapes do not fit; found and expected are {rows}")


def require_starts(holder: object, name: str, *, num_parts: int, end: int) -> None:
    """Refuse a dataclass whose lists do not fill the array that stores them one after the other.

    Args:
        holder: Object with the starts as an attribute.
        name: Name of that attribute: start of each list and end of the last, (num_parts + 1,).
        num_parts: Number of lists.
        end: Length of the array that stores them.

    Raises:
        InvalidArgumentError: The starts have another shape, or do not run from 0 to the end.
    """
    starts = getattr(holder, name)
    if starts.shape != (num_parts + 1,) or starts[0] != 0 or starts[-1] != end:
        got = f"{starts.shape} from {starts[0]} to {starts[-1]}" if starts.size else starts.shape
        raise InvalidArgumentError(
            f"{type(holder).__name__}: {name} must have shape {(num_parts + 1,)} and go from 0 to {end}, got {got}"
        )


def as_read_only(array: NumericArray) -> NumericArray:
    """Return a read-only view: a single kind of array for kernels, whether the original is writable or not."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def as_kernel_array(array: NumericArray, dtype: DTypeLike | None = None) -> NumericArray:
    """Return a read-only view in the only layout that kernels are compiled for; a copy if the layout differs.

    Args:
        array: Any array.
        dtype: Type of the view; None for that of the array.
    """
    return as_read_only(np.ascontiguousarray(array, dtype))


def as_kernel_tuple(parts: _Parts) -> _Parts:
    """Return nested tuples with every array passed through :func:`as_kernel_array`; other items are unchanged."""
    return map_tuple(lambda part: as_kernel_array(part) if isinstance(part, np.ndarray) else part, parts)


def map_tuple(function: Callable[..., object], parts: _Parts) -> _Parts:
    """Return nested tuples of the same types with a function applied to every item."""
    if not isinstance(parts, tuple):
        return cast("_Parts", function(parts))
    make = getattr(parts, "_make", tuple)
    return cast("_Parts", make(map_tuple(function, part) for part in parts))


def as_sealed(array: NumericArray) -> NumericArray:
    """Return a read-only view of a contiguous array whose ``writeable`` flag cannot be set again.

    NumPy allows setting the flag of a plain view with a writable base, but not that of a view of a read-only buffer.
    """
    if type(array) is not np.ndarray or not array.flags.c_contiguous or array.size == 0 or array.dtype.hasobject:
        return as_read_only(array)
    memory = array.reshape(-1).view(np.uint8).data.toreadonly()
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


class ReadOnlyArrays:
    """Base of frozen dataclasses with read-only arrays, also after unpickling.

    Subclasses that check shapes call ``super().__post_init__()`` and then :func:`require_shapes`. Pickles omit cached
    values that are not fields. The ``repr`` shows types and shapes of arrays.
    """

    def __init_subclass__(cls) -> None:
        # dataclasses generate a repr of all values unless the class itself defines one
        if "__repr__" not in vars(cls):
            cls.__repr__ = ReadOnlyArrays.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for array in self._field_values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __repr__(self) -> str:
        values = (
            f"<{value.dtype} {value.shape}>" if isinstance(value, np.ndarray) else repr(value)
            for value in self._field_values()
        )
        names: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        return f"{type(self).__name__}({', '.join(map('='.join, zip(names, values, strict=True)))})"

    def __reduce__(self) -> tuple[object, ...]:
        """Return class and fields."""
        return type(self), self._field_values()

    def _field_values(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in fields(self)) if is_dataclass(self) else ()
