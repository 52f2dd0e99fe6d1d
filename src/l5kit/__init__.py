"""Training samples, models, simulations and scores from logs of self-driving cars."""

from typing import TYPE_CHECKING

from l5kit import _cache_folders as _cache_folders  # before numba is asked to keep a kernel

if TYPE_CHECKING:
    from l5kit.workflows.trained_model import load_model as load_model

__version__ = "2.0.0"


def __getattr__(name: str) -> object:
    """Return ``load_model``, which imports torch, on first access."""
    if name == "load_model":
        from l5kit.workflows.trained_model import load_model

        return load_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
