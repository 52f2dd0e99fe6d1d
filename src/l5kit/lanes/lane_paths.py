"""Paths along lanes: of logged tracks, along given lanes, or straight ahead off lanes, with limits and speeds."""

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.data.map.centre_lines import CHANGE_M, CentreLines
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_choice import (
    LaneArrays,
    arc_on_lane,
    lane_arrays,
    point_on_lane,
)
from l5kit.lanes.lane_sequences import MOST_PIECES, mark_moving, write_logged_pieces, write_pieces_ahead

PATH_STEP_M = 2.0
"""Distance between consecutive points of a path, metres."""

UNKNOWN_LIMIT_MPS = 10.0
"""Speed limit of lanes without one in the map."""

_MARGIN_M = 150.0
_MOST_RAW_POINTS = 64 * MOST_PIECES
_MOST_POINTS = 1_000_000
_PARKED_M = 1.0
_STRAIGHT_M = 50.0


@dataclass(frozen=True, eq=False)
class TrackPoses(ReadOnlyArrays):
    """Logged poses of N tracks, track by track, each in the order of its frames.

    Attributes:
        starts: Start of each track, and the end of the last one, int64 (N + 1,).
        positions_m: World x and y of the centres, float64 (M, 2).
        yaws_rad: World headings, float64 (M,).
        durations_s: Time for which each may be driven, which determines the length of its path, float64 (N,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    starts: Int64Array
    positions_m: Float64Array
    yaws_rad: Float64Array
    durations_s: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, positions_m=(len(self.yaws_rad), 2))
        require_starts(self, "starts", num_parts=len(self.durations_s), end=len(self.yaws_rad))

    @property
    def arrays(self) -> "TrackArrays":
        """The fields in the form that kernels use."""
        return TrackArrays(**{name: getattr(self, name) for name in TrackArrays._fields})


class TrackArrays(NamedTuple):
    """The fields of :class:`TrackPoses`, for kernels."""

    starts: Int64Array
    positions_m: Float64Array
    yaws_rad: Float64Array
    durations_s: Float64Array


class PathArrays(NamedTuple):
    """The fields of :class:`LanePaths`, for kernels."""

    starts: Int64Array
    points_m: Float64Array
    lengths_m: Float64Array
    piece_starts: Int64Array
    piece_arcs_m: Float64Array
    piece_lanes: Int64Array
    line_lanes: Int64Array
    piece_limits_mps: Float64Array


class HasPieces(Protocol):
    """Arrays of paths with the fields of their pieces, like :class:`PathArrays`."""

    @property
    def piece_starts(self) -> Int64Array:
        """Start of each path in the pieces, and the end of the last one."""

    @property
    def piece_arcs_m(self) -> Float64Array:
        """Arc length of the path at which each piece begins."""


@dataclass(frozen=True, eq=False)
class LanePaths(ReadOnlyArrays):
    """The paths of N tracks; a track whose first row is on no lane has no path.

    Attributes:
        starts: Start of each path in the points, and the end of the last one, int64 (N + 1,).
        points_m: World x and y, 2 m apart along the path, with one more point after its end, float64 (P, 2).
        lengths_m: Length of each path, 0 for none, float64 (N,).
        piece_starts: Start of each path in the pieces, and the end of the last one, int64 (N + 1,).
        piece_arcs_m: Arc length of the path at which each piece begins, float64 (Q,).
        piece_lanes: Lane of each piece, int64 (Q,).
        line_lanes: Lanes whose red light has its stop line at the start of the piece, -1 for none, int64 (Q, 2): the
            previous lane, if its stop line is at its end, and the lane itself, if its stop line is at its start
            (:attr:`~l5kit.lanes.driving_map.DrivingMap.has_line_at_start`).
        piece_limits_mps: Speed limit of each piece, float64 (Q,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    starts: Int64Array
    points_m: Float64Array
    lengths_m: Float64Array
    piece_starts: Int64Array
    piece_arcs_m: Float64Array
    piece_lanes: Int64Array
    line_lanes: Int64Array
    piece_limits_mps: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size, pieces = len(self.lengths_m), self.piece_arcs_m.shape
        require_shapes(self, points_m=(len(self.points_m), 2), piece_lanes=pieces)
        require_shapes(self, piece_limits_mps=pieces, line_lanes=(*pieces, 2))
        require_starts(self, "starts", num_parts=size, end=len(self.points_m))
        require_starts(self, "piece_starts", num_parts=size, end=pieces[0])

    def __len__(self) -> int:
        return len(self.lengths_m)

    @property
    def arrays(self) -> PathArrays:
        """The fields in the form that kernels use."""
        return PathArrays(**{name: getattr(self, name) for name in PathArrays._fields})

    @property
    def has_path(self) -> BoolArray:
        """Whether each track has a path, (N,)."""
        has_path: BoolArray = np.diff(self.starts) > 0
        return has_path

    def points_of(self, track: int) -> Float64Array:
        """Return the points of a path, as a read-only view, (p, 2)."""
        return self.points_m[self.starts[track] : self.starts[track + 1]]

    def lanes_of(self, track: int) -> Int64Array:
        """Return the lanes of a path, as a read-only view, (q,)."""
        return self.piece_lanes[self.piece_starts[track] : self.piece_starts[track + 1]]


def make_lane_paths(
    tracks: TrackPoses, driving_map: DrivingMap, *, unknown_limit_mps: float = UNKNOWN_LIMIT_MPS
) -> LanePaths:
    """Return the paths of tracks: their logged lanes, continued at each fork by the lane with the least turn.

    A path begins at the point of the centre line nearest to the first row of its track. It ends 150 m after the point
    that a vehicle driving at the speed limits reaches, or where no lane follows. A lane change is a bend of 20 m that
    begins 10 m before the row in the other lane.

    Args:
        tracks: N tracks.
        driving_map: The lanes.
        unknown_limit_mps: Limit for lanes without one in the map, above 0.

    Raises:
        InvalidArgumentError: A pose is not finite, or the limit is not above 0.
    """
    is_broken = ~(np.isfinite(tracks.positions_m).all(axis=1) & np.isfinite(tracks.yaws_rad))
    if is_broken.any():
        raise InvalidArgumentError(
            f"TrackPoses: {int(is_broken.sum())} rows are not finite, for example row {int(np.argmax(is_broken))}; "
            "exclude such tracks"
        )
    known_mps = known_limits(driving_map, unknown_limit_mps)
    points_m, piece_arcs_m, piece_lanes, has_line, starts, piece_starts, lengths_m = _make_paths(
        tracks.arrays,
        lane_arrays(driving_map),
        driving_map.lane_grid.arrays,
        known_mps,
    )
    line_lanes = _lanes_of_lines(piece_lanes, has_line, driving_map.has_line_at_start)
    limits_mps = known_mps[piece_lanes]
    return LanePaths(starts, points_m, lengths_m, piece_starts, piece_arcs_m, piece_lanes, line_lanes, limits_mps)


def make_path_of_lanes(
    lanes: Int64Array,
    driving_map: DrivingMap,
    *,
    start_m: float = 0.0,
    end_m: float | None = None,
    unknown_limit_mps: float = UNKNOWN_LIMIT_MPS,
) -> LanePaths:
    """Return the path of one track along given lanes, such as those of :meth:`l5kit.data.map.api.MapAPI.find_route`.

    It is built like the paths of :func:`make_lane_paths`, but ends at the given point. A lane that does not follow the
    previous one is reached by a lane change, a bend of 20 m. Changes are spread evenly over the distance driven on
    neighbouring lanes; if less than 20 m remain before the end, the path ends next to the centre line.

    Args:
        lanes: Rows of the lanes in driving order, int64 (Q,), at least one; a lane may occur twice.
        driving_map: The lanes of the map.
        start_m: Arc length on the first centre line at which the path starts.
        end_m: Arc length on the last centre line at which it ends; None for its end.
        unknown_limit_mps: Limit for lanes without one in the map, above 0.

    Raises:
        InvalidArgumentError: There are no lanes or no such lane, an arc length is outside of its centre line, the end
            is before the start on a single lane, or the limit is not above 0.
    """
    known_mps = known_limits(driving_map, unknown_limit_mps)
    rows = np.ascontiguousarray(lanes, np.int64)
    if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= driving_map.num_lanes:
        raise InvalidArgumentError(
            f"lanes must be at least one row from 0 to {driving_map.num_lanes - 1}, shape (Q,), got {lanes!r}"
        )
    lines = CentreLines(driving_map.centre_lines_m, driving_map.arc_lengths_m)
    first_m, last_m = lines.lengths_m[rows[[0, -1]]].tolist()
    stop_m = last_m if end_m is None else end_m
    if not (0 <= start_m <= first_m and (0 if len(rows) > 1 else start_m) <= stop_m <= last_m):
        raise InvalidArgumentError(
            f"start_m {start_m} and end_m {end_m} must lie on the first and the last centre line, from 0 to "
            f"{first_m:.3f} and from 0 to {last_m:.3f} metres, in this order on a single lane"
        )
    follows = [lane in driving_map.ahead_of(before) for before, lane in itertools.pairwise(rows.tolist())]
    is_change = ~np.array([True, *follows])
    spans_m = lines.spans_of(rows, is_change=is_change, start_m=start_m, end_m=stop_m)

    # each piece adds the points of its centre line, and a point every 2 m of a bend
    arrays = lane_arrays(driving_map)
    raw, begins_m = np.empty(((len(rows) + 1) * (arrays.arc_lengths_m.shape[1] + 16), 3)), np.empty(len(rows))
    pieces = np.stack([rows, is_change], axis=1)
    num_raw, count = _write_raw_points(pieces, spans_m, len(rows), arrays, raw, begins_m)
    length_m = raw[num_raw - 1, 2]
    points_m = np.empty((index_along(length_m, _MOST_POINTS) + 2, 2))
    _write_even_points(raw[:num_raw], points_m)
    has_line = (np.arange(len(rows)) > 0) & (spans_m[:, 0] <= 0.0)
    return LanePaths(
        starts=np.array([0, len(points_m)]),
        points_m=points_m,
        lengths_m=np.array([length_m]),
        piece_starts=np.array([0, count]),
        piece_arcs_m=begins_m,
        piece_lanes=rows,
        line_lanes=_lanes_of_lines(rows, has_line, driving_map.has_line_at_start),
        piece_limits_mps=known_mps[rows],
    )


def find_moving_tracks(tracks: TrackPoses) -> BoolArray:
    """Return whether each track moves at least 1 m away from its first row, (N,); otherwise it is parked."""
    is_moving = np.zeros(len(tracks.durations_s), np.bool_)
    mark_moving(tracks.positions_m, tracks.starts, _PARKED_M, is_moving)
    return is_moving


def known_limits(driving_map: DrivingMap, unknown_limit_mps: float) -> Float64Array:
    """Return the speed limits of all lanes, with a default for unknown ones, (L,)."""
    if not unknown_limit_mps > 0:
        raise InvalidArgumentError(f"unknown_limit_mps is {unknown_limit_mps}; pass metres per second above 0")
    known_mps: Float64Array = np.where(
        driving_map.speed_limits_mps > 0, driving_map.speed_limits_mps, unknown_limit_mps
    )
    return known_mps


def _lanes_of_lines(piece_lanes: Int64Array, has_line: BoolArray, has_line_at_start: BoolArray) -> Int64Array:
    """Return the lanes with stop lines before pieces, (Q, 2); ``has_line`` marks pieces at the start of a lane."""
    before = np.roll(piece_lanes, 1)
    is_held = np.stack([has_line & ~has_line_at_start[before], has_line & has_line_at_start[piece_lanes]], axis=-1)
    line_lanes: Int64Array = np.where(is_held, np.stack([before, piece_lanes], axis=-1), -1)
    return line_lanes


@kernel_jit
def piece_at(paths: HasPieces, track: int, piece: int, arc_m: float) -> int:
    """Return the piece of a path that contains an arc length, searching forward from an earlier piece.

    Args:
        paths: All paths.
        track: The path.
        piece: Piece at which the search starts.
        arc_m: The arc length.
    """
    last = paths.piece_starts[track + 1] - 1
    while piece < last and paths.piece_arcs_m[piece + 1] <= arc_m:
        piece += 1
    return piece


@kernel_jit
def index_along(arc_m: float, last: int) -> int:
    """Return the index of the point of a path at or before an arc length, 0 to ``last``; 0 for NaN."""
    position = arc_m / PATH_STEP_M
    if not position > 0.0:
        return 0
    return last if position >= last else int(position)


@kernel_jit
def _make_paths(
    tracks: TrackArrays,
    lanes: LaneArrays,
    grid: GridArrays,
    limits_mps: Float64Array,
) -> tuple[Float64Array, Float64Array, Int64Array, BoolArray, Int64Array, Int64Array, Float64Array]:
    """Return points, arcs and lanes of pieces, whether they begin with their lane, starts of both, and lengths."""
    row_starts, positions_m, yaws_rad, durations_s = tracks
    size = len(durations_s)
    starts, piece_starts, lengths_m = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.zeros(size)
    points_m, arcs_m = np.empty((1024, 2)), np.empty(256)
    piece_lanes, has_line = np.empty(256, np.int64), np.empty(256, np.bool_)
    pieces, spans_m = np.empty((MOST_PIECES, 2), np.int64), np.empty((MOST_PIECES, 2))
    raw, begins_m = np.empty((_MOST_RAW_POINTS, 3)), np.empty(MOST_PIECES)
    for track in range(size):
        rows = slice(row_starts[track], row_starts[track + 1])
        count = write_logged_pieces(positions_m[rows], yaws_rad[rows], lanes, grid, pieces, spans_m)
        num_points = 0
        if count > 0:
            count = write_pieces_ahead(pieces, spans_m, count, lanes, limits_mps, durations_s[track], _MARGIN_M)
            num_raw, count = _write_raw_points(pieces, spans_m, count, lanes, raw, begins_m)
            lengths_m[track] = min(raw[num_raw - 1, 2], _MOST_POINTS * PATH_STEP_M)
            num_points = index_along(lengths_m[track], _MOST_POINTS) + 2
        # growing at least doubles the arrays, which limits the number of copies
        start, piece_start = starts[track], piece_starts[track]
        if start + num_points > len(points_m):
            points_m = np.concatenate((points_m[:start], np.empty((2 * (start + num_points), 2))))
        if piece_start + count > len(arcs_m):
            arcs_m = np.concatenate((arcs_m[:piece_start], np.empty(2 * (piece_start + count))))
            piece_lanes = np.concatenate((piece_lanes[:piece_start], np.empty(2 * (piece_start + count), np.int64)))
            has_line = np.concatenate((has_line[:piece_start], np.empty(2 * (piece_start + count), np.bool_)))
        if count > 0:
            _write_even_points(raw[:num_raw], points_m[start : start + num_points])
        for piece in range(count):
            arcs_m[piece_start + piece], piece_lanes[piece_start + piece] = begins_m[piece], pieces[piece, 0]
            has_line[piece_start + piece] = piece > 0 and spans_m[piece, 0] <= 0.0
        starts[track + 1], piece_starts[track + 1] = start + num_points, piece_start + count
    ends = starts[-1], piece_starts[-1]
    kept = arcs_m[: ends[1]].copy(), piece_lanes[: ends[1]].copy(), has_line[: ends[1]].copy()
    return points_m[: ends[0]].copy(), kept[0], kept[1], kept[2], starts, piece_starts, lengths_m


@kernel_jit
def points_ahead(
    lanes: LaneArrays, limits_mps: Float64Array, lane: int, point_m: Float64Array, length_m: float
) -> Float64Array:
    """Return the points of a path that starts on a lane and continues along the straightest ones, 2 m apart, (p, 2).

    Args:
        lanes: Lanes of the map.
        limits_mps: Speed limits of all lanes.
        lane: First lane.
        point_m: World x and y; the path starts at the nearest point of the lane.
        length_m: Minimum length, if enough lanes follow.
    """
    pieces, spans_m = np.zeros((MOST_PIECES, 2), np.int64), np.zeros((MOST_PIECES, 2))
    raw, begins_m = np.empty((_MOST_RAW_POINTS, 3)), np.empty(MOST_PIECES)
    pieces[0, 0] = lane
    spans_m[0, 0], spans_m[0, 1] = arc_on_lane(lanes, lane, point_m)[0], lanes.arc_lengths_m[lane, -1]
    count = write_pieces_ahead(pieces, spans_m, 1, lanes, limits_mps, 0.0, length_m)
    num_raw, _ = _write_raw_points(pieces, spans_m, count, lanes, raw, begins_m)
    points_m = np.empty((index_along(raw[num_raw - 1, 2], _MOST_POINTS) + 2, 2))
    _write_even_points(raw[:num_raw], points_m)
    return points_m


@kernel_jit
def _write_raw_points(
    pieces: Int64Array,
    spans_m: Float64Array,
    count: int,
    lanes: LaneArrays,
    raw: Float64Array,
    begins_m: Float64Array,
) -> tuple[int, int]:
    """Write x, y and arc length of a path with the points of its centre lines, and where its pieces begin.

    Returns:
        The numbers of written points and pieces, limited by the available space.
    """
    num_raw, shift_x, shift_y, bent_m = 0, 0.0, 0.0, CHANGE_M
    end_m = np.zeros(2)
    for piece in range(count):
        lane = pieces[piece, 0]
        if num_raw + lanes.arc_lengths_m.shape[1] + 16 > len(raw):
            return num_raw, piece
        # a lane change starts at the current position; the offset fades along the bend, also in the following pieces
        if pieces[piece, 1]:
            spans_m[piece, 0] = min(arc_on_lane(lanes, lane, end_m)[0], spans_m[piece, 1])
            x, y = point_on_lane(lanes, lane, spans_m[piece, 0])
            shift_x, shift_y, bent_m = end_m[0] - x, end_m[1] - y, 0.0
        begins_m[piece] = raw[num_raw - 1, 2] if num_raw else 0.0
        arc_m, stop_m = spans_m[piece, 0], max(spans_m[piece, 1], spans_m[piece, 0])
        lengths_m = lanes.arc_lengths_m[lane]
        vertex = np.searchsorted(lengths_m, arc_m, side="right")
        while True:
            x, y = point_on_lane(lanes, lane, arc_m)
            part = min((bent_m + arc_m - spans_m[piece, 0]) / CHANGE_M, 1.0)
            kept = (1 + 2 * part) * (1 - part) ** 2
            num_raw = _add_point(raw, num_raw, x + kept * shift_x, y + kept * shift_y)
            if arc_m >= stop_m:
                break
            after_m = lengths_m[vertex] if vertex < len(lengths_m) else stop_m
            if part < 1.0 and after_m > arc_m + PATH_STEP_M:
                arc_m = min(arc_m + PATH_STEP_M, stop_m)
            else:
                arc_m, vertex = min(after_m, stop_m), vertex + 1
        bent_m += stop_m - spans_m[piece, 0]
        end_m[0], end_m[1] = raw[num_raw - 1, 0], raw[num_raw - 1, 1]
    return num_raw, count


@kernel_jit
def _add_point(raw: Float64Array, num_raw: int, x: float, y: float) -> int:
    """Append a point unless it repeats the last one, and return the new number of points."""
    length_m = 0.0
    if num_raw:
        step_m = np.sqrt((x - raw[num_raw - 1, 0]) ** 2 + (y - raw[num_raw - 1, 1]) ** 2)
        if step_m < 1e-6:
            return num_raw
        length_m = raw[num_raw - 1, 2] + step_m
    raw[num_raw, 0], raw[num_raw, 1], raw[num_raw, 2] = x, y, length_m
    return num_raw + 1


@kernel_jit
def _write_even_points(raw: Float64Array, points_m: Float64Array) -> None:
    """Write points 2 m apart along a line of x, y and arc length, extrapolating the last edge after its end."""
    edge = 0
    for point in range(len(points_m)):
        arc_m = point * PATH_STEP_M
        while edge < len(raw) - 2 and raw[edge + 1, 2] < arc_m:
            edge += 1
        after = min(edge + 1, len(raw) - 1)
        length_m = raw[after, 2] - raw[edge, 2]
        part = (arc_m - raw[edge, 2]) / length_m if length_m > 0 else 0.0
        points_m[point, 0] = raw[edge, 0] + part * (raw[after, 0] - raw[edge, 0])
        points_m[point, 1] = raw[edge, 1] + part * (raw[after, 1] - raw[edge, 1])


def straight_paths(tracks: TrackPoses, *, limit_mps: float = UNKNOWN_LIMIT_MPS) -> LanePaths:
    """Return paths straight ahead from the first rows of tracks, 50 m long, for vehicles on no lane.

    Args:
        tracks: N tracks, each with at least one row.
        limit_mps: Their speed limit, above 0.
    """
    size, num_points = len(tracks.durations_s), round(_STRAIGHT_M / PATH_STEP_M) + 2
    firsts = tracks.starts[:-1]
    headings = np.stack([np.cos(tracks.yaws_rad[firsts]), np.sin(tracks.yaws_rad[firsts])], axis=-1)
    ahead_m = PATH_STEP_M * np.arange(num_points)
    points_m = tracks.positions_m[firsts, None] + ahead_m[:, None] * headings[:, None]
    return LanePaths(
        starts=num_points * np.arange(size + 1),
        points_m=points_m.reshape(-1, 2),
        lengths_m=np.full(size, _STRAIGHT_M),
        piece_starts=np.arange(size + 1),
        piece_arcs_m=np.zeros(size),
        piece_lanes=np.zeros(size, np.int64),
        line_lanes=np.full((size, 2), -1),
        piece_limits_mps=np.full(size, float(limit_mps)),
    )


def join_paths(first: LanePaths, second: LanePaths) -> LanePaths:
    """Return the paths of some tracks, followed by those of others."""
    rows = ("points_m", "lengths_m", "piece_arcs_m", "piece_lanes", "line_lanes", "piece_limits_mps")
    joined = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in rows}
    for name in ("starts", "piece_starts"):
        of_first, of_second = getattr(first, name), getattr(second, name)
        joined[name] = np.concatenate([of_first, of_first[-1] + of_second[1:]])
    return LanePaths(**joined)


