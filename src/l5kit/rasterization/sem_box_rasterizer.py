"""Hands on :class:`SemBoxRasterizer`, as scripts for L5Kit 1.x import it."""

from l5kit.rasterization.combined_rasterizer import SemBoxRasterizer

__all__ = ["SemBoxRasterizer"]
