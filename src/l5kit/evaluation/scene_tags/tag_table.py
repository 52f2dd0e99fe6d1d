"""Table of tags: kinds and thresholds of tags, and the events of each scene with their frames."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, JsonObject
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class TagKind:
    """A tag that scenes may have.

    Attributes:
        name: Name of its column.
        label: Name for display.
        needs_map: Whether it needs a semantic map.
    """

    name: str
    label: str
    needs_map: bool = False


TAG_KINDS = (
    TagKind("left_turn", "left turn"),
    TagKind("right_turn", "right turn"),
    TagKind("standing", "standing"),
    TagKind("hard_brake", "hard brake"),
    TagKind("cut_in", "cut-in"),
    TagKind("close_pass", "close pass"),
    TagKind("vulnerable_near", "pedestrian or cyclist near"),
    TagKind("stop_at_red", "stop at red", needs_map=True),
    TagKind("lane_change", "lane change", needs_map=True),
    TagKind("unprotected_crossing", "unprotected crossing", needs_map=True),
)
"""All tags, in the order of the columns of tables."""

_COLUMN_OF = {kind.name: column for column, kind in enumerate(TAG_KINDS)}


@dataclass(frozen=True)
class TagThresholds:
    """Thresholds of the definitions of tags.

    Attributes:
        window_s: Time window around a frame over which rates of heading and speed are averaged.
        merge_s: Longest pause between two events that are merged into one.
        turn_deg: Smallest change of heading of a turn, from its first frame to its last.
        turn_rate_deg_s: Smallest yaw rate of a turning AV.
        standing_mps: Speed below which the AV stands.
        standing_s: Shortest time of standing.
        brake_mps2: Smallest mean deceleration of a hard brake.
        moving_mps: Speed from which road users and the AV move.
        close_gap_m: Gap below which boxes pass closely.
        passing_mps: Smallest relative speed of a close pass.
        vulnerable_gap_m: Gap below which a pedestrian or cyclist is near.
        cut_in_ahead_m: Largest gap along the path of the AV to a road user that cuts in.
        cut_in_s: Longest time in which a road user moves from beside the path into it.
        cut_in_beside_m: Distance of a centre from the path of the AV from which it is beside the path.
        cut_in_inside_m: Distance of a centre from the path up to which it is in the path.
        same_way_deg: Largest difference of headings in the same direction.
        light_ahead_m: Longest distance from the front of the AV to a red light: to the end of a lane that leads to a
            junction, or to the start of a lane in one, whichever the light controls.
        light_behind_m: Longest distance of the centre of the AV on a lane of a junction with a red light.
        lane_hold_s: Shortest time on the lanes before and after a lane change.
        crossing_deg: Smallest difference of headings of crossing road users.
        crossing_s: Longest time between the AV and another road user at the same position: the post-encroachment time.

    Raises:
        InvalidArgumentError: A threshold is negative or not finite, or those inside and beside the path overlap.
    """

    window_s: float = 1.0
    merge_s: float = 1.0
    turn_deg: float = 45.0
    turn_rate_deg_s: float = 4.0
    standing_mps: float = 0.3
    standing_s: float = 2.0
    brake_mps2: float = 3.0
    moving_mps: float = 1.0
    close_gap_m: float = 1.0
    passing_mps: float = 2.0
    vulnerable_gap_m: float = 2.0
    cut_in_ahead_m: float = 20.0
    cut_in_s: float = 3.0
    cut_in_beside_m: float = 2.0
    cut_in_inside_m: float = 1.0
    same_way_deg: float = 45.0
    light_ahead_m: float = 25.0
    light_behind_m: float = 5.0
    lane_hold_s: float = 1.0
    crossing_deg: float = 30.0
    crossing_s: float = 3.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidArgumentError(f"TagThresholds: {field.name} must be finite and at least 0, got {value!r}")
        if self.window_s == 0 or self.cut_in_inside_m >= self.cut_in_beside_m:
            raise InvalidArgumentError(
                "TagThresholds: window_s must be above 0 and cut_in_inside_m below cut_in_beside_m, got "
                f"{self.window_s}, {self.cut_in_inside_m} and {self.cut_in_beside_m}"
            )


def find_runs(is_marked: BoolArray, times_s: Float64Array, *, merge_s: float) -> Int64Array:
    """Return the runs of marked frames; runs at most ``merge_s`` apart are merged.

    Args:
        is_marked: The mask, (F,).
        times_s: Times of the frames, increasing, (F,).
        merge_s: Longest time from the last frame of a run to the first of the next that merges them.

    Returns:
        First frame of each run and the one after its last, int64 (R, 2).
    """
    frames = np.flatnonzero(is_marked)
    if len(frames) == 0:
        return np.zeros((0, 2), np.int64)
    is_apart = (np.diff(frames) > 1) & (np.diff(times_s[frames]) > merge_s + 1e-9)
    breaks = np.flatnonzero(is_apart)
    firsts = frames[np.concatenate([[0], breaks + 1])]
    lasts = frames[np.concatenate([breaks, [len(frames) - 1]])]
    return np.column_stack([firsts, lasts + 1])


@dataclass(frozen=True, eq=False)
class SceneTags(ReadOnlyArrays):
    """The T tags of :data:`TAG_KINDS` of S scenes.

    Attributes:
        scenes: Index of each scene in its dataset, int64 (S,).
        is_known: Whether each tag is known; none is for damaged scenes, and some need a map, bool (S, T).
        starts: Start in ``frames`` of each scene and tag, scene by scene, and the end of the last one, int64
            (S * T + 1,).
        frames: First frame of each event, counted within its scene, and the one after its last, int64 (E, 2).
        errors: Faults of damaged scenes, by scene.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    is_known: BoolArray
    starts: Int64Array
    frames: Int64Array
    errors: dict[int, str]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.scenes), len(TAG_KINDS))
        require_shapes(self, is_known=shape, frames=(len(self.frames), 2))
        require_starts(self, "starts", num_parts=shape[0] * shape[1], end=len(self.frames))

    @classmethod
    def of_rows(
        cls, scenes: Sequence[int] | Int64Array, rows: Sequence[dict[str, Int64Array]], errors: dict[int, str]
    ) -> "SceneTags":
        """Return the table of scenes.

        Args:
            scenes: Indices of the scenes.
            rows: Frames (n, 2) of the events of each known tag, by name, for each scene.
            errors: Faults of damaged scenes, by scene.
        """
        none = np.zeros((0, 2), np.int64)
        parts = [row.get(name, none) for row in rows for name in _COLUMN_OF]
        known = [[name in row for name in _COLUMN_OF] for row in rows]
        return cls(
            scenes=np.array(scenes, np.int64),
            is_known=np.array(known, np.bool_).reshape(-1, len(TAG_KINDS)),
            starts=np.cumsum([0, *map(len, parts)], dtype=np.int64),
            frames=np.concatenate([none, *parts]),
            errors=dict(errors),
        )

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, T."""
        return tuple(_COLUMN_OF)

    @property
    def counts(self) -> Int64Array:
        """Number of events of each tag in each scene, 0 if unknown, int64 (S, T)."""
        counts: Int64Array = np.diff(self.starts).reshape(self.is_known.shape)
        return counts

    def has(self, name: str) -> BoolArray:
        """Return which scenes have a tag, False if unknown, bool (S,).

        Raises:
            InvalidArgumentError: There is no such tag.
        """
        return self.counts[:, _column(name)] > 0

    def frames_of(self, row: int, name: str) -> Int64Array:
        """Return the first frame of each event and the one after its last, (n, 2).

        Args:
            row: Row of the table, 0 to S - 1.
            name: Name of a tag.

        Raises:
            InvalidArgumentError: There is no such tag.
        """
        cell = row * len(TAG_KINDS) + _column(name)
        return self.frames[self.starts[cell] : self.starts[cell + 1]]

    def as_json(self) -> JsonObject:
        """Return the table as JSON: names and labels of the tags, and the events of each scene by name.

        ``unknown`` lists the unknown tags of scenes that have some.
        """
        unknown = {
            str(scene): [name for name, known in zip(self.names, row, strict=True) if not known]
            for scene, row in zip(self.scenes.tolist(), self.is_known.tolist(), strict=True)
            if not all(row)
        }
        scenes = {
            str(scene): {name: events.tolist() for name in self.names if len(events := self.frames_of(row, name))}
            for row, scene in enumerate(self.scenes.tolist())
        }
        return {
            "tags": [{"name": kind.name, "label": kind.label, "needs_map": kind.needs_map} for kind in TAG_KINDS],
            "scenes": scenes,
            "unknown": unknown,
            "error": {str(scene): text for scene, text in self.errors.items()},
        }


def _column(name: str) -> int:
    """Return the column of a tag."""
    if name not in _COLUMN_OF:
        raise InvalidArgumentError(f"there is no tag {name!r}; there are {', '.join(_COLUMN_OF)}")
    return _COLUMN_OF[name]
