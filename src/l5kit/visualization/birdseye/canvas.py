"""Canvas: a picture of a part of the world, into which opaque and translucent areas and lines are drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from l5kit._types import Float64Array, Int32Array, NumericArray, UInt8Array
from l5kit.geometry.transform import transform_points
from l5kit.visualization.birdseye.tones import Rgb

_OPAQUE = 255
_SHIFT = 4
"""Fractional bits of the positions for OpenCV."""

_FAR_OUTSIDE_PX = 20_000.0
"""Coordinate beyond any picture, yet small enough for OpenCV."""


@dataclass(frozen=True, eq=False)
class View:
    """Mapping of a part of the world to a picture.

    Attributes:
        raster_from_world: Matrix from world metres to column and row, without shear, float64 (3, 3).
        size_px: Width and height.
    """

    raster_from_world: Float64Array
    size_px: tuple[int, int]

    @classmethod
    def north_up(cls, center_m: NumericArray, px_per_m: float, size_px: tuple[int, int]) -> "View":
        """Return a view with x to the right and y up, centred on a world position (2,)."""
        (x, y), (width, height) = np.asarray(center_m, np.float64)[:2].tolist(), size_px
        columns = [px_per_m, 0.0, width / 2 - px_per_m * x]
        rows = [0.0, -px_per_m, height / 2 + px_per_m * y]
        return cls(np.array([columns, rows, [0.0, 0.0, 1.0]]), size_px)

    @property
    def px_per_m(self) -> float:
        """Pixels per metre."""
        return math.sqrt(abs(float(np.linalg.det(self.raster_from_world[:2, :2]))))

    @property
    def center_m(self) -> Float64Array:
        """World position of the centre, (2,)."""
        middle_px = np.array([self.size_px], np.float64) / 2
        return np.asarray(transform_points(middle_px, np.linalg.inv(self.raster_from_world))[0], np.float64)

    @property
    def reach_m(self) -> float:
        """Distance from the centre to the corners."""
        return math.hypot(*self.size_px) / self.px_per_m / 2

    def points_px(self, points_m: NumericArray) -> Int32Array:
        """Return world positions (..., 2) in the fixed-point format of OpenCV; positions far outside are clipped.

        The centre of the first pixel is (0.5, 0.5) for the matrix and (0, 0) for OpenCV.
        """
        points = np.asarray(points_m, np.float64)[..., :2]
        if points.size == 0:
            return np.zeros(points.shape, np.int32)
        placed = transform_points(points.reshape(-1, 2), self.raster_from_world) - 0.5
        placed = np.nan_to_num(placed, nan=_FAR_OUTSIDE_PX).clip(-_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX)
        fixed: Int32Array = np.round(placed * 2**_SHIFT).astype(np.int32).reshape(points.shape)
        return fixed


@dataclass(frozen=True)
class Stroke:
    """Style of a line.

    Attributes:
        color: Colour.
        width_m: Width in metres.
        least_width_px: Smallest width in pixels, at any scale.
        opacity: Opacity at the start, 0 to 1.
        end_opacity: Opacity at the end; None for the same.
    """

    color: Rgb
    width_m: float = 0.0
    least_width_px: float = 1.0
    opacity: float = 1.0
    end_opacity: float | None = None


class Canvas:
    """A picture of a view to draw into.

    Opaque shapes are drawn at once. Translucent ones are collected in a separate layer with their opacities, which
    :meth:`settle` blends with the picture, so that overlapping parts of a line do not get darker.

    Args:
        view: Displayed part of the world.
        ground: Background colour, or a picture RGB ``[H, W, 3]``, which is copied.

    Attributes:
        view: Displayed part of the world.
        picture: RGB ``[H, W, 3]``.
    """

    def __init__(self, view: View, ground: Rgb | UInt8Array) -> None:
        width, height = view.size_px
        self.view = view
        self.picture: UInt8Array = np.empty((height, width, 3), np.uint8)
        self.picture[:] = ground
        self._layer: UInt8Array | None = None
        self._opacities: UInt8Array | None = None
        self._scale = view.px_per_m

    def fill(self, outlines_m: Sequence[NumericArray], color: Rgb, opacity: float = 1.0) -> None:
        """Fill areas with outlines (P, 2) in world metres."""
        for outline_px in self._in_sight(outlines_m):
            if opacity >= 1:
                cv2.fillPoly(self.picture, [outline_px], color, cv2.LINE_AA, _SHIFT)
                continue
            layer, opacities = self._layers()
            cv2.fillPoly(layer, [outline_px], color, cv2.LINE_8, _SHIFT)
            cv2.polylines(layer, [outline_px], True, color, 2, cv2.LINE_8, _SHIFT)
            cv2.fillPoly(opacities, [outline_px], round(_OPAQUE * opacity), cv2.LINE_AA, _SHIFT)

    def lines(self, lines_m: Sequence[NumericArray], stroke: Stroke, *, closed: bool = False) -> None:
        """Draw lines through world positions (P, 2)."""
        width_px = max(1, round(max(stroke.width_m * self._scale, stroke.least_width_px)))
        if stroke.opacity >= 1 and stroke.end_opacity is None:
            lines_px = self._in_sight(lines_m)
            cv2.polylines(self.picture, lines_px, closed, stroke.color, width_px, cv2.LINE_AA, _SHIFT)
            return
        end_opacity = stroke.opacity if stroke.end_opacity is None else stroke.end_opacity
        # colours reach a pixel farther than opacities, so that soft edges blend the colour with the picture below
        for line_px in self._in_sight(lines_m):
            layer, opacities = self._layers()
            cv2.polylines(layer, [line_px], closed, stroke.color, width_px + 2, cv2.LINE_8, _SHIFT)
            if end_opacity == stroke.opacity:
                value = round(_OPAQUE * stroke.opacity)
                cv2.polylines(opacities, [line_px], closed, value, width_px, cv2.LINE_AA, _SHIFT)
                continue
            # a varying opacity is drawn segment by segment
            steps = np.linspace(stroke.opacity, end_opacity, max(len(line_px) - 1, 1))
            for part, opacity in enumerate(steps.tolist()):
                ends = line_px[part : part + 2]
                cv2.polylines(opacities, [ends], False, round(_OPAQUE * opacity), width_px, cv2.LINE_AA, _SHIFT)

    def settle(self) -> None:
        """Blend translucent shapes with the picture; later shapes are drawn above it."""
        if self._layer is None or self._opacities is None:
            return
        rows, columns = (np.flatnonzero(self._opacities.any(axis=axis)) for axis in (1, 0))
        if len(rows):
            part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
            opacity = self._opacities[part].astype(np.uint16)[..., None]
            below, above = self.picture[part].astype(np.uint16), self._layer[part].astype(np.uint16)
            # integer division, rounded by adding half of the divisor
            mixed = (below * (_OPAQUE - opacity) + above * opacity + _OPAQUE // 2) // _OPAQUE
            self.picture[part] = mixed.astype(np.uint8)
        self._layer = self._opacities = None

    def _layers(self) -> tuple[UInt8Array, UInt8Array]:
        if self._layer is None or self._opacities is None:
            self._layer = np.zeros_like(self.picture)
            self._opacities = np.zeros(self.picture.shape[:2], np.uint8)
        return self._layer, self._opacities

    def _in_sight(self, shapes_m: Sequence[NumericArray]) -> list[Int32Array]:
        """Return shapes in the fixed-point pixels of OpenCV, without those outside the picture."""
        shapes = [np.asarray(shape, np.float64) for shape in shapes_m if len(shape)]
        if not shapes:
            return []
        points_px = self.view.points_px(np.concatenate(shapes))
        starts = np.cumsum([0, *(len(shape) for shape in shapes[:-1])])
        lows = np.minimum.reduceat(points_px, starts, axis=0)
        highs = np.maximum.reduceat(points_px, starts, axis=0)
        margin = 16 << _SHIFT  # wide lines reach into the picture from outside
        ends = (np.array(self.view.size_px) << _SHIFT) + margin
        is_seen = np.logical_and.reduce((highs >= -margin) & (lows <= ends), axis=1)
        parts = np.split(points_px, starts[1:])
        return [part for part, shows in zip(parts, is_seen.tolist(), strict=True) if shows]
