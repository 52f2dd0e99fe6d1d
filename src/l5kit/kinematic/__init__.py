"""l5kit.kinematic."""
