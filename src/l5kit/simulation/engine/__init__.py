"""Simulation engine: a batch of scenes that drivers advance step by step."""
