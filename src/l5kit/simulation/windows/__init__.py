"""Windows of simulated scenes: plans of selected frames, rolled out and scored against their surroundings."""
