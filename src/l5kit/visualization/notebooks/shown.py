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
    """A picture that a notebook displays where it is the value of a cell.

    Attributes:
        content: The bytes of a PNG, or the UTF-8 text of an SVG.
        is_drawing: Whether it is an SVG.
    """

    content: bytes = field(repr=False)
    is_drawing: bool = False

    @classmethod
    def of_image(cls, image: NumericArray) -> "Picture":
        """Return the picture of an image.

        Args:
            image: uint8, as :func:`l5kit.visualization.images.as_rgb` takes it.

        Raises:
            InvalidArgumentError: Another type or shape.
        """
        return cls(bytes(cv2.imencode(".png", as_rgb(image)[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])[1]))

    @cached_property
    def image(self) -> UInt8Array:
        """RGB ``[H, W, 3]``, read-only.

        Raises:
            UnsupportedValueError: It is a drawing, which has no pixels.
        """
        if self.is_drawing:
            raise UnsupportedValueError("a drawing of a vector sample has no pixels; save it as a .svg")
        decoded = cv2.imdecode(np.frombuffer(self.content, np.uint8), cv2.IMREAD_COLOR)
        rgb = np.ascontiguousarray(np.asarray(decoded, np.uint8)[:, :, ::-1])
        rgb.setflags(write=False)
        return rgb

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a file, a ``.png`` or, if it is a drawing, a ``.svg``; an older one is replaced.

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
    """A table that a notebook displays where it is the value of a cell.

    Attributes:
        html: The table.
        text: The same for consoles.
    """

    html: str = field(repr=False)
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html


def image_element(image: UInt8Array, *, text: str) -> str:
    """Return an HTML image of at most some 55 kB: as PNG of 64 colours, or as JPEG where that would be larger.

    Args:
        image: RGB ``[H, W, 3]``.
        text: What is seen, for those who do not see it.
    """
    height, width = image.shape[:2]
    # drawings have few colours, of which a PNG is small; other pictures lose quality as JPEGs until they fit
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
