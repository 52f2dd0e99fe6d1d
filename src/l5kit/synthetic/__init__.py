"""l5kit.synthetic."""
