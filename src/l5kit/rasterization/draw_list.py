"""Draw lists: the content of the rasters of a batch of windows, as arrays that any painter can draw.

A rasterizer makes a draw list (:meth:`l5kit.rasterization.planar_rasterizer.PlanarRasterizer.draw_list`); a painter
(:mod:`l5kit.rasterization.painter`) turns it into planes of bytes. The list does not depend on the painter: it holds
plain arrays and numbers, can be pickled, and can be copied to a device.

An image is ``planes_shape`` = (channels, height, width) bytes. Coordinates are (column, row), and pixel (0, 0) is the
top left one; whole coordinates are the centres of pixels. Planes of float32 hold the same bytes divided by 255, rounded
to the nearest float32.
"""

import operator
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import FloatArray, Int32Array, Int64Array, NumericArray, UInt8Array
from l5kit.configs.parameters import OUT_OF_BOUNDS_MODES
from l5kit.data.array_shapes import refuse_shapes, require_shapes
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization.satellite_image import AerialImage

PlanesShape: TypeAlias = tuple[int, int, int]
"""Channels, height and width of an image."""

FILLED: Final[Any] = np.int64(0)
OPEN_LINE: Final[Any] = np.int64(1)
CLOSED_LINE: Final[Any] = np.int64(2)
"""Kinds of shapes: contours filled by the even-odd rule over all of them together, and lines one pixel thick.

They are NumPy numbers, as numba compiles a callee again for each literal that it is passed.
"""


_NO_ROWS: Final[Int64Array] = np.empty((0, 0, 2), np.int64)


def _kind_of(array: NumericArray) -> tuple[object, ...]:
    """Return dtype, number of axes, size of the last axis and memory order of an array, for comparison."""
    return array.dtype, array.ndim, array.shape[-1] if array.ndim > 1 else 0, array.flags.c_contiguous


_KINDS: Final = (
    (np.dtype(np.int32), 2, 2, True),
    (np.dtype(np.int64), 2, 2, True),
    (np.dtype(np.int64), 2, 5, True),
    (np.dtype(np.int64), 1, 0, True),
)
"""Arrays of a :class:`ShapeList`: points, contours, shapes, starts."""

_ARRAYS: Final = ("points", "contours", "shapes", "starts", "colors", "rows")
"""Attributes of a :class:`ShapeList` that hold arrays; the last one may be None."""

_KIND_OF_ROWS: Final = (np.dtype(np.int64), 3, 2, True)


