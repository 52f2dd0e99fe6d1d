"""Previews: the small pictures in the cards of datasets and maps."""

from typing import Final

import numpy as np

from l5kit.data.map.api import MapAPI
from l5kit.data.map.opened import open_maps
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.geometry.transform import rotation33_as_yaw
from l5kit.visualization.birdseye.view import View
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.notebooks.shown import image_element
from l5kit.visualization.notebooks.sketch import SIZE_PX, sketch_map, sketch_scene
from l5kit.visualization.notebooks.subjects import files_of, log_of

_PX_PER_M: Final = 4.0
_MAX_FRAMES: Final = 300
_MAX_AGENTS: Final = 2000
_AGENT_THRESHOLD: Final = 0.5


def preview_html(subject: object) -> str:
    """Return a small picture of a map, or of a moment of the first scene of a dataset; of one on a server, nothing.

    Little of a dataset is read: the first scene's row, at most 300 of its frames, and the agents of one frame.

    Args:
        subject: A map, a log, or a dataset of samples.

    Raises:
        L5KitError: The data is damaged.
        IndexError: The dataset is empty.
    """
    if isinstance(subject, MapAPI):
        return image_element(sketch_map(read_map_shapes(subject.arrays)), text="the map")
    log = log_of(subject)
    if "://" in log.path:
        return ""
    # the middle of the first scene, with its map
    start, end = rows_of(log.scenes, slice(0, 1), strict=True)[0][FRAME_INTERVAL].tolist()
    middle = (start + end) // 2
    first = max(start, middle - _MAX_FRAMES // 2)
    frames = rows_of(log.frames, slice(first, min(end, first + _MAX_FRAMES)), strict=True)
    frame = frames[middle - first]
    low, high = frame[AGENT_INTERVAL].tolist()
    agents = np.array(rows_of(log.agents, slice(low, min(high, low + _MAX_AGENTS)), strict=True))
    center_m = np.asarray(frame["ego_translation"][:2], np.float64)
    maps = open_maps(files_of(log, None))
    sketch = sketch_scene(
        View.north_up(center_m, _PX_PER_M, SIZE_PX),
        None if maps is None else read_map_shapes(maps.of_scenes(log, [0]).arrays),
        agents[agents["label_probabilities"][:, 3:].sum(axis=1) > _AGENT_THRESHOLD],
        ego_path_m=frames["ego_translation"],
        ego_pose=np.append(center_m, rotation33_as_yaw(frame["ego_rotation"])),
        ego_size_m=np.asarray(log.facts.ego_extent_m[:2]),
    )
    return image_element(sketch, text="a moment of scene 0: the AV red, cars blue")
