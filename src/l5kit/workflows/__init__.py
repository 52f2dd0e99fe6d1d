"""Workflows: the samples, the network and the scored trajectories that a configuration names."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
