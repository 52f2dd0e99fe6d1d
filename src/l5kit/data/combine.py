"""Combination of scenes that were recorded without a break."""

import numpy as np

from l5kit._types import Records
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FRAME_INTERVAL, SCENE_DTYPE


def get_combined_scenes(scenes: Records, *, require_adjacent: bool = False) -> Records:
    """Return scenes in which each run of consecutive recordings is one scene.

    A scene continues the previous one if it starts exactly when that ends and has the same host.

    Args:
        scenes: Scenes (N,), a NumPy array or an array of a dataset.
        require_adjacent: Also require that its frames directly follow those of the previous scene.

    Returns:
        Scenes (M,), M <= N, ``SCENE_DTYPE``: interval and times from first to last, host of the first. ``scenes``
        itself if it is empty.
    """
    if len(scenes) == 0:
        return scenes
    records = rows_of(scenes, slice(0, len(scenes)))
    before, after = records[:-1], records[1:]
    breaks = (after["start_time"] != before["end_time"]) | (after["host"] != before["host"])
    if require_adjacent:
        breaks |= after[FRAME_INTERVAL][:, 0] != before[FRAME_INTERVAL][:, 1]
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    last = np.concatenate((first[1:] - 1, [len(records) - 1]))
    combined = records[first].astype(SCENE_DTYPE)
    combined[FRAME_INTERVAL][:, 1] = records[FRAME_INTERVAL][last, 1]
    combined["end_time"] = records["end_time"][last]
    return combined
