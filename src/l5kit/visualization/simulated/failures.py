"""Failures of a drive: in which frames the AV did what costs it score, by the columns of the table of frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.time_to_collision import LookAhead
from l5kit.visualization.simulated.frame_table import FrameColumns

__all__ = ["FAILURE_KINDS", "Failure", "failed_metrics", "find_failures"]

FAILURE_KINDS: Final = (
    "collision_at_fault",
    "collision",
    "off_road",
    "wrong_direction",
    "time_to_collision",
    "speeding",
    "comfort",
)
"""Kinds of failures, the worst first."""

_FAILED_BELOW: Final = {
    "no_at_fault_collisions": 1.0,
    "drivable_area_compliance": 1.0,
    "making_progress": 1.0,
    "driving_direction_compliance": 1.0,
    "time_to_collision": 1.0,
    "speed_limit_compliance": 0.995,  # what is shown with two digits as less than 1
    "comfort": 1.0,
}
_OFF_ROAD_M: Final = 0.3
_BACKWARD_M: Final = 2.0
_SAME_FAILURE_FRAMES: Final = 10  # failures that are no farther apart than a second are one


@dataclass(frozen=True)
class Failure:
    """Frames of a scene in which the AV fails in one way.

    Attributes:
        kind: One of ``FAILURE_KINDS``.
        first_frame: Counted in the scene.
        last_frame: Likewise.
        track_id: With whom the AV collided; None for other kinds.
    """

    kind: str
    first_frame: int
    last_frame: int
    track_id: int | None = None


def failed_metrics(metrics: Mapping[str, float | None]) -> list[str]:
    """Return which metrics of a scene are not met; progress, which is a degree, is none of them."""
    values = {name: metrics.get(name) for name in _FAILED_BELOW}
    return [name for name, value in values.items() if value is not None and value < _FAILED_BELOW[name]]


def find_failures(columns: FrameColumns, first_frames: Mapping[str, int | None] | None = None) -> list[Failure]:
    """Return the failures of a scene, by frame.

    Args:
        columns: Of the table of frames; columns that it lacks give no failures.
        first_frames: For kinds whose columns are not there, the first frame, counted in the scene; None for never.
    """
    failures = _collisions(columns)
    for kind, is_failing in _failing_frames(columns).items():
        failures += [Failure(kind, first, last) for first, last in _spans(is_failing)]
    known = {"collision_at_fault", "collision"} if "collision_kind" in columns else set()
    known |= _failing_frames(columns).keys()
    for kind, frame in (first_frames or {}).items():
        if kind not in known and frame is not None:
            failures.append(Failure(kind, frame, frame))
    return sorted(failures, key=lambda failure: (failure.first_frame, FAILURE_KINDS.index(failure.kind)))


def _collisions(columns: FrameColumns) -> list[Failure]:
    kinds = columns.get("collision_kind", np.zeros(0))
    nothing = np.zeros(len(kinds))
    at_fault, tracks = columns.get("collision_at_fault", nothing), columns.get("collision_track", nothing + np.nan)
    return [
        Failure(
            "collision_at_fault" if at_fault[frame] > 0 else "collision",
            frame,
            frame,
            int(tracks[frame]) if np.isfinite(tracks[frame]) else None,
        )
        for frame in np.flatnonzero(kinds > 0).tolist()
    ]


def _failing_frames(columns: FrameColumns) -> dict[str, BoolArray]:
    """Return in which frames the AV fails, for the kinds whose column is there."""
    least_s = LookAhead().least_s
    tests: dict[str, tuple[str, float, int]] = {
        "off_road": ("distance_off_road_m", _OFF_ROAD_M, 1),
        "wrong_direction": ("backward_m", _BACKWARD_M, 1),
        "time_to_collision": ("time_to_collision_s", least_s, -1),
        "speeding": ("speed_excess_mps", 0.0, 1),
        "comfort": ("is_comfortable", 0.0, -1),
    }
    failing: dict[str, BoolArray] = {}
    for kind, (name, bound, sign) in tests.items():
        if name in columns:
            failing[kind] = _is_beyond(columns[name], bound, sign)
    if "speeding" in failing:
        failing["speeding"] &= columns["speed_excess_mps"] > 0.0
    return failing


def _is_beyond(values: Float64Array, bound: float, sign: int) -> BoolArray:
    """Return where values are at the bound or beyond it, which NaN is not."""
    beyond: BoolArray = values >= bound if sign > 0 else values <= bound
    return beyond


def _spans(is_failing: BoolArray) -> list[tuple[int, int]]:
    """Return first and last frame of each failure."""
    frames = np.flatnonzero(is_failing)
    if len(frames) == 0:
        return []
    breaks = np.flatnonzero(np.diff(frames) > _SAME_FAILURE_FRAMES)
    firsts, lasts = frames[np.append(0, breaks + 1)], frames[np.append(breaks, len(frames) - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
