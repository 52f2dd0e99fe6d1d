"""Raster sample of the AV or of an agent: past, raster and future."""

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from l5kit._types import Float32Array, Float64Array, RecordArray, Records, Sample
from l5kit.configs.parameters import SamplingParams
from l5kit.data.index.windows import CurrentFrames, WindowRows, Windows, WindowSteps, cut_windows
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.records import AGENT_DTYPE, AGENT_INTERVAL, FACE_INTERVAL, TL_FACE_DTYPE
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.samplers import AgentSampler
from l5kit.sampling.tracks import TrackStates, as_track_ids, relative_poses, trace_av, trace_tracks

P = ParamSpec("P")
R = TypeVar("R")

_STEP_TIME_S = 0.1
_KEYWORDS_OF_1_0 = frozenset({"all_agents", "raster_size", "pixel_size", "ego_center"})


def accept_call_of_1_0(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function with the arguments of ``generate_agent_sample`` that also accepts those documented for 1.0."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        # The fourth argument decides: in 1.0 it is a track id or None; now it is faces, and None only before a track
        # id.
        is_of_1_0 = len(args) > 3 and _is_track_id(args[3]) and not (len(args) > 4 and _is_track_id(args[4]))
        if not is_of_1_0 and _KEYWORDS_OF_1_0.isdisjoint(kwargs):
            return function(*args, **kwargs)
        bound = inspect.signature(_call_of_1_0).bind(*args, **kwargs)
        bound.apply_defaults()

        # no faces, and the origin at the top, as in 1.0
        new: dict[str, Any] = dict(bound.arguments)
        new["agents"] = new.pop("all_agents")
        new["tl_faces"] = np.empty(0, dtype=TL_FACE_DTYPE)
        size, pixel, center = (np.asarray(new.pop(name)) for name in ("raster_size", "pixel_size", "ego_center"))
        new["render_context"] = RenderContext(size, pixel, center, False)
        new["step_time"] = _STEP_TIME_S
        return function(**new)  # type: ignore[call-arg]

    return wrapper


def _is_track_id(value: object) -> bool:
    return value is None or isinstance(value, (int, np.integer))


def _call_of_1_0(
    state_index: int,
    frames: object,
    all_agents: object,
    selected_track_id: int | None,
    raster_size: object,
    pixel_size: object,
    ego_center: object,
    history_num_frames: int,
    history_step_size: int,
    future_num_frames: int,
    future_step_size: int,
    filter_agents_threshold: float,
    rasterizer: object = None,
    perturbation: object = None,
) -> None:
    """Signature documented for 1.0; the function is never called."""


_SHORTEST_STEP_TIME_S = float(np.finfo(np.float64).eps)


def get_agent_context(
    state_index: int,
    frames: Records,
    agents: Records,
    tl_faces: Records,
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
        tl_faces: All traffic light faces that they point to; may be empty.
        history_num_frames: Past frames, excluding the current one.
        future_num_frames: Future frames.

    Returns:
        History frames (the current one first), future frames, agents of each history frame, agents of each future
        frame, faces of each history frame and faces of each future frame. All are copies; the intervals of the frames
        point into their rows, concatenated in chronological order.

    Raises:
        IndexError: ``state_index`` is not a frame of the scene.
    """
    steps = WindowSteps(operator.index(history_num_frames), operator.index(future_num_frames))
    windows = cut_windows(CurrentFrames.of_scene(frames, state_index), agents, tl_faces, steps)
    history = _frames_with_rows(windows, windows.history(0), 0)
    future = _frames_with_rows(windows, windows.future(0), windows.num_history)
    return history[0], future[0], history[1], future[1], history[2], future[2]


def _frames_with_rows(
    windows: Windows, frames: RecordArray, first: int
) -> tuple[RecordArray, list[RecordArray], list[RecordArray]]:
    """Return frames of one window, and copies of their agents and faces, which start at ``first``."""
    agents, tl_faces = (rows.frames(first, first + len(frames)) for rows in (windows.agents, windows.tl_faces))
    # intervals refer to the rows of these frames, concatenated in chronological order
    for field, rows in ((AGENT_INTERVAL, agents), (FACE_INTERVAL, tl_faces)):
        if field in (frames.dtype.names or ()):
            starts, stops, _, _ = rows.counted_from_first()
            frames[field] = np.stack([starts[0], stops[0]], axis=1)
    return frames, _copies(agents, len(frames)), _copies(tl_faces, len(frames))


def _copies(rows: WindowRows, num_frames: int) -> list[RecordArray]:
    return [part.copy() for part in rows.frames_of(0, num_frames)]


def compute_agent_velocity(
    history_positions_m: Float32Array, future_positions_m: Float32Array, step_time: float
) -> tuple[Float32Array, Float32Array]:
    """Return velocities as differences of successive positions.

    Missing positions are zeros, so velocities next to a gap are meaningless.

    Args:
        history_positions_m: (H + 1, 2), the current position first.
        future_positions_m: (F, 2), the nearest first.
        step_time: Seconds between two positions.

    Returns:
        Velocities in m/s of the history (H, 2) and of the future (F, 2), float32.

    Raises:
        InvalidArgumentError: ``step_time`` is not positive.
    """
    step_time_s = checked_step_time(step_time)
    past_mps = ((history_positions_m[:-1] - history_positions_m[1:]) / step_time_s).astype(np.float32)

    # the first future step begins at the agent itself, at 0
    steps_m = future_positions_m.copy()
    steps_m[1:] -= future_positions_m[:-1]
    return past_mps, (steps_m / step_time_s).astype(np.float32)


def checked_step_time(step_time: float) -> float:
    """Return a positive time as a Python float, so that results with float32 arrays stay float32."""
    if not step_time > _SHORTEST_STEP_TIME_S:
        raise InvalidArgumentError(f"step_time must be a positive number of seconds, got {step_time}")
    return float(step_time)


def get_relative_poses(
    num_frames: int,
    frames: RecordArray,
    selected_track_id: int | None,
    agents: list[RecordArray],
    agent_from_world: Float64Array,
    current_agent_yaw: float,
) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
    """Return the poses of a track in each frame, relative to a pose.

    Args:
        num_frames: Length of the result; missing frames at the end are zeros.
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
    if len(frames) > num_frames:
        raise IndexOutOfRangeError(
            f"frames holds {len(frames)} frames, but at most num_frames = {num_frames} are allowed"
        )
    states = TrackStates.empty(1, num_frames)
    if selected_track_id is None:
        counts = np.array([[len(frames)], [0]])
        trace_av(frames[None], counts, len(frames), EGO_EXTENT_M, states.as_arrays())
    else:
        rows = WindowRows.from_frames(agents, np.dtype(AGENT_DTYPE))
        track_ids = as_track_ids(rows.dtype, selected_track_id)
        if track_ids is not None:
            trace_tracks(rows, track_ids, states)
    poses = relative_poses(states, agent_from_world[None], np.array([current_agent_yaw], dtype=np.float64))
    return poses.positions_m[0], poses.yaws_rad[0], poses.extents_m[0], poses.availabilities[0]


@accept_call_of_1_0
def generate_agent_sample(
    state_index: int,
    frames: Records,
    agents: Records,
    tl_faces: Records | None,
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
) -> Sample:
    """Return the sample of the AV or of an agent in one frame.

    The call documented for L5Kit 1.0 is accepted too: ``(state_index, frames, all_agents, selected_track_id,
    raster_size, pixel_size, ego_center, history_num_frames, history_step_size, future_num_frames, future_step_size,
    filter_agents_threshold, rasterizer=None, perturbation=None)``; it draws no traffic lights.

    Args:
        state_index: The current frame, counted in ``frames``.
        frames: Frames of one scene.
        agents: All agents that the intervals of ``frames`` point to.
        tl_faces: All traffic light faces that they point to; may be empty, or None for none.
        selected_track_id: The agent of interest; None for the AV.
        render_context: Geometry of the raster, for the returned matrices.
        history_num_frames: Past steps h, excluding the current frame.
        future_num_frames: Future steps F.
        step_time: Seconds between two recorded frames.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
        rasterizer: Draws the raster; None for a sample without one.
        perturbation: Moves the AV's frames, if all future frames exist.
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
    params = SamplingParams(
        history_num_frames=as_count("history_num_frames", history_num_frames),
        future_num_frames=as_count("future_num_frames", future_num_frames),
        step_time_s=checked_step_time(step_time),
        history_step_size=history_step_size,
        future_step_size=future_step_size,
        filter_agents_threshold=filter_agents_threshold,
    )
    sampler = AgentSampler(params, render_context, rasterizer, perturbation)
    return sampler(state_index, frames, agents, tl_faces, selected_track_id)


def as_count(argument: str, value: int) -> int:
    """Return a number of frames as a Python int, as small NumPy integers would overflow in later arithmetic."""
    count = operator.index(value)
    if count < 0:
        raise InvalidArgumentError(f"{argument} must be 0 or more, got {value}")
    return count
