"""Models that plan from rasters."""
