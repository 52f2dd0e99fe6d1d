"""Lanes of a map: their order and areas, paths along them, places on paths, and their lights."""
