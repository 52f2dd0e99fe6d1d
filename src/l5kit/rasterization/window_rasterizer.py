"""Window rasterizer: what a rasterizer offers that draws batches of windows."""

from typing import Protocol, runtime_checkable

from l5kit._types import Column, NumericArray
from l5kit.data.windows import Targets, Windows


@runtime_checkable
class WindowRasterizer(Protocol):
    """A rasterizer that draws batches of windows, on the processor or on a device.

    Samplers ask for this protocol, not for a class: any object with these five members gets batches, and single samples
    as batches of one. It need not derive from a class of this package; viewers also ask for ``to_rgb``.
    """

    @property
    def draws_windows(self) -> bool:
        """Whether :meth:`rasterize_windows` can be used; else windows are drawn one by one by ``rasterize_planar``."""

    @property
    def image_dtype(self) -> str:
        """``float32`` for values from 0 to 1, ``uint8`` for bytes."""

    @property
    def image_device(self) -> str:
        """``cpu`` if rasters lie in memory of the processor, NumPy arrays as a rule; else the device of the tensors."""

    def images_shape(self, num_windows: int, /) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""

    def rasterize_windows(self, windows: Windows, targets: Targets, images: NumericArray | None = None, /) -> Column:
        """Return the rasters of a batch of windows.

        Args:
            windows: What to draw, the history of B windows.
            targets: The agents of interest, (B,).
            images: Memory for the result, C-contiguous, of :meth:`images_shape` and ``image_dtype``, whatever it holds;
                None for new memory, always where ``image_device`` is not ``cpu``.

        Returns:
            Shape (B, channels, height, width) of ``image_dtype``, on ``image_device``.
        """
