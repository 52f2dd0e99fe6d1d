"""Semantic maps: map files, geometry, lane network, routes, traffic lights and spatial queries."""
