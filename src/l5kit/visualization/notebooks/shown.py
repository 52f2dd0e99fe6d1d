"""Pictures and tables as values that notebooks display."""

import base64
import io
import os
from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import DTypeLike
from PIL import Image

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import UnsupportedValueError
from l5kit.visualization.images import as_rgb

_ELEMENT_BYTES = 40_000
_JPEG_QUALITY = 80
_NUM_COLORS = 64


@dataclass(frozen=True)
class Picture:
    """A picture that a notebook displays as the value of a cell.

    Attributes:
        content: PNG data, or SVG text in UTF-8.
        is_drawing: Whether it is an SVG.
    """

    content: bytes = field(repr=False)
    is_drawing: bool = False

    @classmethod
    def of_image(cls, image: NumericArray) -> "Picture":
        """Return the picture of an image.

        Args:
            image: uint8 in any form that :func:`l5kit.visualization.images.as_rgb` accepts.

        Raises:
            InvalidArgumentError: The image has another type or shape.
        """
        return cls(bytes(cv2.imencode(".png", as_rgb(image)[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])[1]))

    @cached_property
    def image(self) -> UInt8Array:
        """RGB ``[H, W, 3]``, read-only.

        Raises:
            UnsupportedValueError: The picture is a drawing without pixels.
        """
        if self.is_drawing:
            raise UnsupportedValueError("a drawing of a vector sample has no pixels; save it as a .svg")
        decoded = cv2.imdecode(np.frombuffer(self.content, np.uint8), cv2.IMREAD_COLOR)
        rgb = np.ascontiguousarray(np.asarray(decoded, np.uint8)[:, :, ::-1])
        rgb.setflags(write=False)
        return rgb

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as a file, a ``.svg`` for drawings, else a ``.png``, replacing an older one.

        Raises:
            FileNotFoundError: The folder of ``path`` does not exist.
        """
        with replaced_when_complete(path, argument="path") as temporary:
            temporary.write_bytes(self.content)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> UInt8Array:
        return np.array(self.image, dtype=dtype, copy=True if copy is None else copy)

    def _repr_png_(self) -> bytes | None:
        return None if self.is_drawing else self.content

    def _repr_svg_(self) -> str | None:
        return self.content.decode("utf-8") if self.is_drawing else None


@dataclass(frozen=True)
class Table:
    """A table that a notebook displays as the value of a cell.

    Attributes:
        html: The table in HTML.
        text: The table for consoles.
    """

    html: str = field(repr=False)
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html


def image_element(image: UInt8Array, *, text: str) -> str:
    """Return an HTML image of at most about 55 kB: a PNG with 64 colours, or a JPEG if that would be larger.

    Args:
        image: RGB ``[H, W, 3]``.
        text: Description for screen readers.
    """
    height, width = image.shape[:2]
    # drawings have few colours, which suits PNG; other pictures become JPEGs of decreasing quality until they fit
    written = io.BytesIO()
    Image.fromarray(image).quantize(_NUM_COLORS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    kind, content, quality = "png", written.getvalue(), _JPEG_QUALITY
    while len(content) > _ELEMENT_BYTES and quality > 0:
        kind, content = "jpeg", bytes(cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1])
        quality -= 20
    data = base64.b64encode(content).decode("ascii")
    return (
        f'<img alt="{text}" width="{width}" height="{height}" style="max-width:100%;height:auto;border-radius:4px;'
        f'margin:4px 0" src="data:image/{kind};base64,{data}">'
    )
