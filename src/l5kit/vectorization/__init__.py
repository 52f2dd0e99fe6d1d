"""Vectorizers: a window of a log as polylines of other agents, lanes and crosswalks around a target."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
