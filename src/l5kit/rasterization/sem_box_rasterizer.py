"""Re-export of :class:`SemBoxRasterizer`, for imports of L5Kit 1.x."""

from l5kit.rasterization.combined_rasterizer import SemBoxRasterizer

__all__ = ["SemBoxRasterizer"]
