"""Rasterizer on a device: pictures of windows that lie on the device, drawn there."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import UnsupportedValueError
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.device_boxes import DeviceBoxes, bytes_of_boxes
from l5kit.rasterization.device_map import DeviceMap
from l5kit.rasterization.row_painting import Canvas, ShapeArrays, paint_row
from l5kit.rasterization.sem_box_rasterizer import SemBoxRasterizer
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.rasterization.stub_rasterizer import StubRasterizer

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceRasterizer", "draws_on_device", "paint"]

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
"""Methods that decide what a picture is, and may be replaced on an object."""


def draws_on_device(rasterizer: object) -> bool:
    """Return whether a device can draw what a rasterizer draws.

    It can for boxes, the semantic map, both of them, and black pictures, by the classes of this package themselves;
    not for aerial pictures, and not for subclasses, whose methods a device does not know.
    """
    if type(rasterizer) is SemBoxRasterizer:
        return draws_on_device(rasterizer.box_rast) and draws_on_device(rasterizer.sem_rast)
    is_known = type(rasterizer) in (BoxRasterizer, SemanticRasterizer, StubRasterizer)
    return is_known and vars(rasterizer).keys().isdisjoint(_METHODS)


class DeviceRasterizer:
    """Draws on a device what a rasterizer draws on the processor, to the bit.

    Args:
        rasterizer: One of which :func:`draws_on_device` is true; it is only read.
        backend: The device.

    Raises:
        UnsupportedValueError: A device cannot draw it.
    """

    def __init__(self, rasterizer: Any, backend: Backend) -> None:
        if not draws_on_device(rasterizer):
            raise UnsupportedValueError(
                f"{rasterizer!r} cannot be drawn on a device; use py_semantic, box_debug, semantic_debug or stub_debug "
                "without model_params.route"
            )
        self._backend = backend
        self._shape = rasterizer.images_shape(1)[1:]
        self._is_float = rasterizer.image_dtype == "float32"
        boxes = getattr(rasterizer, "box_rast", rasterizer if isinstance(rasterizer, BoxRasterizer) else None)
        of_map = getattr(rasterizer, "sem_rast", rasterizer if isinstance(rasterizer, SemanticRasterizer) else None)
        self._boxes = None if boxes is None else DeviceBoxes(boxes, backend)
        self._map = None if of_map is None else DeviceMap(of_map, backend)

    def scratch_bytes(self, most_agents: int) -> int:
        """Return how much memory a window takes while it is drawn, beside its picture.

        Args:
            most_agents: The most agents of any frame of the log.
        """
        num_bytes = math.prod(self._shape) if self._is_float else 0
        if self._boxes is not None:
            num_bytes += bytes_of_boxes(self._boxes.num_channels // 2, most_agents)
        return num_bytes + (0 if self._map is None else self._map.bytes_per_window)

    def rasterize(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        targets: DeviceTargets,
        raster_from_world: DeviceArray,
        centers_m: DeviceArray,
    ) -> "torch.Tensor":
        """Return the pictures of B windows.

        Args:
            log: The log.
            windows: What to draw.
            targets: The agents of interest.
            raster_from_world: Pixels from world metres for each window, float64 (B, 3, 3).
            centers_m: World x and y of the middle of each picture, float64 (B, 2).

        Returns:
            Shape (B, channels, height, width), uint8, or float32 from 0 to 1.
        """
        backend, (channels, height, width) = self._backend, self._shape
        num_windows = int(centers_m.shape[0])
        num_pixels = num_windows * channels * height * width
        pixels = backend.zeros(-(-num_pixels // _PIXELS_OF_WORD) * _PIXELS_OF_WORD, np.uint8)
        pictures = backend.tensor(pixels)[:num_pixels].view(num_windows, channels, height, width)
        canvas = Canvas(pixels, backend.view(pixels, np.uint64), height, width)
        if self._boxes is not None:
            drawn = self._boxes.list(log, windows, targets, raster_from_world, channels)
            paint(backend, canvas, num_windows * self._boxes.num_channels, drawn)
        if self._map is not None:
            pictures[:, -3:] = _WHITE
            listed = self._map.list(log, windows, centers_m, raster_from_world, (channels, channels - 3))
            paint(backend, canvas, num_windows, listed)
        return _as_values(pictures) if self._is_float else pictures


def paint(backend: Backend, canvas: Canvas, num_groups: int, drawn: tuple[DeviceArray, ...]) -> None:
    """Draw shapes, all rows of all groups at once.

    Args:
        backend: The device.
        canvas: Where, with the background.
        num_groups: How many groups there are.
        drawn: What is drawn, in the order of :class:`l5kit.rasterization.row_painting.ShapeArrays`.
    """
    backend.run(_paint, num_groups * canvas.height, tuple(canvas), drawn)


def _as_values(pictures: "torch.Tensor") -> "torch.Tensor":
    """Return bytes as float32 values from 0 to 1, each rounded as on the processor.

    The divisor is a tensor: by a number of Python, a GPU would multiply with its inverse.
    """
    import torch

    return torch.div(pictures, torch.full((), 255.0, dtype=torch.float32, device=pictures.device))


@njit(nogil=True, cache=True, error_model="numpy")
def _paint(item: int, arguments: tuple[Any, ...]) -> None:
    """Paint a row of a group."""
    canvas, drawn = arguments
    canvas = Canvas(*canvas)
    paint_row(canvas, item // canvas.height, item % canvas.height, ShapeArrays(*drawn))
