"""Map of a scene as returned by a reader: lanes, areas and signs in metres, in the frame of the scene, validated.

Scenes in a city get the piece of its map around them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from l5kit._types import BoolArray, Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError
from l5kit.readers.source_bounds import FURTHEST_FROM_AV_M, FURTHEST_M, is_within, require_text, require_within

LANE_KINDS = ("vehicle", "bus", "bike")
"""Users of a lane."""

AREA_KINDS = ("crosswalk", "drivable_area", "speed_bump", "driveway", "walkway", "carpark")
"""Types of areas."""

DRIVABLE_KINDS = ("drivable_area", "driveway", "carpark")
"""Types of areas that vehicles may drive on; scores count them as part of the road."""

MPS_OF_KMH, MPS_OF_MPH = 1.0 / 3.6, 0.44704
"""Metres per second of one kilometre, and of one mile, per hour."""

_FEWEST_CORNERS = 3


@dataclass(frozen=True, eq=False)
class SourceLane:
    """One lane, in driving direction.

    Attributes:
        lane_id: Id in the source, unique in the map.
        centre_m: Centre line, x, y and z (0 without a known height), float64, (n, 3), n at least 2.
        left_m: Left boundary, (m, 3); None if unknown, to place it half a default width beside the centre.
        right_m: Right boundary, likewise.
        successors: Ids of following lanes; ids that are not in the map are allowed.
        predecessors: Ids of preceding lanes.
        left_neighbour: Id of the lane on the left, in the same direction, to which changes are allowed, or None.
        right_neighbour: The same on the right.
        speed_limit_mps: Speed limit, or None if unknown.
        kind: One of :data:`LANE_KINDS`.
        is_in_junction: Whether it lies in an intersection, or None if unknown. If no lane of the map is marked,
            :func:`~l5kit.readers.lane_groups.with_junctions` infers it.

    Raises:
        InvalidArgumentError: A line is degenerate or out of range, the limit is not above 0, or the kind is unknown.
    """

    lane_id: str
    centre_m: Float64Array
    left_m: Float64Array | None = None
    right_m: Float64Array | None = None
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    left_neighbour: str | None = None
    right_neighbour: str | None = None
    speed_limit_mps: float | None = None
    kind: str = "vehicle"
    is_in_junction: bool | None = None

    def __post_init__(self) -> None:
        for name in ("centre_m", "left_m", "right_m"):
            line = getattr(self, name)
            if line is None and name != "centre_m":
                continue
            if not is_line(line):
                raise InvalidArgumentError(
                    f"{name} of lane {self.lane_id!r} must have shape (n, 3), be finite and have two points apart, "
                    f"got shape {np.shape(line)}; leave the lane out, and say so in the remarks of the scene"
                )
            if np.abs(line).max() > FURTHEST_M:  # avoids formatting the name for each of many lanes
                require_within(name, f"lane {self.lane_id!r}", line, FURTHEST_M, unit="m")
            object.__setattr__(self, name, np.asarray(line, np.float64))
        if self.kind not in LANE_KINDS:
            raise InvalidArgumentError(f"kind of lane {self.lane_id!r} must be one of {LANE_KINDS}, got {self.kind!r}")
        limit = self.speed_limit_mps
        if limit is not None and not 0 < limit < np.inf:
            raise InvalidArgumentError(
                f"speed_limit_mps of lane {self.lane_id!r} must be above 0, or None where it is not known, got {limit}"
            )


@dataclass(frozen=True, eq=False)
class SourceArea:
    """One area, such as a crosswalk or a drivable area.

    Attributes:
        area_id: Id in the source, unique among the areas of its kind.
        kind: One of :data:`AREA_KINDS`.
        outline_m: Corners of its polygon in order, the first not repeated, x, y and z, float64, (n, 3), n at least 3.
        holes_m: Corners of its holes, such as traffic islands and city blocks, likewise.

    Raises:
        InvalidArgumentError: The outline is degenerate or out of range, or the kind is unknown.
    """

    area_id: str
    kind: str
    outline_m: Float64Array
    holes_m: tuple[Float64Array, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in AREA_KINDS:
            raise InvalidArgumentError(f"kind of area {self.area_id!r} must be one of {AREA_KINDS}, got {self.kind!r}")
        for name, ring in (("outline_m", self.outline_m), *(("holes_m", hole) for hole in self.holes_m)):
            if not is_line(ring) or len(ring) < _FEWEST_CORNERS:
                raise InvalidArgumentError(
                    f"{name} of {self.kind} {self.area_id!r} must have shape (n, 3) with n at least "
                    f"{_FEWEST_CORNERS} and be finite, got shape {np.shape(ring)}"
                )
            require_within(name, f"{self.kind} {self.area_id!r}", ring, FURTHEST_M, unit="m")
        object.__setattr__(self, "outline_m", np.asarray(self.outline_m, np.float64))
        object.__setattr__(self, "holes_m", tuple(np.asarray(hole, np.float64) for hole in self.holes_m))


@dataclass(frozen=True, eq=False)
class SourceSign:
    """One stop sign.

    Attributes:
        sign_id: Id in the source, unique among the signs of the map.
        position_m: Its position, x, y and z, (3,).
        lane_ids: Lanes that it stops at their end.

    Raises:
        InvalidArgumentError: The position is not a finite point, or out of range.
    """

    sign_id: str
    position_m: Float64Array
    lane_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "position_m", np.asarray(self.position_m, np.float64))
        if self.position_m.shape != (3,) or not np.isfinite(self.position_m).all():
            raise InvalidArgumentError(
                f"position_m of sign {self.sign_id!r} must be x, y, z, got {self.position_m.tolist()}"
            )
        require_within("position_m", f"sign {self.sign_id!r}", self.position_m, FURTHEST_M, unit="m")


@dataclass(frozen=True, eq=False)
class SourceMap:
    """A map, or the piece of one around a scene.

    Attributes:
        name: Name of the coordinate frame in the source: a city, or a scene if each has its own frame.
        lanes: The lanes.
        areas: Crosswalks, drivable areas and others.
        signs: Stop signs.

    Raises:
        InvalidArgumentError: The name is not text, or an id is invalid or used twice.
    """

    name: str
    lanes: tuple[SourceLane, ...] = field(default=(), repr=False)
    areas: tuple[SourceArea, ...] = field(default=(), repr=False)
    signs: tuple[SourceSign, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        require_text("the name of a map", self.name)
        for name in ("lanes", "areas", "signs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _require_unique("a lane", [lane.lane_id for lane in self.lanes])
        _require_unique("an area", [f"{area.kind} {area.area_id}" for area in self.areas])
        _require_unique("a sign", [sign.sign_id for sign in self.signs])

    def require_near(self, position_m: NumericArray) -> None:
        """Refuse elements that are too far from the AV.

        Args:
            position_m: x, y and z of the AV, (3,).

        Raises:
            InvalidArgumentError: An element is too far away; the message names it and the point.
        """
        # first test all points at once, as most maps pass
        lines = list(self.lines())
        points_m = [line_m for _, _, line_m in lines]
        if not points_m or is_within(np.concatenate(points_m), FURTHEST_FROM_AV_M, around=position_m).all():
            return
        for name, of_what, line_m in lines:
            require_within(
                name, f"{of_what} of map {self.name!r}", line_m, FURTHEST_FROM_AV_M, unit="m", around=position_m
            )

    def lines(self) -> Iterator[tuple[str, str, Float64Array]]:
        """Yield the name of each line, its element, and its points, (n, 3); a sign is a line of one point."""
        for lane in self.lanes:
            for name in ("centre_m", "left_m", "right_m"):
                if (line_m := getattr(lane, name)) is not None:
                    yield name, f"lane {lane.lane_id!r}", line_m
        for area in self.areas:
            yield "outline_m", f"{area.kind} {area.area_id!r}", area.outline_m
            yield from (("holes_m", f"{area.kind} {area.area_id!r}", hole_m) for hole_m in area.holes_m)
        for sign in self.signs:
            yield "position_m", f"sign {sign.sign_id!r}", sign.position_m[None]


def is_line(points_m: NumericArray | None) -> bool:
    """Return whether points form a line: finite, of shape (n, 3), and not all in one place."""
    points = np.asarray(points_m, np.float64) if points_m is not None else np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2 or not np.isfinite(points).all():
        return False
    ends_m = math.dist(points[0].tolist(), points[-1].tolist())  # fast path: few lines end where they start
    return ends_m > 0.01 or bool(np.linalg.norm(points - points[0], axis=1).max() > 0.01)


def with_heights(points_m: Float64Array) -> Float64Array:
    """Return points of two or three axes as (n, 3), with height 0 if they have none."""
    return points_m if points_m.shape[1] == 3 else np.column_stack([points_m, np.zeros(len(points_m))])


def open_outline(corners_m: Float64Array) -> Float64Array | None:
    """Return the corners of a polygon without a repeated first corner, (n, 3); None if degenerate."""
    is_closed = len(corners_m) > 1 and bool((corners_m[0] == corners_m[-1]).all())
    outline_m = corners_m[:-1] if is_closed else corners_m
    return outline_m if len(outline_m) >= _FEWEST_CORNERS and is_line(outline_m) else None


def _require_unique(what: str, ids: list[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        require_text(f"the id of {what}", name)
        if name in seen:
            raise InvalidArgumentError(f"the map has {what.partition(' ')[2]} {name!r} twice")
        seen.add(name)


@dataclass(frozen=True)
class CityMap:
    """All elements of a city with their bounding boxes, to find those near a scene.

    Attributes:
        whole: The whole map.
        lane_bounds_m: Minimum and maximum x and y of each lane, (L, 2, 2).
        area_bounds_m: The same for each area, (A, 2, 2).
        sign_bounds_m: The same for each sign, (S, 2, 2).
        left_out: A sentence on each dropped element with its bounds, (2, 2), or NaN if it has none.
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

    def near(self, positions_m: Float64Array, reach_m: float) -> tuple[SourceMap, list[str]]:
        """Return the whole elements near some positions, and the sentences on elements dropped there.

        Sentences on dropped elements of unknown position are always included.

        Args:
            positions_m: World x and y, (N, 2).
            reach_m: Maximum distance of the bounds of an element from those of the positions.
        """
        window_m = np.stack([positions_m.min(axis=0) - reach_m, positions_m.max(axis=0) + reach_m])
        piece = SourceMap(
            self.whole.name,
            tuple(self.whole.lanes[row] for row in np.flatnonzero(_overlap(self.lane_bounds_m, window_m)).tolist()),
            tuple(self.whole.areas[row] for row in np.flatnonzero(_overlap(self.area_bounds_m, window_m)).tolist()),
            tuple(self.whole.signs[row] for row in np.flatnonzero(_overlap(self.sign_bounds_m, window_m)).tolist()),
        )
        is_near = [np.isnan(bounds_m).any() or _overlap(bounds_m, window_m) for _, bounds_m in self.left_out]
        return piece, [text for (text, _), near in zip(self.left_out, is_near, strict=True) if near]


def bounds_of(lines_m: Sequence[Float64Array]) -> Float64Array:
    """Return the minimum and maximum x and y of lines, (N, 2, 2)."""
    bounds = [(line[:, :2].min(axis=0), line[:, :2].max(axis=0)) for line in lines_m]
    return np.array(bounds, np.float64).reshape(-1, 2, 2)


def _overlap(bounds_m: Float64Array, window_m: Float64Array) -> BoolArray:
    """Return which bounds (..., 2, 2) intersect a window (2, 2)."""
    # two boxes intersect unless one ends before the other begins, in x or in y
    meets: BoolArray = ((bounds_m[..., 0, :] <= window_m[1]) & (bounds_m[..., 1, :] >= window_m[0])).all(axis=-1)
    return meets
