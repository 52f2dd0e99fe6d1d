"""Matching of predictions with agents of a log by time and track, and the bytes of predictions for the page."""

from typing import Final

import numpy as np

from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.data.frame_rows import expand_ranges, find_pairs, parts_of_rows
from l5kit.data.index.track_ids import EGO_TRACK_ID
from l5kit.data.record_sequence import column_of, rows_of
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.visualization.viewer.content_bytes import positions_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays
from l5kit.visualization.viewer.predictions import Predictions

MOST_AGENTS_LOOKED_AT: Final = 20_000_000
"""Up to this number of agent rows, which take seconds, tracks are matched in the whole log; else scene by scene."""

_FRAMES_AT_ONCE: Final = 2_000


def find_in_log(predictions: Predictions, dataset: ChunkedDataset) -> BoolArray:
    """Return which predictions match a row of the log, (n,).

    If frames with predictions have more than :data:`MOST_AGENTS_LOOKED_AT` agent rows, only times are compared.

    Raises:
        CorruptedDataError: The frames cannot be read.
    """
    times_ns = column_of(dataset.frames, "timestamp").astype(np.int64)
    intervals = column_of(dataset.frames, AGENT_INTERVAL).astype(np.int64)
    frames = np.flatnonzero(_counts(predictions, times_ns) > 0)
    intervals = np.clip(intervals, 0, len(dataset.agents))
    num_agents = int(np.maximum(intervals[frames, 1] - intervals[frames, 0], 0).sum())
    is_in_log = np.zeros(len(predictions), np.bool_)
    for first in range(0, len(frames), _FRAMES_AT_ONCE):
        block = frames[first : first + _FRAMES_AT_ONCE]
        counts, indices = _at_times(predictions, times_ns[block])
        if num_agents > MOST_AGENTS_LOOKED_AT:
            is_in_log[indices] = True
            continue
        # frame in this block, and track, of each agent; the rows of consecutive frames are read together
        starts, ends = intervals[block].T
        agent_frames = np.repeat(np.arange(len(block)), np.maximum(ends - starts, 0))
        cuts = (np.flatnonzero(starts[1:] != ends[:-1]) + 1).tolist()
        agent_tracks: list[NumericArray] = [np.zeros(0, np.int64)]
        for low, high in zip([0, *cuts], [*cuts, len(block)], strict=True):
            start, stop = int(starts[low]), int(ends[high - 1])
            if stop > start:
                agent_tracks.append(rows_of(dataset.agents, slice(start, stop))["track_id"].astype(np.int64))
        tracks, frames_of_tracks = predictions.track_ids[indices], np.repeat(np.arange(len(block)), counts)
        rows = find_pairs(frames_of_tracks, tracks, agent_frames, np.concatenate(agent_tracks))
        is_in_log[indices] |= (rows >= 0) | (tracks == EGO_TRACK_ID)
    return is_in_log


def _counts(predictions: Predictions, timestamps_ns: Int64Array) -> Int64Array:
    """Return the number of predictions at each time."""
    first = np.searchsorted(predictions.timestamps_ns, timestamps_ns, side="left")
    counts: Int64Array = np.searchsorted(predictions.timestamps_ns, timestamps_ns, side="right") - first
    return counts


def _at_times(predictions: Predictions, timestamps_ns: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the number of predictions at each time, and their indices, time by time."""
    # predictions are sorted by time, so those of one time are consecutive
    first, counts = np.searchsorted(predictions.timestamps_ns, timestamps_ns), _counts(predictions, timestamps_ns)
    return counts, expand_ranges(first, counts)


def prediction_bytes(predictions: Predictions, scene: SceneArrays) -> bytes:
    """Return the predictions of a scene as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for the format.

    Args:
        predictions: Predictions of the whole log.
        scene: The scene; positions are relative to the same origin as in the bytes of the scene.

    Raises:
        InvalidArgumentError: A row of the file contains something other than numbers.
        DataChangedError: The file has changed since it was opened.
    """
    agents, (counts, indices) = scene.agents, _at_times(predictions, scene.timestamps_ns)
    frames, tracks = np.repeat(np.arange(scene.num_frames), counts), predictions.track_ids[indices]
    # agent row of each prediction; predictions for tracks that are not in the frame are lost, except those of the AV
    agent_rows = find_pairs(frames, tracks, parts_of_rows(agents.starts), agents.track_ids.astype(np.int64))
    is_matched = (agent_rows >= 0) | (tracks == EGO_TRACK_ID)
    frames, agent_rows = frames[is_matched], agent_rows[is_matched]
    of_frame = np.bincount(frames, minlength=scene.num_frames)

    # displacements start at the position of the AV or agent in the frame of the prediction
    is_agent = agent_rows >= 0
    current_m = scene.ego_positions_m[frames, :2].copy()
    current_m[is_agent] = agents.centroids_m[agent_rows[is_agent]]
    confidences, displacements_m = predictions.read(indices[is_matched])
    facts = {
        "name": predictions.name,
        "num_modes": predictions.num_modes,
        "num_steps": predictions.num_steps,
        "num_lost": int(np.count_nonzero(~is_matched)),
    }
    arrays = {
        "starts": np.concatenate([[0], np.cumsum(of_frame)]).astype(np.uint32),
        "agent_row": agent_rows.astype(np.int32),
        "confidence": confidences.astype(np.float32),
        "xy": positions_from(current_m[:, None, None] + displacements_m, scene_origin_m(scene)),
    }
    return pack_arrays(facts, arrays)
