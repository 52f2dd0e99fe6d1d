"""Index of a log: which rows belong to which frame and scene, which intervals can be trusted, and windows cut by it."""
