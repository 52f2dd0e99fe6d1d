"""Models that plan for the AV, from rasters and from vectors, and their checkpoints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
