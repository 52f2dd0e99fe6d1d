"""Models that plan for the AV, from rasters and from vectors, and their checkpoints."""
