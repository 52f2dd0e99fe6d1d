"""l5kit.sampling."""
