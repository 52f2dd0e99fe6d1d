"""Windows of driven scenes: plans of some frames, rolled out, scored with what was around."""
