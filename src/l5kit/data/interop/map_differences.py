"""Comparison of two semantic maps, such as a map before and after conversion to another format."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.map.api import MapAPI
from l5kit.data.map.map_arrays import MapLines
from l5kit.geometry.polygon import distance_to_line

_NUM_POINTS: Final = 50
_SAME_MPS: Final = 1e-3


@dataclass(frozen=True)
class MapDifferences:
    """Differences between two maps, over the lanes and crosswalks with ids in both.

    Attributes:
        num_lanes: Lanes in both maps.
        missing_lanes: Lanes with geometry that are in only one of them.
        missing_crosswalks: Crosswalks that are in only one of them.
        boundary_m: Largest distance in the xy plane from a boundary to that of the other map, metres.
        centre_line_m: Largest distance from a centre line to that of the other map.
        height_m: Largest difference of heights along boundaries, at equal fractions of their lengths.
        crosswalk_m: Largest distance between the outlines of a crosswalk.
        successors: Lanes with different lanes ahead.
        lane_changes: Lanes with different lane changes.
        speed_limits: Lanes whose speed limits differ by more than 1 mm/s.
        controls: Lanes controlled by different lights, faces and signs.
        lights: Colours of faces that differ, or that are in only one of the maps.
    """

    num_lanes: int
    missing_lanes: int
    missing_crosswalks: int
    boundary_m: float
    centre_line_m: float
    height_m: float
    crosswalk_m: float
    successors: int
    lane_changes: int
    speed_limits: int
    controls: int
    lights: int


def compare_maps(first: MapAPI, second: MapAPI) -> MapDifferences:
    """Return the differences between two maps with the same ids.

    Args:
        first: A map.
        second: Another map, in the same world.
    """
    lanes, rows = _common_rows(first.arrays.lane_ids.to_list(), second.arrays.lane_ids.to_list())
    walks, walk_rows = _common_rows(first.arrays.crosswalk_ids.to_list(), second.arrays.crosswalk_ids.to_list())
    # both sides of lane i are rows 2 i and 2 i + 1 of the lane lines
    sides = [(2 * each[:, None] + np.arange(2)).reshape(-1) for each in rows]
    boundaries = [
        arrays.lane_lines.taken(side) for arrays, side in zip((first.arrays, second.arrays), sides, strict=True)
    ]
    outlines = [
        arrays.crosswalk_lines.taken(row) for arrays, row in zip((first.arrays, second.arrays), walk_rows, strict=True)
    ]
    lines = [each.arrays.resampled(_NUM_POINTS) for each in (first, second)]
    # compare centre lines and heights at equal fractions of the lengths, as vertices may differ
    centres = [of_map.xyz_midlane[row] for of_map, row in zip(lines, rows, strict=True)]
    heights = [
        np.stack([of_map.xyz_left[row], of_map.xyz_right[row]])[..., 2] for of_map, row in zip(lines, rows, strict=True)
    ]

    def differing(read: Callable[[MapAPI, str], object]) -> int:
        return sum(read(first, lane) != read(second, lane) for lane in lanes)

    def limit_of(semantic_map: MapAPI, lane: str) -> int | None:
        limit_mps = semantic_map.get_lane_speed_limit(lane)
        return None if limit_mps is None else round(limit_mps / _SAME_MPS)

    return MapDifferences(
        num_lanes=len(lanes),
        missing_lanes=first.arrays.num_lanes + second.arrays.num_lanes - 2 * len(lanes),
        missing_crosswalks=first.arrays.num_crosswalks + second.arrays.num_crosswalks - 2 * len(walks),
        boundary_m=_distance_between(*boundaries),
        centre_line_m=_distance_between(*map(_as_lines, centres)),
        height_m=float(np.abs(heights[0] - heights[1]).max(initial=0.0)),
        crosswalk_m=_distance_between(*map(_closed, outlines)),
        successors=differing(lambda semantic_map, lane: set(semantic_map.get_lanes_ahead(lane))),
        lane_changes=differing(
            lambda semantic_map, lane: (semantic_map.get_lane_left(lane), semantic_map.get_lane_right(lane))
        ),
        speed_limits=differing(limit_of),
        controls=differing(lambda semantic_map, lane: semantic_map.get_lane_traffic_control_ids(lane)),
        lights=len(_colors_of(first).items() ^ _colors_of(second).items()),
    )


def _common_rows(first: list[str], second: list[str]) -> tuple[list[str], tuple[Int64Array, Int64Array]]:
    """Return the ids that are in both lists, and their rows in each."""
    row_of = {name: row for row, name in enumerate(second)}
    pairs = [(row, row_of[name]) for row, name in enumerate(first) if name in row_of]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return [first[row] for row in rows[:, 0].tolist()], (rows[:, 0].copy(), rows[:, 1].copy())


def _colors_of(semantic_map: MapAPI) -> dict[str, str]:
    """Return the colour of each face that controls lanes."""
    ids = semantic_map.arrays.controls.ids.to_list()
    colors = {name: semantic_map.get_face_color_or_none(name) for name in ids}
    return {name: color for name, color in colors.items() if color is not None}


def _as_lines(points_m: Float64Array) -> MapLines:
    """Return lines of equal length, (N, P, 3), as concatenated lines."""
    starts = np.arange(len(points_m) + 1, dtype=np.int64) * points_m.shape[1]
    return MapLines(points_m.reshape(-1, 3), starts, np.zeros((len(points_m), 2, 2)))


def _closed(outlines: MapLines) -> MapLines:
    """Return outlines with the first point repeated at the end."""
    lines = [np.concatenate([line, line[:1]]) for line in map(outlines.line, range(len(outlines)))]
    starts = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    return MapLines(np.concatenate([np.zeros((0, 3)), *lines]), starts, outlines.bounds_m)


def _distance_between(first: MapLines, second: MapLines) -> float:
    """Return the largest distance between lines with the same index, in both directions, in the xy plane."""
    if len(first) == 0:
        return 0.0
    there = _furthest(first.points[:, :2].copy(), first.offsets, second.points[:, :2].copy(), second.offsets)
    back = _furthest(second.points[:, :2].copy(), second.offsets, first.points[:, :2].copy(), first.offsets)
    return float(max(there, back))


@kernel_jit
def _furthest(points: Float64Array, starts: Int64Array, others: Float64Array, other_starts: Int64Array) -> float:
    """Return the largest distance from vertices and edge midpoints of lines to the other lines with the same index."""
    furthest = 0.0
    for line in range(len(starts) - 1):
        other = others[other_starts[line] : other_starts[line + 1]]
        for row in range(starts[line], starts[line + 1]):
            furthest = max(furthest, distance_to_line(other, points[row]))
            # also check edge midpoints: near a corner of the other line, both ends of an edge may be close
            if row > starts[line]:
                furthest = max(furthest, distance_to_line(other, 0.5 * (points[row - 1] + points[row])))
    return furthest
