"""Scenes as interactive pages: what is in each frame, and the page that shows the frames."""
