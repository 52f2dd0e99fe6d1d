"""Lanes of a map: their order and areas, paths along them, places on paths, and their lights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
