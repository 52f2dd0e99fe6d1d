"""Test sets as in the competition: shortened scenes, and the futures of their last agents."""

from l5kit.evaluation.chop_dataset.chopping import MIN_FUTURE_STEPS, create_chopped_dataset

__all__ = ["MIN_FUTURE_STEPS", "create_chopped_dataset"]
