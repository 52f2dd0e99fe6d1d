"""A page in the browser that shows the scenes of a dataset."""
