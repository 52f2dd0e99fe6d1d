"""Everything of a batch of samples but where they come from, one array for each key."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from l5kit._types import Float64Array, FloatArray, Int64Array, NumericArray
from l5kit.errors import InvalidArgumentError, TrackNotFoundError
from l5kit.geometry.transform import compute_agent_transforms
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.log_windows import LogWindows
from l5kit.rasterization.rasterizer import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.context import Contexts
from l5kit.sampling.poses import StepTimes, Trajectories, Viewpoints, trajectories
from l5kit.sampling.tracks import TrackStates, as_track_ids, av_yaws, find_current, trace_av, trace_tracks

ALIASES = {"world_to_image": "raster_from_world"}
"""Keys of a sample whose values are those of another key."""


@dataclass(frozen=True)
class Targets:
    """Whom the samples of a batch are about, in the current frames.

    Attributes:
        track_ids: One track for each context, (B,), in the type of the agents' field; None for the AV.
        rows: Their rows of the agents, (B,); None for the AV.
        centroids_m: World positions, (B, 2) float64.
        yaws_rad: World headings, (B,) float64.
        extents_m: Length, width, height, (B, 3): float64 for the AV, the type of the agents' field for agents.
        world_from_agent: Their poses, (B, 3, 3) float64.
        viewpoints: Their frames, which all that is in a sample is relative to.
    """

    track_ids: NumericArray | None
    rows: Int64Array | None
    centroids_m: Float64Array
    yaws_rad: Float64Array
    extents_m: FloatArray
    world_from_agent: Float64Array
    viewpoints: Viewpoints

    @classmethod
    def of_states(
        cls,
        centroids_m: Float64Array,
        yaws_rad: Float64Array,
        extents_m: FloatArray,
        *,
        track_ids: NumericArray | None = None,
        rows: Int64Array | None = None,
    ) -> "Targets":
        """Return targets with the poses that follow from their positions and headings."""
        world_from_agent, agent_from_world = compute_agent_transforms(centroids_m, yaws_rad)
        viewpoints = Viewpoints(agent_from_world, yaws_rad)
        return cls(track_ids, rows, centroids_m, yaws_rad, extents_m, world_from_agent, viewpoints)


def perturb_contexts(contexts: Contexts, perturbation: Perturbation | None) -> None:
    """Move the AV in the frames of those contexts that have their whole future.

    Raises:
        InvalidArgumentError: The perturbation returned other numbers of frames.
    """
    num_future = contexts.future_frames.shape[1]
    if perturbation is None or num_future == 0:
        return
    for context in np.flatnonzero(contexts.num_future == num_future).tolist():
        history, future = (
            contexts.history_frames[context, : contexts.num_history[context]],
            contexts.future_frames[context],
        )
        moved_history, moved_future = perturbation.perturb(history, future)
        if len(moved_history) != len(history) or len(moved_future) != len(future):
            raise InvalidArgumentError(
                f"perturbation {perturbation!r} returned {len(moved_history)} history and {len(moved_future)} future "
                f"frames; it must return as many as it gets, {len(history)} and {len(future)}"
            )
        history[:], future[:] = moved_history, moved_future


def find_targets(contexts: Contexts, track_ids: NumericArray | None, filter_agents_threshold: float) -> Targets:
    """Return the AV, or one agent of each context, as targets; see :func:`find_agents`."""
    return find_av(contexts) if track_ids is None else find_agents(contexts, track_ids, filter_agents_threshold)


def find_av(contexts: Contexts) -> Targets:
    """Return the AV as the target of all contexts."""
    current = contexts.history_frames[:, 0]
    extent_m = (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, EGO_EXTENT_HEIGHT)
    centroids_m = current["ego_translation"][:, :2].astype(np.float64)
    return Targets.of_states(centroids_m, av_yaws(current), np.array([extent_m] * len(contexts)))


def find_agents(contexts: Contexts, track_ids: NumericArray, filter_agents_threshold: float) -> Targets:
    """Return agents as targets: each track's first row of the current frame that passes the label filter.

    Args:
        contexts: B contexts.
        track_ids: One track for each, (B,), in the type of the agents' field.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.

    Raises:
        TrackNotFoundError: A track is not in its current frame or does not pass the label filter.
    """
    found = find_current(contexts.agents, track_ids, filter_agents_threshold)
    if found.rows.min() < 0:
        missing = int(np.flatnonzero(found.rows < 0)[0])
        raise track_not_found(int(track_ids[missing]), int(found.rows[missing]), filter_agents_threshold)
    return Targets.of_states(found.centroids_m, found.yaws_rad, found.extents_m, track_ids=track_ids, rows=found.rows)


def ids_of_one_track(contexts: Contexts, track_id: int | None, filter_agents_threshold: float) -> NumericArray | None:
    """Return one track in the type of the agents' field, (1,); None for the AV.

    Raises:
        TrackNotFoundError: No row can hold it.
    """
    if track_id is None:
        return None
    track_ids = as_track_ids(contexts.agents.dtype, track_id)
    if track_ids is None:
        raise track_not_found(track_id, -1, filter_agents_threshold)
    return track_ids


def track_not_found(track_id: int, row: int, filter_agents_threshold: float) -> TrackNotFoundError:
    """Return the error for a track for which :func:`find_current` has a negative ``row``."""
    if row == -1:
        return TrackNotFoundError(f"track {track_id} is not among the agents of the current frame")
    return TrackNotFoundError(
        f"track {track_id} does not pass the label filter in the current frame: the summed probability of its "
        f"road user classes is not above filter_agents_threshold = {filter_agents_threshold}"
    )


def log_windows(contexts: Contexts, targets: Targets) -> LogWindows:
    """Return what rasters of the contexts show."""
    num_history, yaws_rad = contexts.history_frames.shape[1], targets.yaws_rad
    return LogWindows(
        frames=contexts.history_frames,
        num_frames=contexts.num_history,
        agents=contexts.agents.head(num_history),
        tl_faces=contexts.tl_faces.head(num_history),
        track_ids=targets.track_ids,
        positions_m=targets.centroids_m,
        yaws_rad=yaws_rad if targets.rows is None else yaws_rad.astype(contexts.agents.dtype["yaw"]),  # as stored
    )


def sample_columns(
    contexts: Contexts, targets: Targets, *, render_context: RenderContext, times: StepTimes
) -> dict[str, NumericArray]:
    """Return the trajectories and transforms of B samples, in the order of the keys of a sample.

    Args:
        contexts: What the samples are made of.
        targets: Whom they are about.
        render_context: Geometry of the raster, for the matrices.
        times: Times between steps.

    Returns:
        Arrays (B, ...); see :func:`l5kit.sampling.generate_agent_sample`.
    """
    world_from_agent, viewpoints = targets.world_from_agent, targets.viewpoints
    raster_from_world = render_context.raster_from_local @ viewpoints.agent_from_world
    found = trace_targets(contexts, targets, times)
    past, future = found.past, found.future
    columns: dict[str, Any] = {
        "target_positions": future.positions_m,
        "target_yaws": future.yaws_rad,
        "target_velocities": found.future_velocities_mps,
        "target_availabilities": future.availabilities,
        "history_positions": past.positions_m,
        "history_yaws": past.yaws_rad,
        "history_velocities": found.past_velocities_mps,
        "history_availabilities": past.availabilities,
        "history_extents": past.extents_m,
        "future_extents": future.extents_m,
        "world_to_image": raster_from_world,
        "raster_from_world": raster_from_world,
        "raster_from_agent": raster_from_world @ world_from_agent,
        "agent_from_world": viewpoints.agent_from_world,
        "world_from_agent": world_from_agent,
        "centroid": targets.centroids_m,
        "yaw": targets.yaws_rad,
        "extent": targets.extents_m,
    }
    if contexts.history_frames.shape[1] > 1:
        columns["curr_speed"] = found.speeds_mps
    return columns


def sample_of(columns: dict[str, Any], index: int) -> dict[str, Any]:
    """Return one sample of a batch: views of its arrays, the heading as a float."""
    sample = {key: column[index] for key, column in columns.items()}
    share_aliased(sample)
    sample["yaw"] = float(sample["yaw"])
    return sample


def share_aliased(sample: dict[str, Any]) -> None:
    """Make the keys of a sample that have two names hold the same object."""
    for alias, key in ALIASES.items():
        if alias in sample:
            sample[alias] = sample[key]


def trace_targets(contexts: Contexts, targets: Targets, times: StepTimes) -> Trajectories:
    """Return where the targets were and will be, as seen from where they are."""
    num_history = contexts.history_frames.shape[1]
    states = TrackStates.empty(len(contexts), num_history + contexts.future_frames.shape[1])
    if targets.track_ids is None:
        trace_av(contexts.history_frames, contexts.num_history, states)
        trace_av(contexts.future_frames, contexts.num_future, states, num_history)
    else:
        trace_tracks(contexts.agents, targets.track_ids, states)
    return trajectories(states, num_history, targets.viewpoints, times)