def filled_paths(paths: LanePaths, others: LanePaths) -> LanePaths:
    """Return the paths of N tracks, with tracks that have none filled from ``others`` (N paths)."""
    is_own = paths.has_path
    parts, names = (paths, others), ("points_m", "piece_arcs_m", "piece_lanes", "line_lanes", "piece_limits_mps")
    arrays: dict[str, NumericArray] = {"lengths_m": np.where(is_own, paths.lengths_m, others.lengths_m)}
    for name, starts_name in zip(names, ("starts", *["piece_starts"] * 4), strict=True):
        counts = [np.diff(getattr(part, starts_name)) for part in parts]
        chosen = np.where(is_own, *counts)
        firsts = np.where(is_own, *(getattr(part, starts_name)[:-1] for part in parts))
        rows = expand_ranges(firsts, chosen)
        is_own_row = np.repeat(is_own, chosen)
        own, other = (getattr(part, name) for part in parts)
        joined = np.empty((len(rows), *own.shape[1:]), own.dtype)
        joined[is_own_row], joined[~is_own_row] = own[rows[is_own_row]], other[rows[~is_own_row]]
        arrays[name] = joined
        arrays[starts_name] = np.concatenate([[0], np.cumsum(chosen)]).astype(np.int64)
    return LanePaths(**arrays)


