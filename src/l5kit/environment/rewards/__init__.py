"""Rewards of many environments at once, computed from arrays."""
