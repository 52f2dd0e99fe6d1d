"""l5kit.random."""
