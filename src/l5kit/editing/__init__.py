"""Edited scenes: what planners are tested with, put into recorded ones, such as a parked bus or another goal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
