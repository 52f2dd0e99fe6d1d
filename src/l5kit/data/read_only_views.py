"""Read-only views of objects of arrays: states of a simulation for user code, which must not change them.

Nothing is copied. The class of a view is derived from that of its object, so isinstance checks hold, and lazily
computed attributes are computed and cached by the object. Kernels of l5kit get the objects themselves, as numba would
compile them again for read-only arrays.
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
    """Return a value for a method of an object: the value itself for code of l5kit, for others a read-only view.

    Args:
        owner: Object of the method.
        method: The name of the method.
        value: Its argument.
    """
    return value if not overrides_package(owner, method, package="l5kit") else read_only(value)


def read_only(value: _T) -> _T:
    """Return a read-only view of arrays, or of objects that hold some; other values are returned unchanged.

    Views are made of dataclasses of l5kit, objects with ``as_read_only``, tuples, lists and dictionaries. An attribute
    ``memory`` of a dataclass stays writable.
    """
    if isinstance(value, np.ndarray):
        return cast("_T", as_sealed(value))
    if isinstance(value, (tuple, list)):
        shown = [read_only(each) for each in value]
        return cast("_T", type(value)(*shown) if hasattr(value, "_fields") else type(value)(shown))
    if isinstance(value, dict):
        return cast("_T", {name: read_only(each) for name, each in value.items()})
    show: Callable[[object], object] | None = getattr(
        type(value), "as_read_only", None
    )  # objects that know their own arrays
    if show is not None:
        return cast("_T", show(value))
    is_own = not isinstance(value, type) and is_dataclass(value) and type(value).__module__.startswith("l5kit.")
    if not is_own or hasattr(value, _SOURCE):
        return value

    # an object of the class of views, with views of all fields
    source: Any = value
    source_class: Any = type(value)  # mypy does not consider the type of an object hashable
    given = {field.name: getattr(source, field.name) for field in fields(source)}
    given = {name: each if name == "memory" else read_only(each) for name, each in given.items()}
    if not hasattr(source, "__dict__"):  # a class with slots, without lazily computed attributes
        return cast("_T", replace(source, **given))
    view: Any = object.__new__(_class_of_views(source_class))
    for name, each in (given | {_SOURCE: source}).items():
        object.__setattr__(view, name, each)
    return cast("_T", view)


def behind_view(value: _T) -> _T:
    """Return the object of a view, for kernels of l5kit that do not write; the value itself if it is not a view."""
    return cast("_T", getattr(value, _SOURCE, value))


@functools.cache
def _class_of_views(value_class: type) -> type:
    """Return the class of the views of objects of a class, whose lazily computed attributes are those of the object."""
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
    """Return a getter that reads a computed attribute of the object behind a view, and returns it read-only."""

    def read(view: object) -> object:
        source = behind_view(view)
        # a view changed by dataclasses.replace is a separate object
        return read_only(compute(view) if source is view else getattr(source, name))

    return read
