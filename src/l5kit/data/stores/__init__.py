"""Stores: where the arrays of a dataset lie, and how their chunks are read, checked and kept decoded."""
