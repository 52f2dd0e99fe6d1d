"""Folder of a simulation: the names of its files, and what reads them."""
