"""Semantic maps: reading and writing the files, geometry, questions about the roads, traffic lights."""
