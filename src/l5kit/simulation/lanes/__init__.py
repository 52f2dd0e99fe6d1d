"""Lanes that vehicles follow: paths along them, and what is ahead on these paths."""
