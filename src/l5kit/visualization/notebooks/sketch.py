"""Sketches of scenes and maps: small, drawn in some milliseconds, without kernels that have to be compiled."""

from dataclasses import replace
from typing import Final

import numpy as np

from l5kit._types import NumericArray, RecordArray, UInt8Array
from l5kit.visualization.birdseye.canvas import Canvas, Stroke
from l5kit.visualization.birdseye.painting import Boxes, MapPainter, paint_boxes
from l5kit.visualization.birdseye.tones import CLASS_RGB, EGO_RGB, tones_of
from l5kit.visualization.birdseye.view import View
from l5kit.visualization.map_shapes import MapShapes

SIZE_PX: Final = (360, 240)
"""Width and height."""

_TONES: Final = tones_of("light")


def sketch_scene(
    view: View,
    shapes: MapShapes | None,
    agents: RecordArray,
    *,
    ego_path_m: NumericArray,
    ego_pose: NumericArray,
    ego_size_m: NumericArray,
) -> UInt8Array:
    """Return a frame as a picture: the map, agents by their class, the AV and its path in red.

    Args:
        view: What is seen.
        shapes: The map; None without one.
        agents: Agent rows of the frame.
        ego_path_m: World positions of the AV in the scene, (F, 2 or more).
        ego_pose: World x, y and yaw of the AV, (3,).
        ego_size_m: Its length and width, (2,).

    Returns:
        RGB ``[H, W, 3]``.
    """
    canvas = Canvas(view, _TONES.ground)
    if shapes is not None:
        MapPainter(shapes).paint(canvas, _TONES)
    canvas.lines([np.asarray(ego_path_m)[:, :2]], Stroke(EGO_RGB, least_width_px=2, opacity=0.6))
    canvas.settle()
    boxes = np.column_stack([agents["centroid"], agents["yaw"], agents["extent"][:, :2]])
    colors = CLASS_RGB[agents["label_probabilities"].argmax(axis=1)]
    ego = np.concatenate([ego_pose, ego_size_m])
    paint_boxes(canvas, Boxes.with_ego(ego, boxes, colors), _TONES, shows_overlaps=False)
    return canvas.picture


def sketch_map(shapes: MapShapes, *, size_px: tuple[int, int] = SIZE_PX) -> UInt8Array:
    """Return a whole map as a picture, RGB ``[H, W, 3]``."""
    bounds = np.concatenate([shapes.lanes.bounds_m, shapes.crosswalks.bounds_m])
    low, high = (bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)) if len(bounds) else (np.zeros(2), np.ones(2))
    scale = float((np.array(size_px) / np.maximum(high - low, 1.0)).min() * 0.95)
    canvas = Canvas(View.north_up((low + high) / 2, scale, size_px), _TONES.ground)
    # from far away lanes are too narrow for edges, and get their colour
    MapPainter(shapes).paint(canvas, replace(_TONES, lane=_TONES.border))
    return canvas.picture
