"""Environments: single ones, and vectors of many that are stepped at once."""
