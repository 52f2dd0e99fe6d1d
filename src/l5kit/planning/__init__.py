"""Models that plan for the AV, from rasters and from vectors, and their checkpoints."""

from l5kit.planning.weights_file import shipped_policies, shipped_weights

__all__ = ["shipped_policies", "shipped_weights"]
