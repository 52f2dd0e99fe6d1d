"""Workflows: the samples, network and scored trajectories of a configuration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
