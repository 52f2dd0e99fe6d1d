"""Targets of windows: the AV or an agent of each, found in the current frames after the AV has been moved."""

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, NumericArray
from l5kit.data.windows import Targets, Windows
from l5kit.errors import InvalidArgumentError, TrackNotFoundError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.kinematic.recovery import AgentBoxes, RecoveryPerturbation
from l5kit.sampling.tracks import TrackStates, as_track_ids, av_yaws, trace_av, trace_tracks


def perturb_windows(windows: Windows, perturbation: Perturbation | None) -> None:
    """Move the AV in the frames of those windows that have their whole future.

    Raises:
        InvalidArgumentError: The perturbation returned other numbers of frames.
    """
    if perturbation is None or windows.num_future == 0:
        return
    if isinstance(perturbation, RecoveryPerturbation):
        boxes = [
            AgentBoxes(part, rows, windows.agents.starts[part], windows.agents.stops[part])
            for rows, part in windows.agents.parts()
        ]
        size_m = windows.ego_extent_m[:2]
        perturbation.move_frames(
            windows.frames, windows.counts, num_history=windows.num_history, size_m=size_m, agents=boxes
        )
        return
    for window in np.flatnonzero(windows.counts[1] == windows.num_future).tolist():
        history, future = windows.history(window), windows.future(window)
        moved_history, moved_future = perturbation.perturb(history, future)
        if len(moved_history) != len(history) or len(moved_future) != len(future):
            raise InvalidArgumentError(
                f"perturbation {perturbation!r} returned {len(moved_history)} history and {len(moved_future)} future "
                f"frames; it must return as many as it gets, {len(history)} and {len(future)}"
            )
        history[:], future[:] = moved_history, moved_future


def find_av(windows: Windows) -> Targets:
    """Return the AV as the target of all windows."""
    current = windows.current_frames
    extents_m = np.empty((len(windows), 3))
    extents_m[:] = windows.ego_extent_m
    return Targets(
        track_ids=None,
        rows=None,
        centroids_m=current["ego_translation"][:, :2].astype(np.float64),
        yaws_rad=av_yaws(current),
        extents_m=extents_m,
    )


def require_found(targets: Targets, filter_agents_threshold: float) -> Targets:
    """Return targets as they are, if all were found.

    Raises:
        TrackNotFoundError: A track is not in its current frame or does not pass the label filter.
    """
    if targets.rows is None or targets.track_ids is None or not np.count_nonzero(targets.rows < 0):
        return targets
    missing = int(np.flatnonzero(~targets.is_found)[0])
    raise _track_not_found(int(targets.track_ids[missing]), int(targets.rows[missing]), filter_agents_threshold)


def require_held(track_ids: ArrayLike, can_be_held: BoolArray) -> None:
    """Refuse tracks that no row of an agent can hold, such as negative ones.

    Raises:
        TrackNotFoundError: There is such a track.
    """
    missing = np.flatnonzero(~can_be_held)
    if len(missing):
        raise _track_not_found(int(np.asarray(track_ids, dtype=object)[missing[0]]), -1, 0.0)


def ids_of_one_track(windows: Windows, track_id: int | None, filter_agents_threshold: float) -> NumericArray | None:
    """Return one track in the type of the agents' field, (1,); None for the AV.

    Raises:
        TrackNotFoundError: No row can hold it.
    """
    if track_id is None:
        return None
    track_ids = as_track_ids(windows.agents.dtype, track_id)
    if track_ids is None:
        raise _track_not_found(track_id, -1, filter_agents_threshold)
    return track_ids


def trace_targets(windows: Windows, targets: Targets) -> TrackStates:
    """Return where the targets are in the frames of their windows, in the world."""
    states = TrackStates.empty(*windows.frames.shape)
    if targets.track_ids is None:
        num_history, extent_m = windows.num_history, windows.ego_extent_m
        trace_av(windows.frames, windows.counts, states, num_history=num_history, extent_m=extent_m)
    else:
        trace_tracks(windows.agents, targets.track_ids, states)
    return states


def _track_not_found(track_id: int, row: int, filter_agents_threshold: float) -> TrackNotFoundError:
    """Return the error for a track for which there is a negative ``row``."""
    if row == -1:
        return TrackNotFoundError(f"track {track_id} is not among the agents of the current frame")
    return TrackNotFoundError(
        f"track {track_id} does not pass the label filter in the current frame: the summed probability of its "
        f"road user classes is not above filter_agents_threshold = {filter_agents_threshold}"
    )
