"""Sketches of scenes and maps: small, drawn in some milliseconds, without kernels that have to be compiled."""

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from l5kit._types import Float64Array, NumericArray, RecordArray, UInt8Array
from l5kit.geometry.transform import yaw_as_rotation33
from l5kit.visualization.map_shapes import MapShapes, Outlines

SIZE_PX: Final = (360, 240)
"""Width and height."""

_RGB = tuple[int, int, int]
_GROUND: Final[_RGB] = (244, 245, 247)
_ROAD: Final[_RGB] = (214, 218, 224)
_BORDER: Final[_RGB] = (188, 194, 203)
_CROSSWALK: Final[_RGB] = (238, 222, 160)
_AGENT: Final[_RGB] = (31, 119, 180)
_AV: Final[_RGB] = (181, 51, 49)
_PATH: Final[_RGB] = (226, 146, 144)
_SHIFT: Final = 4
"""Bits behind the point of the positions that OpenCV takes."""

_MAX_PX: Final = 20_000.0


@dataclass(frozen=True)
class View:
    """A part of the world as a picture; north is up.

    Attributes:
        center_m: World x and y of its middle, (2,).
        px_per_m: Its scale.
        size_px: Width and height.
    """

    center_m: Float64Array
    px_per_m: float
    size_px: tuple[int, int] = SIZE_PX

    @property
    def half_side_m(self) -> float:
        """Half of its longer side."""
        return max(self.size_px) / self.px_per_m / 2

    def points_px(self, points_m: NumericArray) -> NumericArray:
        """Return world points (..., 2) as OpenCV takes them; those far outside are moved nearer."""
        offsets = (np.asarray(points_m, np.float64)[..., :2] - self.center_m) * self.px_per_m
        offsets = np.nan_to_num(offsets, nan=_MAX_PX).clip(-_MAX_PX, _MAX_PX)
        positions_px = np.array(self.size_px) / 2 + offsets * (1, -1)
        fixed: NumericArray = np.round(positions_px * 2**_SHIFT).astype(np.int32)
        return fixed


def sketch_scene(
    view: View,
    shapes: MapShapes | None,
    agents: RecordArray,
    *,
    ego_path_m: NumericArray,
    ego_pose: NumericArray,
    ego_size_m: NumericArray,
) -> UInt8Array:
    """Return a frame as a picture: the map, agents in blue, the AV and its path in red.

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
    picture = _ground(view)
    if shapes is not None:
        _draw_map(picture, view, shapes.near(view.center_m[None], view.half_side_m)[0])
    cv2.polylines(picture, [view.points_px(ego_path_m)], False, _PATH, 2, cv2.LINE_AA, _SHIFT)
    for row in agents:
        _draw_box(picture, view, np.append(row["centroid"], row["yaw"]), row["extent"][:2], _AGENT)
    _draw_box(picture, view, ego_pose, ego_size_m, _AV)
    return picture


def sketch_map(shapes: MapShapes, *, size_px: tuple[int, int] = SIZE_PX) -> UInt8Array:
    """Return a whole map as a picture, RGB ``[H, W, 3]``."""
    bounds = np.concatenate([shapes.lanes.bounds_m, shapes.crosswalks.bounds_m])
    low, high = (bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)) if len(bounds) else (np.zeros(2), np.ones(2))
    scale = float((np.array(size_px) / np.maximum(high - low, 1.0)).min() * 0.95)
    view = View((low + high) / 2, scale, size_px)
    picture = _ground(view)
    _draw_map(picture, view, shapes)
    return picture


def _ground(view: View) -> UInt8Array:
    width, height = view.size_px
    return np.full((height, width, 3), _GROUND, np.uint8)


def _draw_map(picture: UInt8Array, view: View, shapes: MapShapes) -> None:
    lanes = _outlines_px(view, shapes.lanes)
    for outline in lanes:
        cv2.fillPoly(picture, [outline], _ROAD, cv2.LINE_AA, _SHIFT)
    for outline in lanes:
        cv2.polylines(picture, [outline], True, _BORDER, 1, cv2.LINE_AA, _SHIFT)
    for outline in _outlines_px(view, shapes.crosswalks):
        cv2.fillPoly(picture, [outline], _CROSSWALK, cv2.LINE_AA, _SHIFT)


def _outlines_px(view: View, outlines: Outlines) -> list[NumericArray]:
    return np.split(view.points_px(outlines.points_m), outlines.starts[1:-1].tolist()) if len(outlines) else []


def _draw_box(picture: UInt8Array, view: View, pose: NumericArray, size_m: NumericArray, color: _RGB) -> None:
    corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) / 2 * np.asarray(size_m, np.float64)
    turn = yaw_as_rotation33(float(pose[2]))[:2, :2]
    box = view.points_px(corners @ turn.T + np.asarray(pose[:2], np.float64))
    cv2.fillPoly(picture, [box], color, cv2.LINE_AA, _SHIFT)
