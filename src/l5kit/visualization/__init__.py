"""Pictures of scenes and samples: in notebooks, as files, and trajectories drawn into rasters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
