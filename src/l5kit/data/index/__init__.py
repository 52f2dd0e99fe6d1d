"""Index of a log: rows of each frame and scene, checks of intervals, and windows."""
