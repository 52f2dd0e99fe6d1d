"""l5kit.cli."""
