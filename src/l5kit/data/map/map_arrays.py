"""Lanes, crosswalks and traffic lights of a map as plain arrays, shared by rendering, planning and queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload
from weakref import WeakValueDictionary

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, UInt8Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.data.map.geometry import resample_lanes
from l5kit.data.map.lane_lights import LaneLights
from l5kit.errors import InvalidArgumentError

_NUM_SHOWN = 3
"""Number of ids in the text of a list of them."""


@dataclass(frozen=True)
class MapIds(ReadOnlyArrays):
    """Ids of N map elements as UTF-8 bytes.

    Attributes:
        text: The bytes of these ids, possibly together with others, uint8.
        runs: First byte of each id and its end, exclusive, int64 (N, 2).
    """

    text: UInt8Array
    runs: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, text=(len(self.text),), runs=(len(self.runs), 2))

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        first = [*map(repr, self[:_NUM_SHOWN]), *(["..."] if len(self) > _NUM_SHOWN else [])]
        return f"<MapIds of {len(self)}: {', '.join(first)}>"

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        """Return the id in a row, or those of a slice."""
        if isinstance(row, slice):
            return MapIds(self.text, self.runs[row]).to_list()
        start, end = self.runs[row].tolist()
        return self.text[start:end].tobytes().decode("utf-8")

    def to_list(self) -> list[str]:
        """Return all ids."""
        content, runs = self.text.tobytes(), zip(self.runs[:, 0].tolist(), self.runs[:, 1].tolist(), strict=True)
        if content.isascii():  # the usual case: decode once and slice
            text = content.decode("ascii")
            return [text[start:end] for start, end in runs]
        return [content[start:end].decode("utf-8") for start, end in runs]

    def taken(self, rows: Int64Array) -> "MapIds":
        """Return a subset of the ids; the bytes are shared."""
        return MapIds(self.text, self.runs[rows])

    @classmethod
    def gather(cls, data: UInt8Array, runs: Int64Array) -> "MapIds":
        """Return ids given by their byte positions [start, end), (N, 2), in some data, which is copied."""
        lengths = runs[:, 1] - runs[:, 0]
        ends = np.cumsum(lengths)
        return cls(data[expand_ranges(runs[:, 0], lengths)], np.stack([ends - lengths, ends], axis=1))

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> "MapIds":
        """Return ids given as strings."""
        contents = [text.encode("utf-8") for text in texts]
        ends = np.cumsum([len(content) for content in contents], dtype=np.int64)
        starts = ends - np.array([len(content) for content in contents], dtype=np.int64)
        return cls(np.frombuffer(b"".join(contents), dtype=np.uint8), np.stack([starts, ends], axis=1))


@dataclass(frozen=True)
class MapLines(ReadOnlyArrays):
    """Lines of map elements in world coordinates; line i is ``points[offsets[i]:offsets[i + 1]]``.

    Attributes:
        points: World coordinates in metres, float64 (total, 3), read-only.
        offsets: Start of each line, and the end of the last, int64 (lines + 1,), read-only.
        bounds_m: [[x_min, y_min], [x_max, y_max]] of each line, float64 (lines, 2, 2), read-only; infinite for a line
            without points.
    """

    points: Float64Array
    offsets: Int64Array
    bounds_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, points=(len(self.points), 3), bounds_m=(len(self.offsets) - 1, 2, 2))
        require_starts(self, "offsets", num_parts=len(self.bounds_m), end=len(self.points))

    def __len__(self) -> int:
        return len(self.bounds_m)

    @property
    def lengths(self) -> Int64Array:
        """Number of points of each line, (lines,)."""
        return np.diff(self.offsets)

    def line(self, index: int) -> Float64Array:
        """Return the points of one line, float64 (n, 3), as a read-only view."""
        return self.points[self.offsets[index] : self.offsets[index + 1]]

    def taken(self, lines: Int64Array) -> "MapLines":
        """Return a subset of the lines; the object itself if all lines are taken in order."""
        if np.array_equal(lines, np.arange(len(self))):
            return self
        lengths = self.lengths[lines]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return MapLines(self.points[expand_ranges(self.offsets[lines], lengths)], offsets, self.bounds_m[lines])


@dataclass(frozen=True, eq=False)
class LaneLines(ReadOnlyArrays):
    """Resampled lines of N lanes with P points each, world coordinates in metres.

    Row i belongs to the lane ``bounds_info["lanes"]["ids"][i]``. The arrays are read-only.

    Attributes:
        xyz_left: Left boundaries, float64 (N, P, 3).
        xyz_right: Right boundaries, float64 (N, P, 3).
        xyz_midlane: Midlines, float64 (N, P, 3).
    """

    xyz_left: Float64Array
    xyz_right: Float64Array
    xyz_midlane: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (*self.xyz_left.shape[:2], 3)
        require_shapes(self, xyz_left=shape, xyz_right=shape, xyz_midlane=shape)


@dataclass(frozen=True)
class LaneControls(ReadOnlyArrays):
    """The C traffic lights, faces and signs that lanes with geometry list, and the lanes of each.

    Attributes:
        ids: Their ids, in the order of their first occurrence in the lanes of the map.
        kinds: Field number in ``TrafficControlElement.Type`` of each, 0 if it is not such an element or not in the map,
            int64 (C,).
        lane_starts: Start of each control in ``lane_rows``, and the end of the last one, int64 (C + 1,).
        lane_rows: Rows of the lanes that list each control, ascending and without duplicates, int64.
    """

    ids: MapIds
    kinds: Int64Array
    lane_starts: Int64Array
    lane_rows: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, kinds=(len(self.ids),))
        require_starts(self, "lane_starts", num_parts=len(self.ids), end=len(self.lane_rows))

    def lanes_of(self, control: int) -> Int64Array:
        """Return the rows of the lanes that list a control, ascending, as a read-only view."""
        return self.lane_rows[self.lane_starts[control] : self.lane_starts[control + 1]]


@dataclass(frozen=True, eq=False)
class MapArrays(ReadOnlyArrays):
    """The N lanes with geometry and the M crosswalks with points of a map, in file order, in world coordinates.

    It is created once per map file and shared while in use by :class:`l5kit.data.map.api.MapAPI`, rasters, vectors,
    viewer, recordings and simulations. It contains no Python objects and can be pickled. Rows of lanes are those of
    ``bounds_info["lanes"]`` everywhere.

    Attributes:
        lane_ids: Ids of the lanes, (N,).
        lane_lines: Left and right boundary of lane i as lines 2 i and 2 i + 1, as stored.
        crosswalk_ids: Ids of the crosswalks, (M,).
        crosswalk_lines: Polygon of each crosswalk.
        bounds_m: [[x_min, y_min], [x_max, y_max]] of the lanes, over both boundaries, then of the crosswalks, float64
            (N + M, 2, 2).
        controls: The traffic controls of the lanes.
        lights: The faces among them that have a colour.
        has_light: Whether a traffic light controls the lane; a face alone does not count; bool (N,).
    """

    lane_ids: MapIds
    lane_lines: MapLines
    crosswalk_ids: MapIds
    crosswalk_lines: MapLines
    bounds_m: Float64Array
    controls: LaneControls
    lights: LaneLights
    has_light: BoolArray

    def __post_init__(self) -> None:
        super().__post_init__()
        num_lanes, num_crosswalks = len(self.lane_ids), len(self.crosswalk_ids)
        require_shapes(self, bounds_m=(num_lanes + num_crosswalks, 2, 2), has_light=(num_lanes,))
        if len(self.lane_lines) != 2 * num_lanes or len(self.crosswalk_lines) != num_crosswalks:
            raise InvalidArgumentError(
                f"MapArrays: {num_lanes} lanes have two lines each and {num_crosswalks} crosswalks one, got "
                f"{len(self.lane_lines)} lane_lines and {len(self.crosswalk_lines)} crosswalk_lines"
            )

    @property
    def num_lanes(self) -> int:
        """Number of lanes, N."""
        return len(self.lane_ids)

    @property
    def num_crosswalks(self) -> int:
        """Number of crosswalks, M."""
        return len(self.crosswalk_ids)

    @property
    def lane_bounds_m(self) -> Float64Array:
        """The bounds of the lanes, as a read-only view, (N, 2, 2)."""
        return self.bounds_m[: self.num_lanes]

    @property
    def crosswalk_bounds_m(self) -> Float64Array:
        """The bounds of the crosswalks, as a read-only view, (M, 2, 2)."""
        return self.bounds_m[self.num_lanes :]

    def left_line(self, lane: int) -> Float64Array:
        """Return the left boundary of the lane in a row, float64 (n, 3), as a read-only view."""
        return self.lane_lines.line(2 * lane)

    def right_line(self, lane: int) -> Float64Array:
        """Return the right boundary of the lane in a row, float64 (n, 3), as a read-only view."""
        return self.lane_lines.line(2 * lane + 1)

    def polygons(self) -> tuple[Float64Array, ...]:
        """Return the polygons of the crosswalks, float64 (n, 3) each, read-only views."""
        return tuple(self.crosswalk_lines.line(crosswalk) for crosswalk in range(self.num_crosswalks))

    def resampled(self, num_points: int) -> LaneLines:
        """Return boundaries and midlines of all lanes with the same number of points each.

        The points of a line are equally spaced, both ends included. The arrays are shared while in use.

        Args:
            num_points: Points per line, at least 2.
        """
        kept = self._resampled.get(num_points)
        if kept is None:
            lines = resample_lanes(self.lane_lines.points, self.lane_lines.offsets, num_points)
            kept = self._resampled.setdefault(num_points, LaneLines(*lines))
        return kept

    def grid(self, radius_m: float) -> BoundsGrid:
        """Return the grid that finds lanes and crosswalks near points: rows of lanes, then N + rows of crosswalks.

        The grid is shared while in use.

        Args:
            radius_m: Distance along either axis from which on bounds count as too far away, metres.
        """
        kept = self._grids.get(radius_m)
        if kept is None:
            kept = self._grids.setdefault(radius_m, BoundsGrid.build(self.bounds_m, radius_m))
        return kept

    @cached_property
    def _resampled(self) -> WeakValueDictionary[int, LaneLines]:
        return WeakValueDictionary()

    @cached_property
    def _grids(self) -> WeakValueDictionary[float, BoundsGrid]:
        return WeakValueDictionary()
