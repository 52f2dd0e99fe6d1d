"""Painters: what turns draw lists into pictures."""

from typing import Protocol, TypeVar

from l5kit.rasterization.draw_list import DrawList

_Images = TypeVar("_Images", contravariant=True)


class Painter(Protocol[_Images]):
    """Paints draw lists into one kind of arrays: of NumPy, or of a device.

    All painters give the same bits. Several threads may use one at once.
    """

    def paint(self, draw_list: DrawList, index: int, planes: _Images, /) -> None:
        """Paint one window.

        Args:
            draw_list: What to paint, of B windows.
            index: The window.
            planes: Overwritten whatever they held: uint8, C-contiguous, shape (channels, height, width).
        """

    def paint_batch(self, draw_list: DrawList, images: _Images, /) -> None:
        """Paint all windows.

        Args:
            draw_list: What to paint, of B windows.
            images: Overwritten whatever they held: C-contiguous, shape (B, channels, height, width), uint8, or float32
                for the bytes divided by 255.
        """
