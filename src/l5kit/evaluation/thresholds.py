"""From where on a prediction counts as wrong."""

MISS_THRESHOLD_M = 2.0
"""Distance of the last position beyond which a prediction is a miss."""
