"""Changes of a single scene in memory: insert or hide agents, and cut out frames."""

import numpy as np

from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.data.filter import get_agents_slice_from_frames, get_tl_faces_slice_from_frames
from l5kit.data.record_bytes import join_records
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DuplicateTrackError, InvalidArgumentError

__all__ = ["disable_agents", "get_frames_subset", "insert_agent"]


def insert_agent(agent: RecordArray, frame_idx: int, dataset: ChunkedDataset) -> None:
    """Put an agent into a frame of a scene: over the row of its track, or after the other agents of the frame.

    Args:
        agent: The agent, ``AGENT_DTYPE``, (1,).
        frame_idx: The frame.
        dataset: One scene in memory, as returned by ``get_scene_dataset``; its ``agents`` are replaced by a new array
            if a row is added.

    Raises:
        InvalidArgumentError: There is not exactly one scene, its arrays are not NumPy arrays, or it lacks the frame.
        DuplicateTrackError: The frame has the track more than once.
    """
    _require_one_scene(dataset, "agents", "frames")
    if np.shape(agent) != (1,):
        raise InvalidArgumentError(f"agent must be one record, shape (1,), got shape {np.shape(agent)}")
    if not 0 <= frame_idx < len(dataset.frames):
        raise InvalidArgumentError(f"frame_idx is {frame_idx}, but the scene has {len(dataset.frames)} frames")
    rows = get_agents_slice_from_frames(dataset.frames[frame_idx])
    same = np.flatnonzero(dataset.agents["track_id"][rows] == agent["track_id"][0])
    if len(same) > 1:
        raise DuplicateTrackError(
            f"agent has track {int(agent['track_id'][0])}, which frame {frame_idx} contains {len(same)} times"
        )
    if len(same) == 1:
        dataset.agents[rows.start + same[0]] = agent[0]
        return
    dataset.agents = join_records([dataset.agents[: rows.stop], agent, dataset.agents[rows.stop :]])
    intervals = dataset.frames[AGENT_INTERVAL]
    intervals[frame_idx, 1] += 1
    intervals[frame_idx + 1 :] += 1


def disable_agents(dataset: ChunkedDataset, allowlist: NumericArray) -> None:
    """Hide all agents of a scene except some tracks: pose and extent become 0, all label probabilities -1.

    Their rows stay, but are skipped when drawing or scoring.

    Args:
        dataset: One scene in memory; its agents are changed.
        allowlist: Track ids to keep, (N,).

    Raises:
        InvalidArgumentError: There is not exactly one scene, its agents are not a NumPy array, or ``allowlist`` has a
            wrong shape.
    """
    _require_one_scene(dataset, "agents")
    if np.ndim(allowlist) != 1:
        raise InvalidArgumentError(f"allowlist must be track ids, shape (N,), got shape {np.shape(allowlist)}")
    hide_records(dataset.agents, np.flatnonzero(~np.isin(dataset.agents["track_id"], allowlist)))


def hide_records(agents: RecordArray, rows: Int64Array) -> None:
    """Hide rows (K,) of agents, ``AGENT_DTYPE``: pose and extent become 0, all label probabilities -1."""
    for field in ("centroid", "yaw", "extent"):
        agents[field][rows] = 0
    agents["label_probabilities"][rows] = -1


def get_frames_subset(dataset: ChunkedDataset, frame_start_idx: int, frame_end_idx: int) -> ChunkedDataset:
    """Return successive frames of a scene as a new scene, with copies of their rows.

    Args:
        dataset: One scene in memory.
        frame_start_idx: First frame.
        frame_end_idx: End frame, exclusive.

    Raises:
        InvalidArgumentError: There is not exactly one scene, its arrays are not NumPy arrays, or it lacks the frames.
    """
    _require_one_scene(dataset, "agents", "tl_faces", "frames")
    if not 0 <= frame_start_idx < frame_end_idx <= len(dataset.frames):
        raise InvalidArgumentError(
            f"frame_start_idx and frame_end_idx are {frame_start_idx} and {frame_end_idx}; they must be frames of the "
            f"scene with 0 <= start < end <= {len(dataset.frames)}"
        )
    frames = dataset.frames[frame_start_idx:frame_end_idx].copy()
    scenes = dataset.scenes.copy()
    scenes[FRAME_INTERVAL] = 0, len(frames)
    scenes["start_time"], scenes["end_time"] = frames["timestamp"][0], frames["timestamp"][-1]
    agents = dataset.agents[get_agents_slice_from_frames(frames[0], frames[-1])].copy()
    tl_faces = dataset.tl_faces[:0].copy()
    frames[AGENT_INTERVAL] -= frames[AGENT_INTERVAL][0, 0]
    if FACE_INTERVAL in (frames.dtype.names or ()):
        tl_faces = dataset.tl_faces[get_tl_faces_slice_from_frames(frames[0], frames[-1])].copy()
        frames[FACE_INTERVAL] -= frames[FACE_INTERVAL][0, 0]
    return ChunkedDataset.in_memory(
        scenes=scenes, frames=frames, agents=agents, tl_faces=tl_faces, facts=getattr(dataset, "facts", None)
    )


def _require_one_scene(dataset: ChunkedDataset, *arrays: str) -> None:
    if len(dataset.scenes) != 1:
        raise InvalidArgumentError(
            f"dataset must hold one scene, but it has {len(dataset.scenes)}; take dataset.get_scene_dataset(index)"
        )
    for name in arrays:
        if not isinstance(getattr(dataset, name), np.ndarray):
            raise InvalidArgumentError(
                f"dataset.{name} must be a NumPy array, got {type(getattr(dataset, name)).__name__}; take "
                "dataset.get_scene_dataset(index), which is in memory"
            )
