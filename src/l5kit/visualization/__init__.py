"""l5kit.visualization."""
