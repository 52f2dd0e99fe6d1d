"""Bird's-eye pictures of scenes with the look of the viewer page."""
