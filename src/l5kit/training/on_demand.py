"""The names of the package that need Lightning, loaded when they are first asked for."""

from typing import Any

__all__ = ["__getattr__"]

_NAMES = ("TrainingResult", "train")


def __getattr__(name: str) -> Any:
    """Return what :mod:`l5kit.training.run` has under one of these names.

    Handed on by the package, it lets evaluations import their modules where Lightning is not installed.
    """
    if name not in _NAMES:
        raise AttributeError(f"l5kit.training has no attribute {name!r}")
    from l5kit.training import run

    return getattr(run, name)
