"""Viewer: a browser page that shows the scenes of a dataset."""