@dataclass(frozen=True)
class ShapeList:
    """Filled contours and lines of B windows, for boxes and the semantic map.

    To paint window i, set all its planes to ``background``, then draw the shapes ``starts[i]`` to ``starts[i + 1]``
    over each other in this order. Each is a row of ``shapes`` with five numbers: its kind (:data:`FILLED`,
    :data:`OPEN_LINE` or :data:`CLOSED_LINE`), its first contour, the end of its contours (not included), its colour (a
    row of ``colors``), and its first plane; it is drawn in as many planes as colours have channels.

    A filled shape is everything inside an odd number of its contours, so overlapping contours leave a hole; contours
    that should not cancel are separate shapes. Its outline is drawn as well. A line goes from point to point of each of
    its contours, a closed one back to the first. The pixels are those of OpenCV's ``fillPoly`` and ``polylines`` with
    ``shift=9`` and ``lineType=LINE_AA`` (:mod:`l5kit.rasterization.painter` describes the method): inside, the pixel
    becomes the colour; under an anti-aliased line with a weight of w 256ths, a value v under a colour c becomes m(m(v))
    with m(v) = (v (256 - w) + c w + 127) // 256.

    Checked lists are immutable: unless ``known_most_points`` is given, a list keeps read-only copies of its arrays.

    Attributes:
        points: Column and row in 512ths of a pixel, int32 (P, 2).
        contours: First point and end point of each contour, int64 (K, 2); the end is not included.
        shapes: Kind, first contour, end of its contours, colour and first plane of each shape, int64 (S, 5).
        starts: First shape of each window and the end of the last one, int64 (B + 1,).
        colors: uint8 (colours, channels of a colour).
        planes_shape: Channels, height and width of an image.
        background: Initial value of planes, 0 to 255.
        rows: First row and end row of each plane that shapes may touch, int64 (B, channels, 2), which lets painters
            skip the rest; they contain the points of all shapes and three rows around. None for all rows.
        known_most_points: Given by callers that guarantee valid arrays, which are then neither checked nor copied, and
            must not be written to any more.
        most_points: Upper bound of the points of any filled shape, and so of its edges. Derived, or the given value.

    Raises:
        InvalidArgumentError: Shapes or dtypes do not fit, an index is outside of its array, or ``planes_shape`` or
            ``background`` are not whole numbers in their range.
    """

    points: Int32Array
    contours: Int64Array
    shapes: Int64Array
    starts: Int64Array
    colors: UInt8Array
    planes_shape: PlanesShape
    background: int = 0
    rows: Int64Array | None = None
    known_most_points: InitVar[int | None] = None
    most_points: int = field(init=False)

    def __post_init__(self, known_most_points: int | None) -> None:
        if known_most_points is not None:
            object.__setattr__(self, "most_points", known_most_points)
            return
        self._take_integers()
        rows = _NO_ROWS if self.rows is None else self.rows
        kinds = (_kind_of(self.points), _kind_of(self.contours), _kind_of(self.shapes), _kind_of(self.starts))
        if kinds != _KINDS or self.colors.dtype != np.uint8 or self.colors.ndim != 2 or _kind_of(rows) != _KIND_OF_ROWS:
            named = {name: getattr(self, name) for name in _ARRAYS}
            got = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in named.items() if array is not None)
            raise InvalidArgumentError(
                "ShapeList: arrays must be C-contiguous: points int32 (P, 2), contours int64 (K, 2), shapes int64 "
                "(S, 5), starts int64 (B + 1,), colors uint8 (colours, channels), rows int64 (B, channels, 2); got "
                f"{got}"
            )
        if len(self.starts) == 0 or not 0 <= self.background <= 255:
            raise InvalidArgumentError(
                f"ShapeList: starts {self.starts.shape} must have B + 1 entries, and background {self.background} must "
                "be from 0 to 255"
            )
        shape = (len(self), self.planes_shape[0], 2)
        if rows is not _NO_ROWS and rows.shape != shape:
            refuse_shapes(self, rows=shape)

        # keep read-only copies, so that checked arrays cannot change
        for name in _ARRAYS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.array(getattr(self, name)))
        rows = _NO_ROWS if self.rows is None else self.rows
        fault, position, most_points = _check_shapes(
            self.points, self.shapes, self.contours, self.starts, rows, self.planes_shape, self.colors.shape
        )
        if fault != _NO_FAULT:
            raise InvalidArgumentError(f"ShapeList: {self._describe(fault, position)}")
        object.__setattr__(self, "most_points", most_points)
        for name in _ARRAYS:
            if getattr(self, name) is not None:
                getattr(self, name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __reduce__(self) -> tuple[object, ...]:
        """Return class and fields, so that the receiver checks them again."""
        known_most_points = self.most_points if self.points.flags.writeable else None
        arrays = self.points, self.contours, self.shapes, self.starts, self.colors
        return type(self), (*arrays, self.planes_shape, self.background, self.rows, known_most_points)

    def _take_integers(self) -> None:
        """Convert to Python integers, and refuse other objects."""
        for name in _ARRAYS:
            if not isinstance(getattr(self, name), np.ndarray) and not (name == "rows" and self.rows is None):
                raise InvalidArgumentError(
                    f"ShapeList: {name} is a {type(getattr(self, name)).__name__}; pass an array"
                )
        try:
            channels, height, width = map(operator.index, self.planes_shape)
            background = operator.index(self.background)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"ShapeList: planes_shape {self.planes_shape!r} must be three whole numbers, channels, height and "
                f"width, and background {self.background!r} one from 0 to 255"
            ) from error
        if min(channels, height, width) < 0:
            raise InvalidArgumentError(f"ShapeList: planes_shape {self.planes_shape} must not be negative")
        object.__setattr__(self, "planes_shape", (channels, height, width))
        object.__setattr__(self, "background", background)

    def _describe(self, fault: int, position: int) -> str:
        if fault == _WRONG_STARTS:
            return f"starts must ascend up to at most the number of shapes, {len(self.shapes)}; got {self.starts}"
        if fault == _WRONG_ROWS:
            window, plane = divmod(position, self.planes_shape[0])
            return (
                f"rows of plane {plane} of window {window} must ascend, be among {self.planes_shape[1]} rows, and hold "
                f"its shapes and {_MARGIN_PX} rows around them"
            )
        return (
            f"shape {position}, {self.shapes[position].tolist()}, must be of kind 0, 1 or 2, of contours among "
            f"{len(self.contours)} whose points are among {len(self.points)}, in one of {len(self.colors)} colours of "
            f"{self.colors.shape[1]} channels, and in planes among {self.planes_shape[0]}"
        )


