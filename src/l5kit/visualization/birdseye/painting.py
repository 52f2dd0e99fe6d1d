"""Painting of scenes from above: the map with its lights, boxes of road users, and their past and future paths."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.data.array_shapes import require_shapes
from l5kit.geometry.box_overlap import overlapping
from l5kit.visualization.birdseye.canvas import Canvas, Stroke, View
from l5kit.visualization.birdseye.tones import EGO_RGB, LIGHT_RGB, Rgb, Tones, shade
from l5kit.visualization.map_shapes import MapShapes, Outlines

_BORDER_M: Final = 0.14
_STRIPE_M: Final = 0.5
_STRIPES_FROM_PX_PER_M: Final = 2.5
_BORDERS_FROM_PX_PER_M: Final = 0.8
_MOST_STRIPES: Final = 200
_CORNER_M: Final = 0.4
_CORNER_STEPS: Final = 3
_ROUND_FROM_PX_PER_M: Final = 5.0
_LEAST_BOX_PX: Final = 5.0
_MARK_FROM_PX: Final = 18.0
"""On smaller boxes, the mark with its lines of at least a pixel would hide the box."""

_RIM_M: Final = 0.35
_OVERLAPPING_OPACITY: Final = 0.65


@dataclass(frozen=True, eq=False)
class Boxes:
    """N boxes of road users; later ones are drawn over earlier ones.

    Attributes:
        boxes: World x and y of the centre, yaw, length and width, float64, shape (N, 5).
        colors: uint8, shape (N, 3).
        has_ego: Whether the last box is the AV, which gets a bright rim.
    """

    boxes: Float64Array
    colors: UInt8Array
    has_ego: bool = False

    def __post_init__(self) -> None:
        require_shapes(self, boxes=(len(self.boxes), 5), colors=(len(self.boxes), 3))

    @classmethod
    def with_ego(cls, ego: NumericArray, agents: NumericArray, colors: NumericArray) -> "Boxes":
        """Return the boxes of agents (N, 5) and, above them, of the AV (5,), without non-finite ones."""
        boxes = np.vstack([np.asarray(agents, np.float64).reshape(-1, 5), np.asarray(ego, np.float64)[None]])
        tones = np.vstack([np.asarray(colors, np.uint8).reshape(-1, 3), np.array([EGO_RGB], np.uint8)])
        is_known = np.logical_and.reduce(np.isfinite(boxes), axis=1)
        return cls(boxes[is_known], tones[is_known], has_ego=bool(is_known[-1]))

    def near(self, view: View) -> "Boxes":
        """Return the boxes that may be visible in a view."""
        offsets_m = np.linalg.norm(self.boxes[:, :2] - view.center_m, axis=1)
        is_near = offsets_m - self.boxes[:, 3:].max(axis=1, initial=0.0) <= view.reach_m
        return Boxes(self.boxes[is_near], self.colors[is_near], has_ego=self.has_ego and bool(is_near[-1]))


class MapPainter:
    """Draws lanes, tinted by their traffic lights, and crosswalks.

    Args:
        shapes: The whole map, of which the visible part is drawn.
    """

    def __init__(self, shapes: MapShapes) -> None:
        self._shapes = shapes
        self._stripes_of = functools.lru_cache(maxsize=None)(self._find_stripes)

    def paint(
        self, canvas: Canvas, tones: Tones, *, lit: Mapping[int, int] | None = None, opacity: float = 1.0
    ) -> None:
        """Draw the visible part of the map.

        Args:
            canvas: The picture.
            tones: Colours.
            lit: Index of ``LIGHT_COLORS`` by row of the lane.
            opacity: Opacity of surfaces, below 1 over an aerial picture.
        """
        view = canvas.view
        near, lane_rows = self._shapes.near(view.center_m[None], view.reach_m)
        lanes, crosswalks = _parts(near.lanes), _parts(near.crosswalks)
        canvas.fill(lanes, tones.lane, opacity)
        canvas.settle()

        # tint lanes by the colours of their lights
        ranks = [(lit or {}).get(row) for row in lane_rows.tolist()]
        for rank, color in enumerate(LIGHT_RGB):
            canvas.fill(
                [lane for lane, lit_rank in zip(lanes, ranks, strict=True) if lit_rank == rank], color, tones.light_tint
            )
            canvas.settle()
        canvas.fill(crosswalks, tones.crosswalk_ground, opacity)
        canvas.settle()

        # at small scales, edges would fill the lanes, and stripes would cause moire patterns
        if view.px_per_m >= _BORDERS_FROM_PX_PER_M:
            lefts = near.lane_left_counts.tolist()
            sides = [side for lane, left in zip(lanes, lefts, strict=True) for side in (lane[:left], lane[left:])]
            canvas.lines(sides, Stroke(tones.border, width_m=_BORDER_M))
        if view.px_per_m >= _STRIPES_FROM_PX_PER_M:
            seen = self._shapes.crosswalks.near(view.center_m[None], view.reach_m).tolist()
            canvas.fill([stripe for number in seen for stripe in self._stripes_of(number)], tones.crosswalk)

    def _find_stripes(self, crosswalk: int) -> list[Float64Array]:
        """Return the stripes of a crosswalk, which are parallel to the road: across the longest side of its outline."""
        start, end = self._shapes.crosswalks.starts[crosswalk : crosswalk + 2].tolist()
        outline = self._shapes.crosswalks.points_m[start:end]
        steps = np.roll(outline, -1, axis=0) - outline
        lengths_m = np.linalg.norm(steps, axis=1)
        if lengths_m.max() == 0:
            return []
        # As many stripes as fit, with gaps of their own width, centred. Each stripe is the part of the outline between
        # two cuts across the longest side.
        direction = steps[lengths_m.argmax()] / lengths_m.max()
        along_m = outline @ direction
        count = min(int((along_m.max() - along_m.min()) // (2 * _STRIPE_M)), _MOST_STRIPES)
        first_m = along_m.min() + (np.ptp(along_m) - 2 * count * _STRIPE_M + _STRIPE_M) / 2
        starts_m = (first_m + 2 * _STRIPE_M * np.arange(count)).tolist()
        cut = (_clipped(_clipped(outline, direction, at), -direction, -(at + _STRIPE_M)) for at in starts_m)
        return [stripe for stripe in cut if len(stripe) >= 3]


def paint_boxes(canvas: Canvas, boxes: Boxes, tones: Tones, *, shows_overlaps: bool = True) -> None:
    """Draw boxes with round corners and a mark of their heading.

    Args:
        canvas: The picture.
        boxes: The boxes.
        tones: Colours.
        shows_overlaps: Whether overlapping boxes are translucent, so that both are visible; this needs a kernel.
    """
    # The rim of the AV is below all boxes, edges and marks are above them. Boxes keep a visible size.
    scale = canvas.view.px_per_m
    boxes = boxes.near(canvas.view)
    drawn = boxes.boxes.copy()
    drawn[:, 3:] = np.maximum(drawn[:, 3:], _LEAST_BOX_PX / scale)
    outlines = round_outlines(drawn, px_per_m=scale)
    if boxes.has_ego:
        rim = round_outlines(drawn[-1:] + np.array([0, 0, 0, _RIM_M, _RIM_M]), px_per_m=scale)
        canvas.lines(rim, Stroke(tones.mark, width_m=_RIM_M, least_width_px=2), closed=True)
    colors: list[Rgb] = [(red, green, blue) for red, green, blue in boxes.colors.tolist()]
    meets = overlapping(boxes.boxes) if shows_overlaps else np.zeros(len(colors), np.bool_)
    for outline, color, overlaps in zip(outlines, colors, meets.tolist(), strict=True):
        canvas.fill([outline], color, _OVERLAPPING_OPACITY if overlaps else 1.0)
        canvas.settle()
    for outline, color in zip(outlines, colors, strict=True):
        canvas.lines([outline], Stroke(shade(color, tones.box_edge), least_width_px=1.25), closed=True)

    # a mark is an arrow to the front, of head and shaft; marks of the same width are drawn together
    marked = drawn[drawn[:, 3] * scale >= _MARK_FROM_PX]
    tips_m = 0.42 * marked[:, 3]
    sides_m = 0.3 * marked[:, 3:].min(axis=1)
    tails_m = tips_m - 1.2 * sides_m
    zeros_m = np.zeros(len(marked))
    heads = np.stack([np.stack([tails_m, tips_m, tails_m], 1), np.stack([sides_m, zeros_m, -sides_m], 1)], -1)
    shafts = np.stack([np.stack([zeros_m, tips_m], 1), np.zeros((len(marked), 2))], -1)
    widths_m = np.minimum(0.17, 0.1 * marked[:, 4])
    for width_m in np.unique(widths_m).tolist():
        of_width = widths_m == width_m
        marks = [*_turned(marked[of_width], heads[of_width]), *_turned(marked[of_width], shafts[of_width])]
        canvas.lines(marks, Stroke(tones.mark, width_m=width_m))


def paint_ghosts(canvas: Canvas, boxes: Float64Array, color: Rgb) -> None:
    """Draw outlines of boxes (N, 5), with a line from the centre to the front."""
    outlines = round_outlines(boxes, px_per_m=canvas.view.px_per_m)
    stroke = Stroke(color, width_m=0.12, least_width_px=1.75)
    canvas.lines(outlines, stroke, closed=True)
    fronts = _turned(boxes, boxes[:, None, 3:4] * np.array([[0.0, 0.0], [0.5, 0.0]]))
    canvas.lines(list(fronts), stroke)


def paint_plan(canvas: Canvas, points_m: Float64Array, tones: Tones) -> None:
    """Draw a plan (T, 2) as a line with a contrasting edge, visible on any background."""
    canvas.lines([points_m], Stroke(tones.ground, width_m=0.7, least_width_px=5))
    canvas.lines([points_m], Stroke(tones.plan, width_m=0.4, least_width_px=3))


def paint_paths(canvas: Canvas, paths_m: Sequence[Float64Array], stroke: Stroke) -> None:
    """Draw past or future paths, except of objects that hardly move."""
    canvas.lines([path for path in paths_m if len(path) > 1 and np.ptp(path, axis=0).max() >= 2.0], stroke)


def round_outlines(boxes: Float64Array, *, px_per_m: float) -> list[Float64Array]:
    """Return the outlines (P, 2) of boxes (N, 5), with round corners at scales that show them."""
    half_m = boxes[:, None, 3:] / 2
    if px_per_m < _ROUND_FROM_PX_PER_M:
        corners = half_m * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    else:
        # a quarter circle for each corner, around a point one radius inside both sides
        radii_m = np.minimum(_CORNER_M, 0.35 * boxes[:, 3:].min(axis=1))[:, None, None]
        signs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]).repeat(_CORNER_STEPS + 1, axis=0)
        angles_rad = (np.arange(4)[:, None] + np.linspace(0, 1, _CORNER_STEPS + 1)).reshape(-1) * np.pi / 2
        arcs = np.stack([np.cos(angles_rad), np.sin(angles_rad)], axis=1)
        corners = signs * (half_m - radii_m) + arcs * radii_m
    return list(_turned(boxes, corners))


def _turned(boxes: Float64Array, offsets_m: Float64Array) -> Float64Array:
    """Return points (N, P, 2) in the frames of boxes, in world coordinates."""
    cos, sin = np.cos(boxes[:, 2])[:, None], np.sin(boxes[:, 2])[:, None]
    along, across = offsets_m[..., 0], offsets_m[..., 1]
    turned = np.stack([along * cos - across * sin, along * sin + across * cos], axis=-1)
    placed: Float64Array = turned + boxes[:, None, :2]
    return placed


def _parts(outlines: Outlines) -> list[Float64Array]:
    """Return the points of each outline."""
    return np.split(outlines.points_m, outlines.starts[1:-1].tolist()) if len(outlines) else []


def _clipped(outline: Float64Array, direction: Float64Array, least_m: float) -> Float64Array:
    """Return the part of an outline at least ``least_m`` along a direction (Sutherland and Hodgman, 1974)."""
    beyond_m = outline @ direction - least_m
    kept: list[NumericArray] = []
    for here, point in enumerate(outline):
        there = (here + 1) % len(outline)
        if beyond_m[here] >= 0:
            kept.append(point)
        if (beyond_m[here] >= 0) != (beyond_m[there] >= 0):
            share = beyond_m[here] / (beyond_m[here] - beyond_m[there])
            kept.append(point + share * (outline[there] - point))
    return np.array(kept).reshape(-1, 2)
