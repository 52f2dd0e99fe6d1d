"""From where on a prediction counts as wrong."""

__all__ = ["MISS_THRESHOLD_M"]

MISS_THRESHOLD_M = 2.0
"""Distance of the last position beyond which a prediction is a miss."""
