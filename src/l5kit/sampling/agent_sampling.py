"""Make one training sample: the past, the picture and the future of the AV or of an agent."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from l5kit._types import Float32Array, Float64Array, NumericArray, RecordArray
from l5kit.data.filter import _get_label_filter, filter_agents_by_labels
from l5kit.data.records import AGENT_DTYPE, TL_FACE_DTYPE
from l5kit.errors import InvalidArgumentError, TrackNotFoundError
from l5kit.geometry.transform import compute_agent_pose, rotation33_as_yaw
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import (
    EGO_EXTENT_HEIGHT,
    EGO_EXTENT_LENGTH,
    EGO_EXTENT_WIDTH,
    Rasterizer,
)
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.context import AgentContext, FrameRows, cut_agent_context, rebase_intervals
from l5kit.sampling.legacy_call import accept_call_of_1_0
from l5kit.sampling.poses import RelativePoses, TrackSeenFrom, first_rows_of_track, relative_poses

_SHORTEST_STEP_TIME_S = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class AgentOfInterest:
    """Whom a sample is about, in the current frame.

    Attributes:
        centroid_m: World position, (2,) float64.
        yaw_rad: World heading.
        extent_m: Length, width, height, (3,): float64 for the AV, float32 for an agent.
        row: Its row of the agents; None for the AV.
    """

    centroid_m: Float64Array
    yaw_rad: float
    extent_m: NumericArray
    row: Any


def get_agent_context(
    state_index: int,
    frames: Any,
    agents: Any,
    tl_faces: Any,
    history_num_frames: int,
    future_num_frames: int,
) -> tuple[
    RecordArray,
    RecordArray,
    list[RecordArray],
    list[RecordArray],
    list[RecordArray],
    list[RecordArray],
]:
    """Return the frames around a frame, with their agents and traffic light faces.

    Args:
        state_index: The current frame, counted in ``frames``.
        frames: Frames of one scene.
        agents: All agents that the intervals of ``frames`` point to.
        tl_faces: All traffic light faces likewise; may be empty.
        history_num_frames: Past frames, the current one not counted.
        future_num_frames: Future frames.

    Returns:
        History frames (the current one first), future frames, and the agents of each history frame, of each future
        frame, the faces of each history frame and of each future frame. All are copies; the intervals of the frames
        point into the concatenated rows in the order of time.

    Raises:
        IndexError: ``state_index`` is not a frame of the scene.
    """
    context = cut_agent_context(
        state_index,
        frames,
        agents,
        tl_faces,
        history_num_frames=history_num_frames,
        future_num_frames=future_num_frames,
    )
    rebase_intervals(context.history_frames, agents=context.history_agents, tl_faces=context.history_tl_faces)
    rebase_intervals(context.future_frames, agents=context.future_agents, tl_faces=context.future_tl_faces)
    return (
        context.history_frames,
        context.future_frames,
        [rows.copy() for rows in context.history_agents.per_frame()],
        [rows.copy() for rows in context.future_agents.per_frame()],
        [rows.copy() for rows in context.history_tl_faces.per_frame()],
        [rows.copy() for rows in context.future_tl_faces.per_frame()],
    )


def compute_agent_velocity(
    history_positions_m: Float32Array, future_positions_m: Float32Array, step_time: float
) -> tuple[Float32Array, Float32Array]:
    """Return velocities as differences of successive positions.

    Missing positions are zeros, so that the velocity beside a gap means nothing.

    Args:
        history_positions_m: (H + 1, 2), the current position first.
        future_positions_m: (F, 2), the nearest first.
        step_time: Seconds between two positions.

    Returns:
        Velocities in m/s of the history (H, 2) and of the future (F, 2), float32.

    Raises:
        InvalidArgumentError: ``step_time`` is not positive, or a number of frames is negative.
    """
    step_time_s = _checked_step_time(step_time)
    return _history_velocities(history_positions_m, step_time_s), _future_velocities(future_positions_m, step_time_s)


def _checked_step_time(step_time: float) -> float:
    """Return a positive time as a Python float, beside which float32 arrays stay float32."""
    if not step_time > _SHORTEST_STEP_TIME_S:
        raise InvalidArgumentError(f"step_time must be a positive number of seconds, got {step_time}")
    return float(step_time)


def _history_velocities(positions_m: Float32Array, step_time_s: float) -> Float32Array:
    return ((positions_m[:-1] - positions_m[1:]) / step_time_s).astype(np.float32)


def _future_velocities(positions_m: Float32Array, step_time_s: float) -> Float32Array:
    steps_m = positions_m.copy()
    steps_m[1:] -= positions_m[:-1]
    return (steps_m / step_time_s).astype(np.float32)


def get_relative_poses(
    num_frames: int,
    frames: RecordArray,
    selected_track_id: int | None,
    agents: list[RecordArray],
    agent_from_world: Float64Array,
    current_agent_yaw: float,
) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
    """Return where a track is in each frame, as seen from a pose.

    Args:
        num_frames: Length of the result; frames that are missing at the end hold zeros.
        frames: At most ``num_frames`` frames.
        selected_track_id: The track; None for the AV.
        agents: Agents of each frame.
        agent_from_world: The pose, (3, 3).
        current_agent_yaw: World heading of the pose, radians.

    Returns:
        Positions (N, 2) in metres, yaws (N, 1) in [-pi, pi), extents (N, 2) in metres and availabilities (N,), float32.

    Raises:
        IndexError: There are more frames than ``num_frames``.
    """
    # a Python float, beside which float32 arrays stay float32
    track = TrackSeenFrom(selected_track_id, agent_from_world, float(current_agent_yaw))
    poses = relative_poses(num_frames, frames, _as_frame_rows(agents), track)
    return poses.positions_m, poses.yaws_rad, poses.extents_m, poses.availabilities


def _as_frame_rows(agents: list[RecordArray]) -> FrameRows:
    counts = np.array([len(rows) for rows in agents], dtype=np.int64)
    stops = np.cumsum(counts)
    rows = np.concatenate(agents) if agents else np.empty(0, dtype=AGENT_DTYPE)
    rows.setflags(write=False)
    return FrameRows(rows, stops - counts, stops)


@accept_call_of_1_0
def generate_agent_sample(
    state_index: int,
    frames: Any,
    agents: Any,
    tl_faces: Any,
    selected_track_id: int | None,
    render_context: RenderContext,
    history_num_frames: int,
    future_num_frames: int,
    step_time: float,
    filter_agents_threshold: float,
    rasterizer: Rasterizer | None,
    perturbation: Perturbation | None = None,
    history_step_size: int = 1,
    future_step_size: int = 1,
) -> dict[str, Any]:
    """Return the sample of the AV or of an agent in one frame.

    The call documented for L5Kit 1.0 is accepted too: ``(state_index, frames, all_agents, selected_track_id,
    raster_size, pixel_size, ego_center, history_num_frames, history_step_size, future_num_frames, future_step_size,
    filter_agents_threshold, rasterizer=None, perturbation=None)``; it draws no traffic lights.

    Args:
        state_index: The current frame, counted in ``frames``.
        frames: Frames of one scene.
        agents: All agents that the intervals of ``frames`` point to.
        tl_faces: All traffic light faces likewise; may be empty, or None for none.
        selected_track_id: The agent of interest; None for the AV.
        render_context: Geometry of the raster, for the returned matrices.
        history_num_frames: Past steps h, the current frame not counted.
        future_num_frames: Future steps F.
        step_time: Seconds between two recorded frames.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
        rasterizer: Draws the picture; None for a sample without one.
        perturbation: Moves the AV's frames, if all future frames are there.
        history_step_size: Recorded frames per past step.
        future_step_size: Recorded frames per future step.

    Returns:
        ``frame_index``; ``image`` (H, W, C); ``target_positions`` (F, 2) m, ``target_yaws`` (F, 1) rad,
        ``target_velocities`` (F, 2) m/s, ``target_availabilities`` (F,), ``history_positions`` (h + 1, 2),
        ``history_yaws`` (h + 1, 1), ``history_velocities`` (h, 2), ``history_availabilities`` (h + 1,),
        ``history_extents`` (h + 1, 2) m, ``future_extents`` (F, 2), all float32 and in the frame of the agent of
        interest; ``raster_from_world`` (also as ``world_to_image``), ``raster_from_agent``, ``agent_from_world``,
        ``world_from_agent``, float64 (3, 3); ``centroid`` (2,) m and ``yaw`` rad in the world; ``extent`` (3,) m;
        ``curr_speed`` m/s, if h > 0.

    Raises:
        TrackNotFoundError: The agent is not in the current frame or does not pass the label filter.
        IndexError: ``state_index`` is not a frame of the scene.
        InvalidArgumentError: ``step_time`` is not positive, or a number of frames is negative.
    """
    step_time_s = _checked_step_time(step_time)
    history_num_frames = _as_count("history_num_frames", history_num_frames)
    future_num_frames = _as_count("future_num_frames", future_num_frames)
    context = cut_agent_context(
        state_index,
        frames,
        agents,
        np.empty(0, dtype=TL_FACE_DTYPE) if tl_faces is None else tl_faces,
        history_num_frames=history_num_frames,
        future_num_frames=future_num_frames,
        history_step_size=history_step_size,
        future_step_size=future_step_size,
    )
    history_frames, future_frames = _perturb(context, perturbation, future_num_frames)
    target = find_agent_of_interest(history_frames, context.history_agents, selected_track_id, filter_agents_threshold)
    image = _draw(rasterizer, history_frames, context, target)
    world_from_agent = compute_agent_pose(target.centroid_m, target.yaw_rad)
    agent_from_world: Float64Array = np.linalg.inv(world_from_agent).astype(np.float64, copy=False)
    track = TrackSeenFrom(selected_track_id, agent_from_world, target.yaw_rad)
    history = relative_poses(history_num_frames + 1, history_frames, context.history_agents, track)
    future = relative_poses(future_num_frames, future_frames, context.future_agents, track)
    sample = {"frame_index": state_index} | ({} if image is None else {"image": image})
    sample |= _trajectories(history, future, step_time_s * history_step_size, step_time_s * future_step_size)
    return sample | _matrices(render_context, target, world_from_agent, agent_from_world) | _speed(sample)


def find_agent_of_interest(
    history_frames: RecordArray, agents: FrameRows, track_id: int | None, filter_agents_threshold: float
) -> AgentOfInterest:
    """Return whom a sample is about: the AV if ``track_id`` is None, else the track in the current frame.

    Raises:
        TrackNotFoundError: The track is not in the current frame or does not pass the label filter.
    """
    if track_id is None:
        return AgentOfInterest(
            centroid_m=history_frames[0]["ego_translation"][:2].astype(np.float64),
            yaw_rad=rotation33_as_yaw(history_frames[0]["ego_rotation"]),
            extent_m=np.array((EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, EGO_EXTENT_HEIGHT)),
            row=None,
        )
    row = _row_of_track(agents, track_id, filter_agents_threshold)
    return AgentOfInterest(
        centroid_m=row["centroid"].astype(np.float64),
        yaw_rad=float(row["yaw"]),
        extent_m=row["extent"].copy(),
        row=row,
    )


def _row_of_track(agents: FrameRows, track_id: int, filter_agents_threshold: float) -> Any:
    """Return a track's first row of the current frame that passes the label filter."""
    first = int(first_rows_of_track(agents.head(1), track_id)[0])
    if first < 0:
        raise TrackNotFoundError(f"track {track_id} is not among the agents of the current frame")
    if _get_label_filter(agents.rows["label_probabilities"][first : first + 1], filter_agents_threshold)[0]:
        return agents.rows[first]
    current = agents.rows[first : agents.stops[0]]
    kept = filter_agents_by_labels(current[current["track_id"] == track_id], filter_agents_threshold)
    if len(kept) == 0:
        raise TrackNotFoundError(
            f"track {track_id} does not pass the label filter in the current frame: the summed probability of its "
            f"road user classes is not above filter_agents_threshold = {filter_agents_threshold}"
        )
    return kept[0]


