"""Warnings that name the line of user code that called l5kit."""

import sys
import warnings
from types import FrameType


def warn_caller(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn with the location of the innermost caller outside of l5kit."""
    frame: FrameType | None = sys._getframe(1)
    level = 2  # the function that calls this one
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "l5kit":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
