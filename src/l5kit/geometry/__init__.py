"""l5kit.geometry."""
