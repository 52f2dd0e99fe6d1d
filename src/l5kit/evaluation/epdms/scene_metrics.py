"""EPDMS as metrics of scenes: values of windows, assigned to their first frames, and the means."""

from collections.abc import Callable
from dataclasses import fields
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import Fault, Metric, MetricFacts, OfFrames
from l5kit.evaluation.driving.scene_score import SceneDetails, WindowScores
from l5kit.evaluation.epdms.terms import EPDMS, TERMS, WindowTerm

NUM_WINDOWS: Final = "epdms_windows"
"""Name of the metric that counts windows."""

SHARE_PLANNED: Final = "epdms_planned"
"""Name of the metric for the planned share of windows."""


def _in_frames(find: Callable[[WindowScores], Float64Array]) -> OfFrames:
    """Return a function that assigns values of windows to their first frames, with NaN in all others."""

    def of_frames(details: SceneDetails) -> Float64Array:
        windows = details.windows
        if windows is None:
            raise InvalidArgumentError(
                f"windows of the scenes are None, but metrics of {EPDMS} need them; score the windows first, as "
                "l5kit.closedloop.simulate does with score='epdms'"
            )
        values = np.full(details.states.is_there.shape, np.nan)
        values[windows.scenes, windows.frames] = find(windows)
        return values

    return of_frames


def _metric_of(term: WindowTerm) -> Metric:
    """Return the mean of a term over the windows of a scene; first frames of failing windows are faults."""
    facts = {field.name: getattr(term, field.name) for field in fields(MetricFacts)}
    if term.failure:
        facts |= {"fault": Fault("<", 1.0), "passes_from": 1.0}
    return Metric(**facts, of_frames=_in_frames(lambda windows: windows.terms[term.name]), of_scenes="mean")


EPDMS_METRICS: Final = (
    Metric(
        name=EPDMS,
        label="EPDMS",
        sentence="score of NAVSIM v2 of the plans of a scene, one every 0.5 s, each rolled out for 4 s",
        of_score=EPDMS,
        of_frames=_in_frames(lambda windows: windows.scores),
        of_scenes="mean",
    ),
    *map(_metric_of, TERMS),
    Metric(
        name=NUM_WINDOWS,
        label="Windows",
        sentence="number of windows that EPDMS averages",
        digits=0,
        range=(0.0, None),
        of_score=EPDMS,
        of_frames=_in_frames(lambda windows: np.ones(len(windows.scenes))),
        of_scenes="sum",
        over_scenes="sum",
    ),
    Metric(
        name=SHARE_PLANNED,
        label="Planned",
        sentence="planned share of the windows: 0 for driven windows; shorter plans continue as they end",
        of_score=EPDMS,
        of_frames=_in_frames(lambda windows: windows.planned),
        of_scenes="mean",
    ),
)
"""EPDMS, its terms and the number of windows, in the order of tables."""
