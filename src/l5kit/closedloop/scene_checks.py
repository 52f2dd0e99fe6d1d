"""Checks of logged scenes before they are driven: what would break in the middle is found first, and named."""

import numpy as np

from l5kit._types import BoolArray, Int64Array, RecordArray
from l5kit.closedloop.failed_scene import FailedScene
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.evaluation.driving.road_users import RoadUserGroup, classify_rows

__all__ = ["find_fault", "read_scene"]

_MEASURES = ("centroid", "yaw", "extent", "velocity")


def read_scene(log: ChunkedDataset, scene: int, *, start: int) -> SceneRecords | FailedScene:
    """Return a scene of a log, or why it cannot be read or driven; ``start`` is the first frame to be simulated."""
    try:
        recorded = SceneRecords.read(log, scene)
        return find_fault(recorded, scene, start=start) or recorded
    except Exception as error:  # whatever is broken in a file must not end the other scenes
        return FailedScene(scene, None, None, f"the scene cannot be read: {error or type(error).__name__}")


def find_fault(recorded: SceneRecords, scene: int, *, start: int) -> FailedScene | None:
    """Return why a scene cannot be driven, or None.

    Args:
        recorded: The scene.
        scene: Its number, for the fault.
        start: First frame that is to be simulated.
    """
    frames, num_frames = recorded.frames, len(recorded.frames)
    if num_frames <= start:
        return FailedScene(scene, None, None, f"the scene has {num_frames} frames, none of them frame {start}")
    is_broken = ~np.isfinite(frames["ego_translation"]).all(axis=1)
    is_broken |= ~np.isfinite(frames["ego_rotation"]).all(axis=(1, 2))
    if is_broken.any():
        return FailedScene(scene, int(np.argmax(is_broken)), None, "the pose of the AV is not finite in the log")
    stands_still = np.diff(frames["timestamp"]) <= 0
    if stands_still.any():
        frame = int(np.argmax(stands_still)) + 1
        return FailedScene(scene, frame, None, "the time of the frame is not after that of the frame before it")
    return _find_fault_of_agents(recorded, scene)


def _find_fault_of_agents(recorded: SceneRecords, scene: int) -> FailedScene | None:
    """Return which agent has no finite place, or is in a frame twice."""
    agents, intervals = recorded.agents, recorded.frames[AGENT_INTERVAL]
    of_rows = np.repeat(np.arange(len(intervals)), intervals[:, 1] - intervals[:, 0])
    row = _first_of(_is_broken(agents))
    if row is not None:
        return FailedScene(scene, int(of_rows[row]), int(agents["track_id"][row]), "the agent is not finite")
    row = _first_of(_is_repeated(of_rows, agents["track_id"]))
    if row is not None:
        return FailedScene(scene, int(of_rows[row]), int(agents["track_id"][row]), "the frame has the track twice")
    return None


def _is_broken(agents: RecordArray) -> BoolArray:
    """Return which rows are road users with a value that is not finite, (N,)."""
    is_broken = np.zeros(len(agents), np.bool_)
    for name in _MEASURES:
        values = agents[name].reshape(len(agents), np.prod(agents[name].shape[1:], dtype=int))
        is_broken |= ~np.isfinite(values).all(axis=1)
    rows = np.flatnonzero(is_broken)
    is_broken[rows] = classify_rows(agents["label_probabilities"][rows], agents["extent"][rows]) != RoadUserGroup.NONE
    return is_broken


def _is_repeated(frames: Int64Array, track_ids: RecordArray) -> BoolArray:
    """Return which rows have a track that a row before them in the same frame has, (N,)."""
    order = np.lexsort((np.arange(len(frames)), track_ids, frames))
    is_repeated = np.zeros(len(frames), np.bool_)
    is_same = (frames[order][1:] == frames[order][:-1]) & (track_ids[order][1:] == track_ids[order][:-1])
    is_repeated[order[1:]] = is_same
    return is_repeated


def _first_of(is_wrong: BoolArray) -> int | None:
    return int(np.argmax(is_wrong)) if is_wrong.any() else None
