"""Networks of policies: the small network with group normalisation."""

from l5kit.planning.rasterized.backbones import SimpleCNN_GN

__all__ = ["SimpleCNN_GN"]
