"""Slots of environments: the records of simultaneous episodes."""
