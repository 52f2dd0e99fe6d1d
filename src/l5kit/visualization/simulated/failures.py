"""Failures of a drive: in which frames the AV does what costs it score, by the columns of the table of frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.time_to_collision import LookAhead
from l5kit.visualization.simulated.frame_table import FrameColumns

__all__ = ["FAILURE_KINDS", "Failure", "failed_metrics", "find_failures"]

FAILURE_KINDS: Final = {
    "collision_at_fault": "no_at_fault_collisions",
    "collision": "no_at_fault_collisions",
    "appeared_close": "no_at_fault_collisions",
    "off_road": "drivable_area_compliance",
    "wrong_direction": "driving_direction_compliance",
    "time_to_collision": "time_to_collision",
    "speeding": "speed_limit_compliance",
    "comfort": "comfort",
}
"""Kinds of failures, the worst first, and the metric that each belongs to; who appears close is a fault of the log."""

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
_SAME_FAILURE_S: Final = 1.0 + 1e-3  # failures that are no farther apart than a second are one, and times jitter


@dataclass(frozen=True)
class Failure:
    """Frames of a scene in which the AV fails in one way.

    Attributes:
        kind: One of ``FAILURE_KINDS``.
        first_frame: Counted in the scene.
        last_frame: Likewise.
        track_id: With whom the AV collides, or who appears close; None for other kinds.
    """

    kind: str
    first_frame: int
    last_frame: int
    track_id: int | None = None


def failed_metrics(metrics: Mapping[str, float | None]) -> list[str]:
    """Return which metrics of a scene are not met; progress, which is a degree, is none of them."""
    values = {name: metrics.get(name) for name in _FAILED_BELOW}
    return [name for name, value in values.items() if value is not None and value < _FAILED_BELOW[name]]


def find_failures(
    columns: FrameColumns,
    metrics: Mapping[str, float | None],
    *,
    tracks: Sequence[int | None],
    times_s: Float64Array,
    appeared: Sequence[int | None] = (),
) -> list[Failure]:
    """Return the failures of a scene, by frame.

    Args:
        columns: Of the table of frames; those that it lacks give no failures.
        metrics: The metrics of the scene; those that do not apply give no failures.
        tracks: With whom the AV collides in each frame, where there are columns.
        times_s: When the frames are, seconds, (F,).
        appeared: Who appears close ahead in each frame; none where that is not known.
    """
    failures = _collisions(columns, tracks)
    failures += [Failure("appeared_close", at, at, track) for at, track in enumerate(appeared) if track is not None]
    for kind, is_failing in _failing_frames(columns).items():
        failures += [Failure(kind, first, last) for first, last in _spans(is_failing, times_s)]
    kinds = list(FAILURE_KINDS)
    failures = [failure for failure in failures if metrics.get(FAILURE_KINDS[failure.kind]) is not None]
    return sorted(failures, key=lambda failure: (failure.first_frame, kinds.index(failure.kind)))


def _collisions(columns: FrameColumns, tracks: Sequence[int | None]) -> list[Failure]:
    counts = columns.get("collisions", np.zeros(0))
    at_fault = columns.get("collision_at_fault", np.full(len(counts), np.nan))
    return [
        Failure("collision_at_fault" if at_fault[frame] > 0 else "collision", frame, frame, tracks[frame])
        for frame in np.flatnonzero(counts > 0).tolist()
    ]


def _failing_frames(columns: FrameColumns) -> dict[str, BoolArray]:
    """Return in which frames the AV fails; never where a value or a column is not there."""
    unknown = np.full(len(next(iter(columns.values()), ())), np.nan)
    values = {name: columns.get(name, unknown) for name in _WATCHED}
    return {
        "off_road": values["distance_off_road_m"] >= _OFF_ROAD_M,
        "wrong_direction": values["way_along_lanes_m"] <= -_BACKWARD_M,
        "time_to_collision": values["time_to_collision_s"] <= LookAhead().least_s,
        "speeding": values["speed_excess_mps"] > 0.0,
        "comfort": values["is_comfortable"] == 0.0,
    }


_WATCHED: Final = (
    "distance_off_road_m",
    "way_along_lanes_m",
    "time_to_collision_s",
    "speed_excess_mps",
    "is_comfortable",
)


def _spans(is_failing: BoolArray, times_s: Float64Array) -> list[tuple[int, int]]:
    """Return first and last frame of each failure."""
    frames = np.flatnonzero(is_failing)
    if len(frames) == 0:
        return []
    breaks = np.flatnonzero(np.diff(times_s[frames]) > _SAME_FAILURE_S)
    firsts, lasts = frames[np.append(0, breaks + 1)], frames[np.append(breaks, len(frames) - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
