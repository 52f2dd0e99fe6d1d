"""Rewards of many environments at once, from arrays of all of them."""
