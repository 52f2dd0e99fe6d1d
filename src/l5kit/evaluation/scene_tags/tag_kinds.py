"""Kinds of tags of scenes, and the thresholds that their definitions have."""

import math
from dataclasses import dataclass, fields

from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class TagKind:
    """A tag that scenes may have.

    Attributes:
        name: As columns are called.
        label: As people read it.
        needs_map: Whether it is known only with a semantic map.
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


@dataclass(frozen=True)
class TagThresholds:
    """What the definitions of tags measure against.

    Attributes:
        window_s: Rates of heading and speed are means over this time around a frame.
        merge_s: What happens again after no longer than this is one event.
        turn_deg: Change of heading of a turn, from its first frame to its last.
        turn_rate_deg_s: The AV turns while its heading changes at least as fast.
        standing_mps: The AV stands while it is slower.
        standing_s: It stands for at least as long.
        brake_mps2: Mean deceleration of a hard brake, at least.
        moving_mps: Road users, and the AV, move from this speed on.
        close_gap_m: Gap between the boxes of a close pass, below.
        passing_mps: Relative speed of a close pass, at least.
        vulnerable_gap_m: Gap to a pedestrian or cyclist who is near, below.
        cut_in_ahead_m: Gap along the way of the AV to whom cuts in, at most.
        cut_in_s: Time in which somebody gets from beside the way into it, at most.
        cut_in_beside_m: Distance of a centre from the way of the AV from which on it is beside it.
        cut_in_inside_m: Distance of a centre from the way up to which it is in it.
        same_way_deg: Headings that differ by no more go the same way.
        light_ahead_m: Way from the front of the AV to the place of a red light, at most: the end of a lane that leads
            to a junction, or the start of a lane in one, whichever the light rules.
        light_behind_m: Way of the centre of the AV on a lane of a junction with a red light, at most.
        lane_hold_s: Time on the lanes before and after a lane change, at least.
        crossing_deg: Headings of those who cross differ at least by this.
        crossing_s: Time between the AV and another at the same place, at most: the post-encroachment time.

    Raises:
        InvalidArgumentError: A threshold is negative or not finite, or one is beside the way and in it at once.
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
