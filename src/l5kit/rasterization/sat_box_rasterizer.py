"""Re-export of :class:`SatBoxRasterizer`, for imports of L5Kit 1.x."""

from l5kit.rasterization.combined_rasterizer import SatBoxRasterizer

__all__ = ["SatBoxRasterizer"]
