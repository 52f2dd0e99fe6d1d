"""Overridden methods: whether an object has its own ones in place of those of a base class or package.

Code that works on whole batches asks this before it takes the place of methods for single items, which users of L5Kit
1.x override.
"""

import functools


def overrides(value: object, *methods: str, base: type) -> bool:
    """Return whether an object, or its class, has any of some methods otherwise than a base class does.

    Args:
        value: The object; it need not be of the base class.
        *methods: Names of methods of the base class.
        base: The class whose methods are compared with.
    """
    value_class = type(value)
    if _has_any(value, methods):
        return True
    return any(getattr(value_class, method, None) is not getattr(base, method) for method in methods)


def overrides_package(value: object, *methods: str, package: str) -> bool:
    """Return whether an object has any of some methods from a class outside a package, or as an attribute of its own.

    Args:
        value: The object.
        *methods: Names of methods that its class has.
        package: Such as ``l5kit.dataset``; classes in its modules, also in packages within it, are inside.
    """
    value_class: type = type(value)  # mypy does not take the type of an object for hashable
    return _has_any(value, methods) or not _are_inside(value_class, methods, package)


def _has_any(value: object, methods: tuple[str, ...]) -> bool:
    """Return whether any of the methods is an attribute of the object itself."""
    return not getattr(value, "__dict__", {}).keys().isdisjoint(methods)


@functools.cache
def _are_inside(value_class: type, methods: tuple[str, ...], package: str) -> bool:
    """Return whether the classes that methods come from stand in a package."""
    owners = [next(base for base in value_class.__mro__ if method in vars(base)) for method in methods]
    return all(f"{owner.__module__}.".startswith(f"{package}.") for owner in owners)
