"""Prediction of agents from rasters."""
