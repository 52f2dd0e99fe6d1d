"""Engines that run jobs over scenes: threads and processes of this machine, and clusters of Ray or Dask."""

from l5kit.engines.opening import ENGINES, open_workers

__all__ = ["ENGINES", "open_workers"]
