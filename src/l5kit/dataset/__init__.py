"""l5kit.dataset."""
