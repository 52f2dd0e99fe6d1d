"""Environments: single ones, and many that step at once."""
