"""Actors of an episode: the AV and vehicles of the log that somebody drives by actions."""