def _as_count(argument: str, value: int) -> int:
    """Return a number of frames as a Python int: small NumPy integers would overflow in what follows."""
    count = operator.index(value)
    if count < 0:
        raise InvalidArgumentError(f"{argument} must be 0 or more, got {value}")
    return count


def _perturb(
    context: AgentContext, perturbation: Perturbation | None, future_num_frames: int
) -> tuple[RecordArray, RecordArray]:
    """Return the frames with the AV moved, if there is a perturbation and the future is complete."""
    frames = context.history_frames, context.future_frames
    if perturbation is None or future_num_frames == 0 or len(context.future_frames) != future_num_frames:
        return frames
    return perturbation.perturb(*frames)


def _draw(
    rasterizer: Rasterizer | None, history_frames: RecordArray, context: AgentContext, target: AgentOfInterest
) -> NumericArray | None:
    """Return the picture, channels last (a view of channel-first memory)."""
    if rasterizer is None:
        return None
    window = history_frames, context.history_agents.per_frame(), context.history_tl_faces.per_frame(), target.row
    if not hasattr(rasterizer, "rasterize_planar"):  # a user's own, not derived from Rasterizer
        return rasterizer.rasterize(*window)
    return rasterizer.rasterize_planar(*window).transpose(1, 2, 0)


