"""Interactive pages of scenes, and the contents of their frames."""
