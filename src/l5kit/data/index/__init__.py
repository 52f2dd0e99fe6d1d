"""Index of a log: which rows belong to which frame and scene, and which of these intervals can be trusted."""
