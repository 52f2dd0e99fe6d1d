"""Score of windows: the terms of plans, those forgiven that the log itself fails, put together."""

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.metric import combine
from l5kit.evaluation.driving.window_scores import WindowScores
from l5kit.evaluation.epdms.details import WindowDetails
from l5kit.evaluation.epdms.terms import TERMS, ComparedWindows


def score_windows(
    plan: WindowDetails,
    *,
    rules: WindowDetails | None,
    human: WindowDetails | None,
    scenes: Int64Array,
    frames: Int64Array,
    planned: Float64Array,
) -> WindowScores:
    """Return how well W windows were planned.

    A term of which the logged drive has 0 in the same window counts as 1 (human filter): what is wrong there is most
    likely the map or a box.

    Args:
        plan: The plans, rolled out.
        rules: Those of the rule planner from the same states, whose progress is compared; None for the plans alone.
        human: The logged drives of the same seconds, followed by the same tracker; None for no filter.
        scenes: The scene of each window, as the result has it, (W,).
        frames: Its first frame, likewise, (W,).
        planned: Which part of it was planned, likewise, (W,).
    """
    terms = {term.name: term.of_windows(ComparedWindows(plan, rules)) for term in TERMS}
    if human is not None:
        for term in TERMS:
            values, of_human = terms[term.name], term.of_windows(ComparedWindows(human, rules))
            terms[term.name] = np.where((of_human == 0.0) & ~np.isnan(values), 1.0, values)
    return WindowScores(scenes, frames, planned, combine(terms, TERMS), terms)
