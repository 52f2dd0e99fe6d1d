"""Read-only views of objects with arrays, passed to user code that must not change a simulation.

Nothing is copied. The class of a view is a subclass of the class of its object, so ``isinstance`` works. Values made
on demand are computed and cached by the object. Kernels of l5kit get the objects themselves, as numba would compile
again for read-only arrays.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from l5kit._overriding import overrides_package
from l5kit.data.array_shapes import as_sealed

_T = TypeVar("_T")
_SOURCE = "_behind_view"


def shown_to(owner: object, method: str, value: _T) -> _T:
    """Return a value as passed to a method: unchanged for code of l5kit, otherwise as a read-only view.

    Args:
        owner: Object of the method.
        method: Name of the method.
        value: Argument of the method.
    """
    return value if not overrides_package(owner, method, package="l5kit") else read_only(value)


def read_only(value: _T) -> _T:
    """Return a read-only view of arrays or of an object that contains some; any other value is returned unchanged.

    Supported are dataclasses of l5kit, objects with ``as_read_only``, tuples, lists and dictionaries. A dataclass field
    named ``memory`` stays writable.
    """
    if isinstance(value, np.ndarray):
        return cast("_T", as_sealed(value))
    if isinstance(value, (tuple, list)):
        shown = [read_only(each) for each in value]
        return cast("_T", type(value)(*shown) if hasattr(value, "_fields") else type(value)(shown))
    if isinstance(value, dict):
        return cast("_T", {name: read_only(each) for name, each in value.items()})
    show: Callable[[object], object] | None = getattr(type(value), "as_read_only", None)  # it knows its own arrays
    if show is not None:
        return cast("_T", show(value))
    is_own = not isinstance(value, type) and is_dataclass(value) and type(value).__module__.startswith("l5kit.")
    if not is_own or hasattr(value, _SOURCE):
        return value

    # create an object of the class of views, with views of all fields
    source: Any = value
    source_class: Any = type(value)  # mypy takes the type of an object for unhashable
    given = {field.name: getattr(source, field.name) for field in fields(source)}
    given = {name: each if name == "memory" else read_only(each) for name, each in given.items()}
    if not hasattr(source, "__dict__"):  # with slots, which caches nothing
        return cast("_T", replace(source, **given))
    view: Any = object.__new__(_class_of_views(source_class))
    for name, each in (given | {_SOURCE: source}).items():
        object.__setattr__(view, name, each)
    return cast("_T", view)


def behind_view(value: _T) -> _T:
    """Return the object behind a view, for l5kit kernels that do not write to it; any other value unchanged."""
    return cast("_T", getattr(value, _SOURCE, value))


@functools.cache
def _class_of_views(value_class: type) -> type:
    """Return the class of views of a class, which takes values computed on demand from the object."""
    members: dict[str, object] = {"__module__": value_class.__module__, "__qualname__": value_class.__qualname__}
    for name in dir(value_class):
        member = inspect.getattr_static(value_class, name)
        if isinstance(member, functools.cached_property):
            kept = functools.cached_property(_read_behind(name, member.func))
            kept.__set_name__(value_class, name)
            members[name] = kept
        elif isinstance(member, property) and member.fget is not None:
            members[name] = property(_read_behind(name, member.fget))
    return type(value_class.__name__, (value_class,), members)


def _read_behind(name: str, compute: Callable[..., object]) -> Callable[..., object]:
    """Return a function that takes a computed value from the object behind a view, and returns it read-only."""

    def read(view: object) -> object:
        source = behind_view(view)
        # a view changed by dataclasses.replace is an independent object
        return read_only(compute(view) if source is view else getattr(source, name))

    return read
