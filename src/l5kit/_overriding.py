"""Overridden methods: checks whether an object overrides methods of a base class or package.

Code for whole batches checks this before it replaces methods for single items, which users of L5Kit 1.x override.
"""

import functools


def overrides(value: object, *methods: str, base: type) -> bool:
    """Return whether an object, or its class, overrides any of the given methods of a base class.

    Args:
        value: The object; it need not be of the base class.
        *methods: Names of methods of the base class.
        base: The class to compare with.
    """
    value_class = type(value)
    if _has_any(value, methods):
        return True
    return any(getattr(value_class, method, None) is not getattr(base, method) for method in methods)


def overrides_package(value: object, *methods: str, package: str) -> bool:
    """Return whether any of the given methods comes from a class outside a package, or is set on the object itself.

    Args:
        value: The object.
        *methods: Names of methods that its class has.
        package: Name of the package, such as ``l5kit.dataset``; its modules and subpackages are inside.
    """
    value_class: type = type(value)  # mypy does not consider the type of an object hashable
    return _has_any(value, methods) or not _are_inside(value_class, methods, package)


def _has_any(value: object, methods: tuple[str, ...]) -> bool:
    """Return whether any of the methods is an attribute of the object itself."""
    return not getattr(value, "__dict__", {}).keys().isdisjoint(methods)


@functools.cache
def _are_inside(value_class: type, methods: tuple[str, ...], package: str) -> bool:
    """Return whether the classes that define the methods belong to a package."""
    owners = [next(base for base in value_class.__mro__ if method in vars(base)) for method in methods]
    return all(f"{owner.__module__}.".startswith(f"{package}.") for owner in owners)
