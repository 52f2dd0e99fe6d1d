"""Windows of driven scenes: which frames they begin in, and what was driven before and in them."""

from dataclasses import dataclass, replace

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.epdms.plan_windows import STEP_S, EpdmsParams
from l5kit.simulation.engine.driven_scenes import DrivenScenes, ScoredDrives
from l5kit.simulation.engine.scene_batch import EgoLog
from l5kit.simulation.engine.starting import states_of_poses
from l5kit.simulation.vehicle_models import VehicleStates


@dataclass(frozen=True, eq=False)
class WindowStarts:
    """Where W windows of S scenes of one length begin, scene by scene, ascending in each.

    Attributes:
        rows: The scene of each, counted among the S, (W,).
        scenes: The same, counted in the batch, (W,).
        frames: The first frame, counted from the start of the simulation, (W,).
        scene_frames: The same, counted in the scene of the log, (W,).
        following: The window of the same scene a stride later, -1 for none, (W,).
    """

    rows: Int64Array
    scenes: Int64Array
    frames: Int64Array
    scene_frames: Int64Array
    following: Int64Array

    def __len__(self) -> int:
        return len(self.rows)


def find_window_starts(driven: DrivenScenes, drives: ScoredDrives, params: EpdmsParams) -> WindowStarts:
    """Return all windows of scenes that have their past and their future, one every stride from the start on."""
    num_frames = drives.details.states.is_there.shape[1]
    # the last window ends with the last frame; before the first one there may be frames that were not simulated
    grid = np.arange(0, max(num_frames - params.num_steps, 0), params.num_between)
    starts = driven.batch.starts[drives.scenes]
    rows, columns = np.nonzero(starts[:, None] + grid >= params.num_past)
    frames = grid[columns]
    is_last = np.append(np.diff(rows) != 0, True)[: len(rows)]
    following = np.where(is_last, -1, np.arange(1, len(rows) + 1))
    return WindowStarts(rows, drives.scenes[rows], frames, starts[rows] + frames, following)


def driven_in_all_frames(driven: DrivenScenes, drives: ScoredDrives) -> EgoStates:
    """Return the AV in all frames of S scenes up to the end of the simulation, before its start as logged, (S, any)."""
    states, logged = drives.details.states, driven.batch.logged_motion
    starts, num_frames = driven.batch.starts[drives.scenes], states.is_there.shape[1]
    end = int((starts + num_frames).max())
    whole = replace(
        logged,
        timestamps_s=logged.timestamps_s[drives.scenes, :end].copy(),
        is_there=np.arange(end) < (starts + num_frames)[:, None],
        positions_m=logged.positions_m[drives.scenes, :end].copy(),
        yaws_rad=logged.yaws_rad[drives.scenes, :end].copy(),
        speeds_mps=logged.speeds_mps[drives.scenes, :end].copy(),
        accelerations_mps2=logged.accelerations_mps2[drives.scenes, :end].copy(),
    )
    # from the start on as it was driven
    frames = starts[:, None] + np.arange(num_frames)
    rows, arrays = np.arange(len(starts))[:, None], {}
    for name in ("positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2"):
        arrays[name] = getattr(whole, name).copy()
        arrays[name][rows, frames] = getattr(states, name)
    return replace(whole, **arrays)


def present_states(driven: DrivenScenes, whole: EgoStates, window_starts: WindowStarts) -> VehicleStates:
    """Return the AVs in the first frames of windows, with the steering of the vehicle model where there is one.

    Args:
        driven: The scenes.
        whole: The AVs in all frames, as :func:`driven_in_all_frames` returns them.
        window_starts: The windows.
    """
    log = EgoLog(whole.is_there, whole.timestamps_s, whole.positions_m, whole.yaws_rad)
    length_m = float(driven.batch.facts.ego_extent_m[0])
    states, _ = states_of_poses(log, window_starts.rows, window_starts.scene_frames, length_m=length_m)
    if driven.motion is None:
        return states
    return replace(
        states,
        speeds_mps=np.copysign(driven.motion.speeds_mps[window_starts.scenes, window_starts.frames], states.speeds_mps),
        accelerations_mps2=driven.motion.accelerations_mps2[window_starts.scenes, window_starts.frames, 0],
        steering_rad=driven.motion.steering_rad[window_starts.scenes, window_starts.frames],
    )


def with_even_times(states: EgoStates, first: int) -> EgoStates:
    """Return states whose times are steps of a window, of which the present one is 0; ``first`` is the first step."""
    times_s: Float64Array = STEP_S * np.arange(first, first + states.is_there.shape[1])
    return replace(states, timestamps_s=np.broadcast_to(times_s, states.is_there.shape).copy())
