"""Engines: what carries out jobs over scenes on machines that people already have, Ray and Dask beside processes."""

from l5kit.engines.opening import ENGINES, open_workers

__all__ = ["ENGINES", "open_workers"]
