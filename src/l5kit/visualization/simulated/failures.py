"""Failures of a drive: in which frames the AV does what costs it score, by the columns of the table of frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.simulation.folder.frame_table import FrameColumns

_AT_FAULT: Final = "collision_at_fault"
_MEETINGS: Final = {
    _AT_FAULT: "Collision, at fault",
    "collision": "Collision, not at fault",
    "appeared_close": "Appears close ahead in the log",
}
"""Kinds of failures with somebody, the worst first; who appears close is a fault of the log."""

_OF_MEETINGS: Final = "no_at_fault_collisions"
"""The metric that they belong to."""

_SAME_FAILURE_S: Final = 1.0 + 1e-3  # failures that are no farther apart than a second are one, and times jitter


@dataclass(frozen=True)
class Failure:
    """Frames of a scene in which the AV fails in one way.

    Attributes:
        kind: What it is called in data.
        name: What it is called for people.
        first_frame: Counted in the scene.
        last_frame: Likewise.
        track_id: With whom the AV collides, or who appears close; None for other kinds.
    """

    kind: str
    name: str
    first_frame: int
    last_frame: int
    track_id: int | None = None


def find_failures(
    columns: FrameColumns,
    values: Mapping[str, float | None],
    metrics: Sequence[MetricFacts],
    *,
    tracks: Sequence[int | None],
    times_s: Float64Array,
    appeared: Sequence[int | None] = (),
) -> list[Failure]:
    """Return the failures of a scene, by frame, the worst kinds first.

    Args:
        columns: Of the table of frames; those that it lacks give no failures.
        values: Of the metrics in the scene; those that do not apply give no failures.
        metrics: The metrics.
        tracks: With whom the AV collides in each frame, where there are columns.
        times_s: When the frames are, seconds, (F,).
        appeared: Who appears close ahead in each frame; none where that is not known.
    """
    failures = []
    if values.get(_OF_MEETINGS) is not None:
        # without a column of faults no collision is at fault, as NaN is not above 0
        counts = columns.get("collisions", np.zeros(0))
        at_fault = columns.get("collision_at_fault", np.full(len(counts), np.nan))
        for frame in np.flatnonzero(counts > 0).tolist():
            kind = _AT_FAULT if at_fault[frame] > 0 else "collision"
            failures.append(_meeting(kind, frame, tracks[frame]))
        failures += [_meeting("appeared_close", at, track) for at, track in enumerate(appeared) if track is not None]
    kinds = list(_MEETINGS)
    for metric in metrics:
        fault, column = metric.fault, columns.get(metric.column or "")
        if fault is None or column is None or fault.kind == _AT_FAULT or values.get(metric.name) is None:
            continue
        kinds.append(fault.kind)
        spans = _spans(fault.find(column), times_s)
        failures += [Failure(fault.kind, fault.name, first, last) for first, last in spans]
    return sorted(failures, key=lambda failure: (failure.first_frame, kinds.index(failure.kind)))


def _meeting(kind: str, frame: int, track: int | None) -> Failure:
    return Failure(kind, _MEETINGS[kind], frame, frame, track)


def _spans(is_failing: BoolArray, times_s: Float64Array) -> list[tuple[int, int]]:
    """Return first and last frame of each failure."""
    frames = np.flatnonzero(is_failing)
    if len(frames) == 0:
        return []
    breaks = np.flatnonzero(np.diff(times_s[frames]) > _SAME_FAILURE_S)
    firsts, lasts = frames[np.append(0, breaks + 1)], frames[np.append(breaks, len(frames) - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
