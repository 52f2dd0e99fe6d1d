"""Drivers: who decides what the AV and the agents of a simulation do next."""
