"""l5kit.rasterization."""
