"""Rewards of many environments at once: what a step is worth, from arrays of all of them."""
