"""View: which part of the world a picture shows."""

import math
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int32Array, NumericArray
from l5kit.geometry.transform import transform_points

SHIFT = 4
"""Bits behind the point of the positions that OpenCV takes."""

_FAR_OUTSIDE_PX = 20_000.0
"""Farther out than any picture reaches, and small enough for OpenCV."""


@dataclass(frozen=True, eq=False)
class View:
    """A part of the world as a picture.

    Attributes:
        raster_from_world: Column and row from world metres, without shear, float64 (3, 3).
        size_px: Width and height.
    """

    raster_from_world: Float64Array
    size_px: tuple[int, int]

    @classmethod
    def north_up(cls, center_m: NumericArray, px_per_m: float, size_px: tuple[int, int]) -> "View":
        """Return a view in which x goes to the right and y up, with a world position (2,) in its middle."""
        (x, y), (width, height) = np.asarray(center_m, np.float64)[:2].tolist(), size_px
        columns = [px_per_m, 0.0, width / 2 - px_per_m * x]
        rows = [0.0, -px_per_m, height / 2 + px_per_m * y]
        return cls(np.array([columns, rows, [0.0, 0.0, 1.0]]), size_px)

    @property
    def px_per_m(self) -> float:
        """Its scale."""
        return math.sqrt(abs(float(np.linalg.det(self.raster_from_world[:2, :2]))))

    @property
    def center_m(self) -> Float64Array:
        """World position of its middle, (2,)."""
        middle_px = np.array([self.size_px], np.float64) / 2
        return np.asarray(transform_points(middle_px, np.linalg.inv(self.raster_from_world))[0], np.float64)

    @property
    def reach_m(self) -> float:
        """Distance from its middle to its corners."""
        return math.hypot(*self.size_px) / self.px_per_m / 2

    def points_px(self, points_m: NumericArray) -> Int32Array:
        """Return world positions (..., 2) as OpenCV takes them with :data:`SHIFT`; those far outside are moved nearer.

        The middle of the first pixel is (0.5, 0.5) for the matrix and (0, 0) for OpenCV.
        """
        points = np.asarray(points_m, np.float64)[..., :2]
        if points.size == 0:
            return np.zeros(points.shape, np.int32)
        placed = transform_points(points.reshape(-1, 2), self.raster_from_world) - 0.5
        placed = np.nan_to_num(placed, nan=_FAR_OUTSIDE_PX).clip(-_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX)
        fixed: Int32Array = np.round(placed * 2**SHIFT).astype(np.int32).reshape(points.shape)
        return fixed
