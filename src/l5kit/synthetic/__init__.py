"""Synthetic cities: datasets, maps and aerial pictures of invented towns, for demos, tests and training."""

from l5kit.synthetic.city import CityFolder, make_city
from l5kit.synthetic.params import CityParams
from l5kit.synthetic.towns import make_towns

__all__ = ["CityFolder", "CityParams", "make_city", "make_towns"]
