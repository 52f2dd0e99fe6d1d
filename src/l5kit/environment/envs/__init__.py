"""Environments: single ones, and many that step together."""
