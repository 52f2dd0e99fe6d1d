"""Motion prediction from vectors."""
