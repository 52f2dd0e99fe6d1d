"""Hands on :class:`SatBoxRasterizer`, as scripts for L5Kit 1.x import it."""

from l5kit.rasterization.combined_rasterizer import SatBoxRasterizer

__all__ = ["SatBoxRasterizer"]
