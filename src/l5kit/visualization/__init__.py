"""Scenes and samples shown in notebooks, trajectories drawn into rasters, and pictures written as files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
