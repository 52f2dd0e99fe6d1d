"""Faults of logged records: what no scene has that really happened, found before anything is computed from it."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Int64Array, RecordArray
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.road_users import RoadUserGroup, classify_rows

_FARTHEST_M, _LARGEST_M, _FASTEST_MPS = 1e7, 1e4, 1e4
_MOST_OF_MEASURES = {"centroid": _FARTHEST_M, "yaw": np.inf, "extent": _LARGEST_M, "velocity": _FASTEST_MPS}
_LONGEST_SCENE_NS = 365 * 86_400 * 10**9


@dataclass(frozen=True)
class RecordFault:
    """What is wrong in a scene.

    Attributes:
        frame: Where, counted in the scene.
        track_id: Whose row it is; None for the AV or for all of the frame.
        message: What it is.
    """

    frame: int
    track_id: int | None
    message: str


def find_record_fault(recorded: SceneRecords) -> RecordFault | None:
    """Return the first thing in a scene that cannot be: of the AV, else of times, else of agents that are road users.

    Args:
        recorded: The scene, with a frame or more.
    """
    frames = recorded.frames
    return find_pose_fault(frames) or _find_fault_of_times(frames["timestamp"]) or _find_fault_of_agents(recorded)


def find_pose_fault(frames: RecordArray) -> RecordFault | None:
    """Return in which of some frames, ``FRAME_DTYPE``, (F,), the AV is where it cannot be."""
    is_broken = ~np.isfinite(frames["ego_translation"]).all(axis=1)
    is_broken |= ~np.isfinite(frames["ego_rotation"]).all(axis=(1, 2))
    if is_broken.any():
        return RecordFault(int(np.argmax(is_broken)), None, "the pose of the AV is not finite in the log")
    is_far = np.any(np.abs(frames["ego_translation"]) > _FARTHEST_M, axis=1)
    if is_far.any():
        text = f"the AV is more than {_FARTHEST_M:g} m from the origin in the log"
        return RecordFault(int(np.argmax(is_far)), None, text)
    return None


def _find_fault_of_times(timestamps_ns: Int64Array) -> RecordFault | None:
    """Return which frame is not after the one before it, or so late that no scene lasts until then."""
    is_not_later = timestamps_ns[1:] <= timestamps_ns[:-1]
    if is_not_later.any():
        frame = int(np.argmax(is_not_later)) + 1
        return RecordFault(frame, None, "the time of the frame is not after that of the frame before it")
    passed_ns = timestamps_ns.astype(np.uint64) - timestamps_ns[:1].astype(np.uint64)  # exact, as times rise
    is_late = passed_ns > _LONGEST_SCENE_NS
    if is_late.any():
        return RecordFault(int(np.argmax(is_late)), None, "the frame is more than a year after the first one")
    return None


def _find_fault_of_agents(recorded: SceneRecords) -> RecordFault | None:
    """Return which agent has a value that no road user has, or is in a frame twice."""
    agents, intervals = recorded.agents, recorded.frames[AGENT_INTERVAL]
    of_rows = np.repeat(np.arange(len(intervals)), intervals[:, 1] - intervals[:, 0])
    row = _first_of(_is_broken(agents))
    if row is not None:
        text = _text_of_broken(agents[row : row + 1])
        return RecordFault(int(of_rows[row]), int(agents["track_id"][row]), text)
    row = _first_of(_is_repeated(of_rows, agents["track_id"]))
    if row is not None:
        return RecordFault(int(of_rows[row]), int(agents["track_id"][row]), "the frame has the track twice")
    return None


def _is_broken(agents: RecordArray) -> BoolArray:
    """Return which rows are road users with a value that is not finite or absurd, (N,)."""
    is_broken = np.zeros(len(agents), np.bool_)
    for name, most in _MOST_OF_MEASURES.items():
        is_broken |= _is_beyond(agents, name, most)
    rows = np.flatnonzero(is_broken)
    is_broken[rows] = classify_rows(agents["label_probabilities"][rows], agents["extent"][rows]) != RoadUserGroup.NONE
    return is_broken


def _is_beyond(agents: RecordArray, name: str, most: float) -> BoolArray:
    """Return which rows have a value that is not finite or larger than allowed, (N,)."""
    values = agents[name].reshape(len(agents), np.prod(agents[name].shape[1:], dtype=int))
    is_beyond: BoolArray = np.any(~np.isfinite(values) | (np.abs(values) > most), axis=1)
    return is_beyond


def _text_of_broken(agent: RecordArray) -> str:
    """Return what is wrong with a row (1,)."""
    if any(_is_beyond(agent, name, np.inf).any() for name in _MOST_OF_MEASURES):
        return "the agent is not finite"
    name = next(name for name, most in _MOST_OF_MEASURES.items() if _is_beyond(agent, name, most).any())
    return f"{name} of the agent is {agent[name][0].tolist()}; no road user is beyond {_MOST_OF_MEASURES[name]:g}"


def _is_repeated(frames: Int64Array, track_ids: RecordArray) -> BoolArray:
    """Return which rows have a track that a row before them in the same frame has, (N,)."""
    order = np.lexsort((np.arange(len(frames)), track_ids, frames))
    is_repeated = np.zeros(len(frames), np.bool_)
    is_same = (frames[order][1:] == frames[order][:-1]) & (track_ids[order][1:] == track_ids[order][:-1])
    is_repeated[order[1:]] = is_same
    return is_repeated


def _first_of(is_wrong: BoolArray) -> int | None:
    return int(np.argmax(is_wrong)) if is_wrong.any() else None
