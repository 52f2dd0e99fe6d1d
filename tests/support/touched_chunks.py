"""The chunks that a sample touches, computed from the records of a log."""

import numpy as np

from l5kit.data.layout import ARRAYS
from l5kit.data.zarr_dataset import ChunkedDataset


def touched_chunks(
    log: ChunkedDataset, frame: int, chunk_lengths: dict[str, int], *, past: int, future: int
) -> set[tuple[str, int]]:
    """Return array and number of the chunks that the sample of the AV in a frame needs.

    These are those of its scene, of all frames of that, and of agents and faces from the first to the last of its rows.
    """
    scene = int(np.searchsorted(log.scenes["frame_index_interval"][:, 1], frame, side="right"))
    start, stop = log.scenes["frame_index_interval"][scene].tolist()
    window = log.frames[max(start, frame - past) : min(stop, frame + future + 1)]
    ranges = {"scenes": (scene, scene + 1), "frames": (start, stop)}
    for key, field in (("agents", "agent"), ("traffic_light_faces", "traffic_light_faces")):
        rows = window[f"{field}_index_interval"]
        rows = rows[rows[:, 1] > rows[:, 0]]
        ranges[key] = (int(rows[:, 0].min()), int(rows[:, 1].max())) if len(rows) else (0, 0)
    return {
        (key, chunk)
        for key in ARRAYS
        for chunk in range(ranges[key][0] // chunk_lengths[key], -(-ranges[key][1] // chunk_lengths[key]))
        if ranges[key][1] > ranges[key][0]
    }
