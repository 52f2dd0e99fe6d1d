"""Faults of logged records: values that are impossible in reality, found before anything is computed from them."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, RecordArray
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.road_users import RoadUserGroup, classify_rows

_FARTHEST_M, _LARGEST_M, _FASTEST_MPS = 1e7, 1e4, 1e4
_MOST_OF_MEASURES = {"centroid": _FARTHEST_M, "yaw": np.inf, "extent": _LARGEST_M, "velocity": _FASTEST_MPS}
_LONGEST_SCENE_NS = 365 * 86_400 * 10**9


@dataclass(frozen=True)
class RecordFault:
    """A fault of a scene.

    Attributes:
        frame: Frame of the fault, counted within the scene.
        track_id: Track of the row; None for the AV or for the whole frame.
        message: Description of the fault.
    """

    frame: int
    track_id: int | None
    message: str


def find_record_fault(recorded: SceneRecords) -> RecordFault | None:
    """Return the first fault of a scene: of the AV, else of times, else of agents that are road users.

    Args:
        recorded: The scene, with at least one frame.
    """
    frames, agents, intervals = recorded.frames, recorded.agents, recorded.frames[AGENT_INTERVAL]
    of_ego = find_pose_fault(frames)
    if of_ego is not None:
        return of_ego
    timestamps_ns = frames["timestamp"]
    is_not_later = timestamps_ns[1:] <= timestamps_ns[:-1]
    if is_not_later.any():
        frame = int(np.argmax(is_not_later)) + 1
        return RecordFault(frame, None, "the time of the frame is not after that of the frame before it")
    passed_ns = timestamps_ns.astype(np.uint64) - timestamps_ns[:1].astype(np.uint64)  # exact, as times increase
    is_late = passed_ns > _LONGEST_SCENE_NS
    if is_late.any():
        return RecordFault(int(np.argmax(is_late)), None, "the frame is more than a year after the first one")

    # classify only the few rows with absurd values: agents that are no road users may hold anything
    of_rows, track_ids = np.repeat(np.arange(len(intervals)), intervals[:, 1] - intervals[:, 0]), agents["track_id"]
    is_broken = np.zeros(len(agents), np.bool_)
    for name, most in _MOST_OF_MEASURES.items():
        is_broken |= _is_beyond(agents, name, most)
    rows = np.flatnonzero(is_broken)
    is_broken[rows] = classify_rows(agents["label_probabilities"][rows], agents["extent"][rows]) != RoadUserGroup.NONE
    if is_broken.any():
        row = int(np.argmax(is_broken))
        agent, text = agents[row : row + 1], "the agent is not finite"
        if not any(_is_beyond(agent, name, np.inf).any() for name in _MOST_OF_MEASURES):
            name = next(name for name, most in _MOST_OF_MEASURES.items() if _is_beyond(agent, name, most).any())
            most = _MOST_OF_MEASURES[name]
            text = f"{name} of the agent is {agent[name][0].tolist()}; no road user is beyond {most:g}"
        return RecordFault(int(of_rows[row]), int(track_ids[row]), text)

    # sorted by frame and track, equal neighbours are duplicates; report the later row
    order = np.lexsort((track_ids, of_rows))  # stable
    is_same = (of_rows[order][1:] == of_rows[order][:-1]) & (track_ids[order][1:] == track_ids[order][:-1])
    if is_same.any():
        row = int(order[1:][is_same].min())
        return RecordFault(int(of_rows[row]), int(track_ids[row]), "the frame has the track twice")
    return None


def find_pose_fault(frames: RecordArray) -> RecordFault | None:
    """Return the first fault of the poses of the AV in frames, ``FRAME_DTYPE``, (F,); None without any."""
    is_broken = ~np.isfinite(frames["ego_translation"]).all(axis=1)
    is_broken |= ~np.isfinite(frames["ego_rotation"]).all(axis=(1, 2))
    if is_broken.any():
        return RecordFault(int(np.argmax(is_broken)), None, "the pose of the AV is not finite in the log")
    is_far = np.any(np.abs(frames["ego_translation"]) > _FARTHEST_M, axis=1)
    if is_far.any():
        text = f"the AV is more than {_FARTHEST_M:g} m from the origin in the log"
        return RecordFault(int(np.argmax(is_far)), None, text)
    return None


def _is_beyond(agents: RecordArray, name: str, most: float) -> BoolArray:
    """Return which rows have a value that is not finite or exceeds a limit, (N,)."""
    values = agents[name].reshape(len(agents), np.prod(agents[name].shape[1:], dtype=int))
    is_beyond: BoolArray = np.any(~np.isfinite(values) | (np.abs(values) > most), axis=1)
    return is_beyond
