"""Display data of simulated scenes: ghosts of the log, failures, and plans, from the folder of a simulation."""
