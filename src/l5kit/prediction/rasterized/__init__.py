"""Motion prediction from rasters."""
