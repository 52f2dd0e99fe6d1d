"""Render context: size, scale and orientation of a raster, and the transforms that follow from them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, FloatArray, NumericArray
from l5kit.configs.parameters import RasterGeometry
from l5kit.errors import InvalidArgumentError, UnsupportedConfigError, UnsupportedValueError
from l5kit.geometry.transform import compute_agent_pose, compute_agent_poses, vertical_flip


@dataclass(frozen=True, eq=False)
class RenderContext:
    """Geometry of a raster: position of the agent of interest, orientation, and metres per pixel.

    The agent always points in the direction of increasing columns. Pixel coordinates are (column, row); pixel (0, 0) is
    at the top left. The attributes are read-only arrays; to change one, create a new object.

    Attributes:
        raster_size_px: Width and height, integers, shape (2,).
        pixel_size_m: Metres per pixel along columns and rows, equal, shape (2,).
        center_in_raster_ratio: Position of the agent as fractions of width and height, with the height counted from the
            bottom or the top according to ``set_origin_to_bottom``, shape (2,).
        set_origin_to_bottom: Whether the left side of the agent is up in the raster (otherwise down).
        raster_from_local: Pixels from metres in the frame of the agent, float64 (3, 3).

    Raises:
        InvalidArgumentError: A pair has the wrong shape, or a size is not positive.
        UnsupportedValueError: The two pixel sizes differ.
    """

    raster_size_px: NumericArray
    pixel_size_m: NumericArray
    center_in_raster_ratio: NumericArray
    set_origin_to_bottom: bool
    raster_from_local: Float64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("raster_size_px", "pixel_size_m", "center_in_raster_ratio"):
            value = getattr(self, name)
            pair = np.array(value)
            if pair.shape != (2,) or pair.dtype.kind not in "iuf":
                raise InvalidArgumentError(f"{name} is {value!r}; pass two numbers")
            object.__setattr__(self, name, _frozen(pair))
        size_px, pixel_m = self.raster_size_px, self.pixel_size_m
        if (size_px < 1).any() or (size_px != np.floor(size_px)).any():
            raise InvalidArgumentError(f"raster_size_px is {size_px}; pass width and height as whole numbers above 0")
        object.__setattr__(self, "raster_size_px", _frozen(size_px.astype(np.int64)))
        if not (pixel_m > 0).all():
            raise InvalidArgumentError(f"pixel_size_m is {pixel_m.tolist()}; pass metres per pixel above 0")
        if pixel_m[0] != pixel_m[1]:
            raise UnsupportedValueError(
                f"pixel_size_m is {pixel_m.tolist()}; pixels must be square, pass the same number twice"
            )

        # scale and shift metres ahead and to the left of the agent; flip if its left side is up
        scale, center_px = 1.0 / pixel_m, self.center_in_raster_ratio * self.raster_size_px
        from_local = np.array([[scale[0], 0.0, center_px[0]], [0.0, scale[1], center_px[1]], [0.0, 0.0, 1.0]])
        if self.set_origin_to_bottom:
            from_local = vertical_flip(from_local, self.raster_size_px[1])
        object.__setattr__(self, "raster_from_local", _frozen(from_local))

    @classmethod
    def from_geometry(cls, geometry: RasterGeometry) -> "RenderContext":
        """Return the context that the ``raster_params`` of a configuration describe.

        Raises:
            UnsupportedConfigError: Pixels are not square.
        """
        if geometry.pixel_size_m[0] != geometry.pixel_size_m[1]:
            raise UnsupportedConfigError(
                "raster_params.pixel_size: expected the same number twice, as pixels must be square, got "
                f"{list(geometry.pixel_size_m)}"
            )
        return cls(
            np.array(geometry.raster_size_px),
            np.array(geometry.pixel_size_m),
            np.array(geometry.center_in_raster_ratio),
            geometry.set_origin_to_bottom,
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, RenderContext) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def raster_from_world(self, position_m: ArrayLike, angle_rad: float) -> Float64Array:
        """Return the transform from world metres to pixels when the agent of interest has the given pose.

        Args:
            position_m: World position; only x and y are used, shape (>= 2,).
            angle_rad: World heading. Sine and cosine are taken in float32 when it is a ``np.float32``.

        Returns:
            Shape (3, 3).
        """
        world_from_local = compute_agent_pose(np.asarray(position_m)[:2], angle_rad)
        raster_from_world: Float64Array = self.raster_from_local @ np.linalg.inv(world_from_local)
        return raster_from_world

    def raster_from_world_many(self, positions_m: FloatArray, yaws_rad: FloatArray) -> Float64Array:
        """Return the transforms for many poses, bitwise equal to :meth:`raster_from_world`.

        Args:
            positions_m: World positions, shape (B, 2).
            yaws_rad: World headings, shape (B,); sine and cosine are taken in their precision.

        Returns:
            Shape (B, 3, 3).
        """
        return self.raster_from_poses(compute_agent_poses(positions_m, np.ascontiguousarray(yaws_rad)))

    def raster_from_poses(self, world_from_local: Float64Array) -> Float64Array:
        """Return the transforms for many poses as matrices, both (B, 3, 3)."""
        raster_from_world: Float64Array = self.raster_from_local @ np.linalg.inv(world_from_local)
        return raster_from_world

    def _key(self) -> tuple[object, ...]:
        pairs = (self.raster_size_px, self.pixel_size_m, self.center_in_raster_ratio)
        return (*(tuple(pair.tolist()) for pair in pairs), bool(self.set_origin_to_bottom))


def _frozen(array: NumericArray) -> NumericArray:
    array.setflags(write=False)
    return array
