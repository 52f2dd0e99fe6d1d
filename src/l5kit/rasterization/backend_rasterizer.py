"""Rasterizer on a backend: draws the rasters of windows on a device."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from l5kit.data.device_log import DeviceLog
from l5kit.data.index.windows import TargetArrays, WindowArrays
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import UnsupportedValueError
from l5kit.rasterization.box_rasterizer import BOX_COLORS, BoxRasterizer, list_boxes_on_device
from l5kit.rasterization.combined_rasterizer import SemBoxRasterizer
from l5kit.rasterization.row_painting import Canvas, paint
from l5kit.rasterization.semantic_rasterizer import (
    COLOR_TABLE,
    SemanticRasterizer,
    list_shapes_on_device,
    send_outlines,
)
from l5kit.rasterization.stub_rasterizer import StubRasterizer

if TYPE_CHECKING:
    import torch

_WHITE = 255

_PIXELS_OF_WORD = 8

_METHODS = (
    "rasterize",
    "rasterize_planar",
    "rasterize_windows",
    "prepare",
    "draw_list",
    "render_semantic_map",
    "painter",
)
"""Methods that define a raster; an object that replaces one of them cannot be drawn on a device."""


def draws_on_device(rasterizer: object) -> bool:
    """Return whether a device can draw the rasters of a rasterizer.

    It can for boxes, the semantic map, both combined, and stubs, if they are exactly the classes of this package; not
    for aerial images or subclasses, whose methods run on the host only.
    """
    if type(rasterizer) is SemBoxRasterizer:
        return draws_on_device(rasterizer.box_rast) and draws_on_device(rasterizer.sem_rast)
    is_known = type(rasterizer) in (BoxRasterizer, SemanticRasterizer, StubRasterizer)
    return is_known and vars(rasterizer).keys().isdisjoint(_METHODS)


class BackendRasterizer:
    """Drawing of the rasters of a rasterizer on a backend, bit for bit like its painter.

    Args:
        rasterizer: A rasterizer for which :func:`draws_on_device` is true; it is only read.
        backend: The backend, to which the map is sent.

    Raises:
        UnsupportedValueError: A device cannot draw it.
    """

    def __init__(self, rasterizer: Any, backend: Backend) -> None:
        if not draws_on_device(rasterizer):
            raise UnsupportedValueError(
                f"{rasterizer!r} cannot be drawn on a device; use py_semantic, box_debug, semantic_debug or stub_debug "
                "without model_params.route"
            )
        self._shape = rasterizer.images_shape(1)[1:]
        self._is_float = rasterizer.image_dtype == "float32"
        boxes = getattr(rasterizer, "box_rast", rasterizer if isinstance(rasterizer, BoxRasterizer) else None)
        self._boxes = None if boxes is None else boxes.drawing
        self._box_colors = backend.upload_one(BOX_COLORS)
        of_map = getattr(rasterizer, "sem_rast", rasterizer if isinstance(rasterizer, SemanticRasterizer) else None)
        self._map = None
        if of_map is not None:
            self._map = send_outlines(of_map.outlines, of_map.grid, of_map.lights, colors=COLOR_TABLE, backend=backend)

    def scratch_bytes(self, most_agents: int) -> int:
        """Return the bytes of memory for drawing a window, without its raster.

        Args:
            most_agents: Largest number of agents in a frame of the log.
        """
        num_bytes = math.prod(self._shape) if self._is_float else 0
        if self._boxes is not None:
            num_bytes += self._boxes.bytes_per_window(most_agents)
        return num_bytes + (0 if self._map is None else self._map.bytes_per_window)

    def rasterize(
        self,
        log: DeviceLog,
        windows: WindowArrays,
        targets: TargetArrays,
        raster_from_world: DeviceArray,
        centers_m: DeviceArray,
    ) -> "torch.Tensor":
        """Return the rasters of B windows.

        Args:
            log: The log.
            windows: The windows.
            targets: The agents of interest.
            raster_from_world: Pixels from world metres for each window, float64 (B, 3, 3).
            centers_m: World x and y of the centre of each raster, float64 (B, 2).

        Returns:
            Shape (B, channels, height, width), uint8, or float32 from 0 to 1.
        """
        backend, (channels, height, width) = log.backend, self._shape
        num_windows = int(centers_m.shape[0])
        num_pixels = num_windows * channels * height * width
        pixels = backend.zeros(-(-num_pixels // _PIXELS_OF_WORD) * _PIXELS_OF_WORD, np.uint8)
        pictures = backend.tensor(pixels)[:num_pixels].view(num_windows, channels, height, width)
        canvas = Canvas(pixels, backend.view(pixels, np.uint64), height, width)
        if self._boxes is not None:
            boxes = list_boxes_on_device(
                log,
                windows,
                targets,
                raster_from_world,
                drawing=self._boxes,
                colors=self._box_colors,
                planes_per_window=channels,
            )
            paint(backend, canvas, num_windows * self._boxes.planes_shape[0], boxes)
        if self._map is not None:
            pictures[:, -3:] = _WHITE
            size, planes = (width, height), (channels, channels - 3)
            elements = list_shapes_on_device(
                self._map, log, windows, centers_m, raster_from_world, raster_size=size, planes=planes
            )
            paint(backend, canvas, num_windows, elements)
        if not self._is_float:
            return pictures

        # divide by an array as on the host: with a Python number, a GPU would multiply by its inverse
        import torch

        return torch.div(pictures, torch.full((), 255.0, dtype=torch.float32, device=pictures.device))
