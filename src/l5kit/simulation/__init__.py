"""Closed-loop simulation: scenes of a log that are driven on by models, rules or the log itself."""
