"""Closed-loop simulation: scenes of a log continued by models, rule-based drivers or log replay."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