@dataclass(frozen=True)
class CropList:
    """Crops of an aerial image for B windows, rotated and scaled to the raster.

    To paint window i, rotate the aerial image by ``angles_rad[i]`` around ``centers[i]``, take its central
    ``num_aerial_pixels``, scale these to a square of the longer side of the raster, and write the centre of that into
    the three planes, the last row first if ``upside_down``. The rounding of each step is defined in
    :mod:`l5kit.rasterization.satellite_image` (``write_scaled_crop``) and, for OpenCV's ``INTER_LINEAR``, in
    :mod:`l5kit.rasterization.turned_crop`, with integer arithmetic throughout.

    Attributes:
        picture: The aerial image, RGB; pickled as the path of its file, if it has one.
        centers: Row and column in ``picture``, float64 (B, 2).
        angles_rad: Counter-clockwise rotations, (B,); they are converted to degrees in their dtype.
        num_aerial_pixels: Rows and columns of the rotated image in a crop.
        planes_shape: Channels, which are three, height and width of an image.
        interpolation: OpenCV's name of the interpolation.
        out_of_bounds: ``error`` if the aerial image ends inside a crop, or ``pad`` for black there.
        upside_down: Whether the last row of a crop is the first row of the planes.

    Raises:
        InvalidArgumentError: The shapes do not fit.
        UnsupportedValueError: There is no such value of ``out_of_bounds``.
    """

    picture: AerialImage
    centers: FloatArray
    angles_rad: FloatArray
    num_aerial_pixels: tuple[int, int]
    planes_shape: PlanesShape
    interpolation: int
    out_of_bounds: str
    upside_down: bool

    def __post_init__(self) -> None:
        require_shapes(self, centers=(len(self), 2), angles_rad=(len(self),))
        if self.planes_shape[0] != 3 or min(self.num_aerial_pixels) < 1:
            raise InvalidArgumentError(
                f"CropList: planes_shape {self.planes_shape} must have three channels, and num_aerial_pixels "
                f"{self.num_aerial_pixels} must be positive"
            )
        if self.out_of_bounds not in OUT_OF_BOUNDS_MODES:
            raise UnsupportedValueError(f"out_of_bounds is {self.out_of_bounds!r}; use one of {OUT_OF_BOUNDS_MODES}")

    def __len__(self) -> int:
        return len(self.angles_rad)


@dataclass(frozen=True)
class PictureList:
    """Finished images of B windows that were drawn elsewhere.

    Attributes:
        pictures: Content of the planes, uint8 (B, channels, height, width).

    Raises:
        InvalidArgumentError: The images have another number of axes or another dtype.
    """

    pictures: UInt8Array

    def __post_init__(self) -> None:
        if self.pictures.ndim != 4 or self.pictures.dtype != np.uint8:
            raise InvalidArgumentError(
                f"PictureList: pictures must be uint8 (B, channels, height, width), got {self.pictures.dtype} "
                f"{self.pictures.shape}"
            )

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def planes_shape(self) -> PlanesShape:
        """Channels, height and width of an image."""
        _, *shape = self.pictures.shape
        return shape[0], shape[1], shape[2]


@dataclass(frozen=True)
class BlankList:
    """Black images of B windows.

    Attributes:
        num_windows: B.
        planes_shape: Channels, height and width of an image.
    """

    num_windows: int
    planes_shape: PlanesShape

    def __len__(self) -> int:
        return self.num_windows


@dataclass(frozen=True)
class StackedList:
    """Draw lists of the same B windows, each for its own planes, in order.

    Attributes:
        parts: At least one; kept as a tuple.
        planes_shape: Channels of all, height and width of an image.

    Raises:
        InvalidArgumentError: ``parts`` is empty, or its numbers of windows, rows or columns differ.
    """

    parts: Sequence["DrawList"]
    planes_shape: PlanesShape = field(init=False)

    def __post_init__(self) -> None:
        parts, num_channels = tuple(self.parts), 0
        size = (len(parts[0]), parts[0].planes_shape[1:]) if parts else None
        for part in parts:
            num_channels += part.planes_shape[0]
            if (len(part), part.planes_shape[1:]) != size:
                size = None
        if size is None:
            sizes = [(len(part), *part.planes_shape[1:]) for part in parts]
            raise InvalidArgumentError(
                f"StackedList: parts must have the same numbers of windows, rows and columns, got {sizes}"
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "planes_shape", (num_channels, *size[1]))

    def __len__(self) -> int:
        return len(self.parts[0])


