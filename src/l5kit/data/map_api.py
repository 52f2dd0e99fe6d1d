"""Semantic map under its L5Kit 1.x path; implemented in :mod:`l5kit.data.map.api`."""

from l5kit.data.map.api import CACHE_SIZE, ENCODING, InterpolationMethod, MapAPI
from l5kit.data.map.element_kinds import TLFacesColors

__all__ = ["CACHE_SIZE", "ENCODING", "InterpolationMethod", "MapAPI", "TLFacesColors"]
