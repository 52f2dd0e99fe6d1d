"""Folder of a simulation: names of its files, and readers for them."""
