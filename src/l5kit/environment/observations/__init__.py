"""Observations of environments: samples of a dataset, or compact states, and their spaces."""