@kernel_jit
def write_highest_speeds(
    paths: PathArrays, lateral_mps2: float, braking_mps2: float, has_limits: bool, speeds_mps: Float64Array
) -> None:
    """Write the highest speed of a vehicle at each point of all paths, (P,).

    It is limited by the lateral acceleration in bends and, optionally, by the speed limit; before a slower point, also
    by the deceleration needed to reach it.

    Args:
        paths: All paths.
        lateral_mps2: Lateral acceleration, above 0.
        braking_mps2: Deceleration before slower points, above 0.
        has_limits: Whether speed limits apply.
        speeds_mps: Output for the speeds, infinite if nothing ahead limits them.
    """
    starts, points_m = paths.starts, paths.points_m
    for track in range(len(starts) - 1):
        first, stop = starts[track], starts[track + 1]
        piece = paths.piece_starts[track]
        for point in range(first, stop):
            arc_m = (point - first) * PATH_STEP_M
            piece = piece_at(paths, track, piece, arc_m)
            speeds_mps[point] = speed_in_bend(points_m[first:stop], point - first, lateral_mps2)
            if has_limits:
                speeds_mps[point] = min(paths.piece_limits_mps[piece], speeds_mps[point])
        # backward pass: v^2 = v_after^2 + 2 b s
        for point in range(stop - 2, first - 1, -1):
            after = speeds_mps[point + 1]
            before = math.sqrt(after * after + 2 * braking_mps2 * PATH_STEP_M)
            speeds_mps[point] = min(speeds_mps[point], before)


@kernel_jit
def speed_in_bend(points_m: Float64Array, point: int, lateral_mps2: float) -> float:
    """Return the highest speed at a point of a line, from the turn of the line over 8 m around it."""
    before, after = max(point - 2, 0), min(point + 2, len(points_m) - 1)
    if before == point or after == point:
        return np.inf
    x, y = points_m[point, 0] - points_m[before, 0], points_m[point, 1] - points_m[before, 1]
    next_x, next_y = points_m[after, 0] - points_m[point, 0], points_m[after, 1] - points_m[point, 1]
    turn = abs(math.atan2(x * next_y - y * next_x, x * next_x + y * next_y))
    # lateral acceleration is v^2 k; the midpoints of the two chords are half of the total length apart
    curvature = turn / (0.5 * (after - before) * PATH_STEP_M)
    return math.sqrt(lateral_mps2 / curvature) if curvature > 1e-6 else np.inf
