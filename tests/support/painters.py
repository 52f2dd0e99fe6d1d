"""Slow reference painter, written from the description of draw lists with NumPy and OpenCV alone."""

import math
from typing import Any

import cv2
import numpy as np

from l5kit.rasterization.draw_list import (
    CLOSED_LINE,
    FILLED,
    BlankList,
    CropList,
    DrawList,
    PictureList,
    ShapeList,
    StackedList,
)

_SUBPIXEL: Any = {"shift": 9, "lineType": cv2.LINE_AA}


class SlowPainter:
    """Paints each shape by a call of OpenCV; aerial pictures have the bits of OpenCV 4."""

    def paint(self, draw_list: DrawList, index: int, planes: np.ndarray) -> None:
        if isinstance(draw_list, StackedList):
            first = 0
            for part in draw_list.parts:
                end = first + part.planes_shape[0]
                self.paint(part, index, planes[first:end])
                first = end
        elif isinstance(draw_list, ShapeList):
            paint_shapes(draw_list, index, planes)
        elif isinstance(draw_list, CropList):
            planes[:] = crop_slowly(draw_list, index).transpose(2, 0, 1)
        else:
            assert isinstance(draw_list, BlankList | PictureList)
            planes[:] = 0 if isinstance(draw_list, BlankList) else draw_list.pictures[index]

    def paint_batch(self, draw_list: DrawList, images: np.ndarray) -> None:
        for index, image in enumerate(images):
            planes = np.empty(image.shape, np.uint8)
            self.paint(draw_list, index, planes)
            image[...] = planes if image.dtype == np.uint8 else planes.astype(np.float32) / np.float32(255)


def paint_shapes(shapes: ShapeList, index: int, planes: np.ndarray) -> None:
    planes[:] = shapes.background
    for kind, first, end, color, plane in shapes.shapes[shapes.starts[index] : shapes.starts[index + 1]]:
        contours = [shapes.points[slice(*contour)] for contour in shapes.contours[first:end]]
        drawn = slice(plane, plane + shapes.colors.shape[1])
        picture, value = cv2.merge(list(planes[drawn])), shapes.colors[color].tolist()
        if kind == FILLED:
            cv2.fillPoly(picture, contours, value, **_SUBPIXEL)
        else:
            cv2.polylines(picture, contours, bool(kind == CLOSED_LINE), value, **_SUBPIXEL)
        planes[drawn] = np.atleast_3d(picture).transpose(2, 0, 1)


def crop_slowly(crops: CropList, index: int) -> np.ndarray:
    """Return a crop, black where the aerial picture has nothing, (height, width, 3)."""
    height, width = crops.planes_shape[1:]
    side, frame = max(height, width), 4000
    large = np.ceil(np.array(crops.num_aerial_pixels) * math.sqrt(2)).astype(np.int64)
    start = (crops.centers[index] - large // 2).astype(np.int64) + frame  # cut off toward zero
    framed = np.pad(crops.picture.pixels, ((frame, frame), (frame, frame), (0, 0)))
    upright = framed[start[0] : start[0] + large[0], start[1] : start[1] + large[1]]
    num_rows, num_columns = large.tolist()
    turn = cv2.getRotationMatrix2D((num_columns / 2, num_rows / 2), float(np.degrees(crops.angles_rad[index])), 1)
    turned = take_middle(cv2.warpAffine(upright, turn, (num_columns, num_rows)), crops.num_aerial_pixels)
    scaled = take_middle(cv2.resize(turned, (side, side), interpolation=crops.interpolation), (height, width))
    return scaled[::-1] if crops.upside_down else scaled


def take_middle(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    row, column = (int(picture.shape[axis] / 2 - size[axis] / 2) for axis in (0, 1))
    return picture[row : row + size[0], column : column + size[1]]
