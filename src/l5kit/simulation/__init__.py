"""Closed-loop simulation: scenes of a log that are driven on by models, rules or the log itself."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
