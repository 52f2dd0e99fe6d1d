"""Index of a log: scene and frame of each row, intervals that can be trusted, and windows around frames."""
