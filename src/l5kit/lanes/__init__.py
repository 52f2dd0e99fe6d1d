"""Lanes of a map: areas and successors, paths and routes along them, positions on paths, and traffic lights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
