"""Driven scenes for those that show them: the folder of a simulation, ghosts of the log, failures, and plans."""
