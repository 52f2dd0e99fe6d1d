"""Tags of the motion of the AV alone: turns, standing, hard brakes."""

import numpy as np

from l5kit._types import Int64Array
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.scene_tags.frame_runs import find_runs, rates_around, runs_that_last
from l5kit.evaluation.scene_tags.tag_kinds import TagThresholds


def tag_motion(states: EgoStates, thresholds: TagThresholds) -> dict[str, Int64Array]:
    """Return the runs (R, 2) of the tags of one scene that are about the motion of the AV, by name.

    Args:
        states: One scene.
        thresholds: Of the definitions.
    """
    times_s, speeds_mps = states.timestamps_s[0], states.speeds_mps[0]
    is_slow = speeds_mps < thresholds.standing_mps
    slow = find_runs(is_slow, times_s, merge_s=thresholds.merge_s)
    is_braking = -rates_around(speeds_mps, times_s, thresholds.window_s) >= thresholds.brake_mps2 - 1e-9
    return {
        "left_turn": _find_turns(states, thresholds, sign=1.0),
        "right_turn": _find_turns(states, thresholds, sign=-1.0),
        "standing": runs_that_last(slow, times_s, thresholds.standing_s),
        "hard_brake": find_runs(is_braking, times_s, merge_s=thresholds.merge_s),
    }


def _find_turns(states: EgoStates, thresholds: TagThresholds, *, sign: float) -> Int64Array:
    """Return the runs of frames in which the heading changes steadily, and far enough."""
    times_s, yaws_rad = states.timestamps_s[0], sign * np.unwrap(states.yaws_rad[0])
    is_turning = np.degrees(rates_around(yaws_rad, times_s, thresholds.window_s)) >= thresholds.turn_rate_deg_s
    runs = find_runs(is_turning, times_s, merge_s=thresholds.merge_s)
    turned_deg = np.degrees(yaws_rad[runs[:, 1] - 1] - yaws_rad[runs[:, 0]])
    turns: Int64Array = runs[turned_deg >= thresholds.turn_deg - 1e-9]
    return turns
