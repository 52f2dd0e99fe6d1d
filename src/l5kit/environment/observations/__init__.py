"""Observations of environments and their spaces: samples of a dataset, or compact states."""
