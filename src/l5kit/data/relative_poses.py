"""Relative poses: where tracks are in frames, as seen from somewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import Float32Array, NumericArray
from l5kit.data.array_shapes import refuse_shapes

NewArray = Callable[[tuple[int, ...], DTypeLike], Any]
"""Makes an array of a shape and type: ``np.zeros``, or ``empty`` of a backend."""


class PoseArrays(NamedTuple):
    """The arrays of :class:`RelativePoses` inside kernels, which take a plain tuple: it is cheapest to hand over."""

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: NumericArray


@dataclass(frozen=True)
class RelativePoses:
    """Where tracks are in each of N frames, as seen from a pose; frames without the track hold zeros.

    The arrays are those of NumPy, or all of one device.

    Attributes:
        positions_m: (..., N, 2) float32, x forward, y left.
        yaws_rad: (..., N, 1) float32, in [-pi, pi).
        extents_m: Length and width, (..., N, 2) float32.
        availabilities: Whether the track is in the frame, (..., N): bool, or 1 and 0 in float32.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: NumericArray

    def __post_init__(self) -> None:
        shape = self.availabilities.shape
        twos, ones = (*shape, 2), (*shape, 1)
        if self.positions_m.shape != twos or self.yaws_rad.shape != ones or self.extents_m.shape != twos:
            refuse_shapes(self, positions_m=twos, yaws_rad=ones, extents_m=twos)

    @classmethod
    def of_no_track(cls, *shape: int) -> "RelativePoses":
        """Return zeros (..., N), for tracks that are in no frame."""
        return cls.new(np.zeros, *shape, availabilities=np.bool_)

    @classmethod
    def new(cls, make: NewArray, *shape: int, availabilities: DTypeLike) -> "RelativePoses":
        """Return poses (..., N) to be written.

        Args:
            make: Makes the arrays.
            *shape: The shape.
            availabilities: The type of these, bool or float32.
        """
        return cls(
            make((*shape, 2), np.float32),
            make((*shape, 1), np.float32),
            make((*shape, 2), np.float32),
            make(shape, availabilities),
        )

    @property
    def flags(self) -> Any:
        """The availabilities as new bools: an array for arrays, a tensor for tensors."""
        known = self.availabilities
        return known.astype(np.bool_) if isinstance(known, np.ndarray) else known != 0

    def mapped(self, view: Callable[[Any], Any]) -> "RelativePoses":
        """Return the same with what a function makes of each array, such as the tensor of an array of a device."""
        return RelativePoses(*map(view, self.as_arrays()))

    def as_arrays(self) -> tuple[NumericArray, ...]:
        """Return the four arrays, in the order of :class:`PoseArrays`."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities
