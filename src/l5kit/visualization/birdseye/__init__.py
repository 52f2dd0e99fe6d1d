"""Scenes from above, in pictures that look like the page of the viewer."""