def _trajectories(
    history: RelativePoses, future: RelativePoses, history_step_s: float, future_step_s: float
) -> dict[str, Any]:
    return {
        "target_positions": future.positions_m,
        "target_yaws": future.yaws_rad,
        "target_velocities": _future_velocities(future.positions_m, future_step_s),
        "target_availabilities": future.availabilities,
        "history_positions": history.positions_m,
        "history_yaws": history.yaws_rad,
        "history_velocities": _history_velocities(history.positions_m, history_step_s),
        "history_availabilities": history.availabilities,
        "history_extents": history.extents_m,
        "future_extents": future.extents_m,
    }


def _matrices(
    render_context: RenderContext,
    target: AgentOfInterest,
    world_from_agent: Float64Array,
    agent_from_world: Float64Array,
) -> dict[str, Any]:
    raster_from_world = render_context.raster_from_local @ agent_from_world
    return {
        "world_to_image": raster_from_world,
        "raster_from_world": raster_from_world,
        "raster_from_agent": raster_from_world @ world_from_agent,
        "agent_from_world": agent_from_world,
        "world_from_agent": world_from_agent,
        "centroid": target.centroid_m,
        "yaw": target.yaw_rad,
        "extent": target.extent_m,
    }


def _speed(sample: dict[str, Any]) -> dict[str, Any]:
    velocities_mps = sample["history_velocities"]
    return {"curr_speed": np.linalg.norm(velocities_mps[0])} if len(velocities_mps) else {}