DrawList: TypeAlias = ShapeList | CropList | PictureList | BlankList | StackedList
"""A draw list of any kind."""


def touched_rows(draw_list: DrawList) -> Int64Array:
    """Return the rows of each plane that may not be 0: first row and end row, (B, channels, 2)."""
    rows = np.zeros((len(draw_list), draw_list.planes_shape[0], 2), np.int64)
    _write_touched_rows(draw_list, rows)
    return rows


def _write_touched_rows(draw_list: DrawList, rows: Int64Array) -> None:
    """Write the result of :func:`touched_rows` to zeros."""
    if isinstance(draw_list, StackedList):
        end = 0
        for part in draw_list.parts:
            first, end = end, end + part.planes_shape[0]
            _write_touched_rows(part, rows[:, first:end])
    elif isinstance(draw_list, ShapeList) and draw_list.rows is not None and draw_list.background == 0:
        rows[:] = draw_list.rows
    elif not isinstance(draw_list, BlankList):
        rows[..., 1] = draw_list.planes_shape[1]


_POINT_SHIFT: Final = 9
"""Fractional bits of points."""

_NO_FAULT: Final = 0
_WRONG_STARTS: Final = 1
_WRONG_ROWS: Final = 2
_WRONG_SHAPE: Final = 3


_MARGIN_PX: Final = 3
"""Rows around its points that a shape may touch: two, and one for the rounding of corners to whole rows."""


@kernel_jit
def _check_shapes(
    points: Int32Array,
    shapes: Int64Array,
    contours: Int64Array,
    starts: Int64Array,
    rows: Int64Array,
    planes_shape: PlanesShape,
    colors_shape: tuple[int, int],
) -> tuple[int, int, int]:
    """Return the error of a :class:`ShapeList`, its location, and the most points of a filled shape."""
    num_colors, num_channels = colors_shape
    before = 0
    for window in range(len(starts)):
        if not before <= starts[window] <= len(shapes):
            return _WRONG_STARTS, window, 0
        before = starts[window]
    for window in range(len(rows)):
        for plane in range(planes_shape[0]):
            if not 0 <= rows[window, plane, 0] <= rows[window, plane, 1] <= planes_shape[1]:
                return _WRONG_ROWS, window * planes_shape[0] + plane, 0

    # each shape has a valid kind, and existing contours, points and planes
    most_points = 0
    for shape in range(len(shapes)):
        kind, first, end = shapes[shape, 0], shapes[shape, 1], shapes[shape, 2]
        if not (
            FILLED <= kind <= CLOSED_LINE
            and 0 <= first <= end <= len(contours)
            and 0 <= shapes[shape, 3] < num_colors
            and 0 <= shapes[shape, 4] <= planes_shape[0] - num_channels
        ):
            return _WRONG_SHAPE, shape, 0
        num_points = 0
        for contour in range(first, end):
            if not 0 <= contours[contour, 0] <= contours[contour, 1] <= len(points):
                return _WRONG_SHAPE, shape, 0
            num_points += contours[contour, 1] - contours[contour, 0]
        if kind == FILLED:
            most_points = max(most_points, num_points)

    # the rows that a shape may touch, with a margin, must be within those of its planes
    for window in range(len(rows)):
        for shape in range(starts[window], starts[window + 1]):
            low, high = planes_shape[1], 0
            for contour in range(shapes[shape, 1], shapes[shape, 2]):
                for point in range(contours[contour, 0], contours[contour, 1]):
                    row: Any = np.int64(points[point, 1]) >> _POINT_SHIFT
                    low, high = min(low, row - _MARGIN_PX), max(high, row + _MARGIN_PX + 1)
            low, high = max(low, 0), min(high, planes_shape[1])
            for plane in range(shapes[shape, 4], shapes[shape, 4] + num_channels):
                if low < high and not (rows[window, plane, 0] <= low and high <= rows[window, plane, 1]):
                    return _WRONG_ROWS, window * planes_shape[0] + plane, 0
    return _NO_FAULT, 0, most_points
