"""Previews of datasets and maps: small pictures, drawn in milliseconds without compiling kernels."""

from dataclasses import replace
from typing import Final

import numpy as np

from l5kit._types import UInt8Array
from l5kit.data.map.api import MapAPI
from l5kit.data.map.opened import open_maps
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.geometry.transform import rotation33_as_yaw
from l5kit.visualization.birdseye.canvas import Canvas, Stroke, View
from l5kit.visualization.birdseye.painting import Boxes, MapPainter, paint_boxes
from l5kit.visualization.birdseye.tones import CLASS_RGB, EGO_RGB, tones_of
from l5kit.visualization.map_shapes import MapShapes, read_map_shapes
from l5kit.visualization.notebooks.shown import image_element
from l5kit.visualization.notebooks.subjects import files_of, log_of

SIZE_PX: Final = (360, 240)
"""Width and height in pixels."""

_TONES: Final = tones_of("light")
_PX_PER_M: Final = 4.0
_MAX_FRAMES: Final = 300
_MAX_AGENTS: Final = 2000
_AGENT_THRESHOLD: Final = 0.5


def sketch_map(shapes: MapShapes, *, size_px: tuple[int, int] = SIZE_PX) -> UInt8Array:
    """Return a whole map as a picture, RGB ``[H, W, 3]``."""
    bounds = np.concatenate([shapes.lanes.bounds_m, shapes.crosswalks.bounds_m])
    low, high = (bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)) if len(bounds) else (np.zeros(2), np.ones(2))
    scale = float((np.array(size_px) / np.maximum(high - low, 1.0)).min() * 0.95)
    canvas = Canvas(View.north_up((low + high) / 2, scale, size_px), _TONES.ground)
    # At this scale lanes are too narrow for edges, so they are drawn in the colour of edges.
    MapPainter(shapes).paint(canvas, replace(_TONES, lane=_TONES.border))
    return canvas.picture


def preview_html(subject: object) -> str:
    """Return a small picture of a map, or of a moment of the first scene of a dataset; empty for remote datasets.

    Little of a dataset is read: the record of the first scene, at most 300 of its frames, and the agents of one frame.

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
    agents = agents[agents["label_probabilities"][:, 3:].sum(axis=1) > _AGENT_THRESHOLD]
    center_m = np.asarray(frame["ego_translation"][:2], np.float64)
    maps = open_maps(files_of(log, None))

    # from bottom to top: the map, the path of the AV in red, the agents in the colours of their classes, the AV
    canvas = Canvas(View.north_up(center_m, _PX_PER_M, SIZE_PX), _TONES.ground)
    if maps is not None:
        MapPainter(read_map_shapes(maps.of_scenes(log, [0]).arrays)).paint(canvas, _TONES)
    canvas.lines([np.asarray(frames["ego_translation"])[:, :2]], Stroke(EGO_RGB, least_width_px=2, opacity=0.6))
    canvas.settle()
    boxes = np.column_stack([agents["centroid"], agents["yaw"], agents["extent"][:, :2]])
    colors = CLASS_RGB[agents["label_probabilities"].argmax(axis=1)]
    ego = np.array([*center_m, rotation33_as_yaw(frame["ego_rotation"]), *log.facts.ego_extent_m[:2]])
    paint_boxes(canvas, Boxes.with_ego(ego, boxes, colors), _TONES, shows_overlaps=False)
    return image_element(canvas.picture, text="a moment of scene 0: the AV red, cars blue")
