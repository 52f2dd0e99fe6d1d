"""Read-only views of objects of arrays: what code of users is shown of a simulation, which it must not change.

Nothing is copied. A view is of a subclass of the class of its object, so that it is one of these for whoever asks, and
what the object computes on demand is computed by it and kept there. Kernels of l5kit get the objects themselves, as
numba compiles anew for arrays that may not be written to.
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
    """Return a value as a method of an object may see it: itself for code of l5kit, for others a read-only view.

    Args:
        owner: Whose method it is.
        method: The name of the method.
        value: What it is called with.
    """
    return value if not overrides_package(owner, method, package="l5kit") else read_only(value)


def read_only(value: _T) -> _T:
    """Return a view of arrays, or of what holds some, that nobody may write to; of anything else the value itself.

    Looked into are dataclasses of l5kit, what has ``as_read_only``, tuples, lists and dictionaries. Whatever a
    dataclass calls ``memory`` is for writing, and stays as it is.
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

    # an object of a class of views, which has views of all fields
    source: Any = value
    source_class: Any = type(value)  # mypy does not take the type of an object for hashable
    given = {field.name: getattr(source, field.name) for field in fields(source)}
    given = {name: each if name == "memory" else read_only(each) for name, each in given.items()}
    if not hasattr(source, "__dict__"):  # one with slots, which computes nothing on demand
        return cast("_T", replace(source, **given))
    view: Any = object.__new__(_class_of_views(source_class))
    for name, each in (given | {_SOURCE: source}).items():
        object.__setattr__(view, name, each)
    return cast("_T", view)


def behind_view(value: _T) -> _T:
    """Return what a view is of, for kernels of l5kit that write to nothing; the value itself if it is no view."""
    return cast("_T", getattr(value, _SOURCE, value))


@functools.cache
def _class_of_views(value_class: type) -> type:
    """Return the class of the views of objects of a class: what it computes on demand is that of the object."""
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
    """Return what takes something that is computed from the object behind a view, and shows it read-only."""

    def read(view: object) -> object:
        source = behind_view(view)
        # a view that dataclasses.replace has changed is an object of its own
        return read_only(compute(view) if source is view else getattr(source, name))

    return read
