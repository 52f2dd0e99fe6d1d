"""Drivers: they decide the next motion of the AV and of the agents of a simulation."""
