"""A map with the bounds of its elements, of which scenes get the piece around them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.readers.source_map import SourceMap


@dataclass(frozen=True)
class CityMap:
    """All elements of a city, and the boxes that hold each, so that those near a scene are found.

    Attributes:
        whole: The whole map.
        lane_bounds_m: Least and greatest x and y of each lane, (L, 2, 2).
        area_bounds_m: Those of each area, (A, 2, 2).
        sign_bounds_m: Those of each sign, (S, 2, 2).
        left_out: What was left out, one sentence each, and the bounds of what has any, else NaN, (2, 2).
    """

    whole: SourceMap
    lane_bounds_m: Float64Array
    area_bounds_m: Float64Array
    sign_bounds_m: Float64Array
    left_out: tuple[tuple[str, Float64Array], ...] = field(repr=False, default=())

    @classmethod
    def of(cls, whole: SourceMap, left_out: Iterable[tuple[str, Float64Array]] = ()) -> "CityMap":
        """Return a map with the bounds of its elements."""
        return cls(
            whole,
            bounds_of([lane.centre_m for lane in whole.lanes]),
            bounds_of([area.outline_m for area in whole.areas]),
            bounds_of([sign.position_m[None] for sign in whole.signs]),
            tuple(left_out),
        )

    def near(self, positions_m: Float64Array, reach_m: float) -> SourceMap:
        """Return the elements, each whole, that come near some positions.

        Args:
            positions_m: World x and y, (N, 2).
            reach_m: Elements belong to it whose bounds are no farther from the bounds of the positions.
        """
        window_m = np.stack([positions_m.min(axis=0) - reach_m, positions_m.max(axis=0) + reach_m])
        return SourceMap(
            self.whole.name,
            tuple(self.whole.lanes[row] for row in np.flatnonzero(_overlap(self.lane_bounds_m, window_m)).tolist()),
            tuple(self.whole.areas[row] for row in np.flatnonzero(_overlap(self.area_bounds_m, window_m)).tolist()),
            tuple(self.whole.signs[row] for row in np.flatnonzero(_overlap(self.sign_bounds_m, window_m)).tolist()),
        )

    def left_out_near(self, positions_m: Float64Array, reach_m: float) -> list[str]:
        """Return what was left out near some positions, or of which nobody knows where it is; as :meth:`near`."""
        window_m = np.stack([positions_m.min(axis=0) - reach_m, positions_m.max(axis=0) + reach_m])
        return [text for text, bounds_m in self.left_out if np.isnan(bounds_m).any() or _overlap(bounds_m, window_m)]


def bounds_of(lines_m: Sequence[Float64Array]) -> Float64Array:
    """Return the least and greatest x and y of lines, (N, 2, 2)."""
    bounds = [(line[:, :2].min(axis=0), line[:, :2].max(axis=0)) for line in lines_m]
    return np.array(bounds, np.float64).reshape(-1, 2, 2)


def _overlap(bounds_m: Float64Array, window_m: Float64Array) -> BoolArray:
    """Return which bounds (..., 2, 2) meet a window (2, 2)."""
    # two boxes meet unless one ends before the other begins, in x or in y
    meets: BoolArray = ((bounds_m[..., 0, :] <= window_m[1]) & (bounds_m[..., 1, :] >= window_m[0])).all(axis=-1)
    return meets
