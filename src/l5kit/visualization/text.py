"""Text in pictures, in the font that ships with Pillow, so that it looks the same on every machine."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import as_rgb

_ELLIPSIS = "..."


def text_size_px(text: str, *, size_px: int) -> tuple[int, int]:
    """Return ``(width, height)`` in pixels of a line of text; the height does not depend on its letters."""
    font = ImageFont.load_default(size_px)
    width = font.getbbox(_printable(text))[2]
    height = font.getbbox("|")[3]
    return int(np.ceil(width)), int(np.ceil(height))


def fitted_text(text: str, *, width_px: int, size_px: int) -> str:
    """Return the text, shortened by an ellipsis at its end if it does not fit into the width."""
    font = ImageFont.load_default(size_px)
    text = _printable(text)
    shortened = (text[:end].rstrip() + _ELLIPSIS for end in range(len(text) - 1, 0, -1))
    return next((line for line in (text, *shortened) if font.getbbox(line)[2] <= width_px), "")


def draw_text(
    image: NumericArray,
    texts: list[str],
    positions_px: NumericArray,
    *,
    rgb_color: tuple[int, int, int],
    size_px: int = 13,
    outline_rgb: tuple[int, int, int] | None = None,
) -> UInt8Array:
    """Return a copy of the picture with one line of text at each position.

    Args:
        image: uint8 picture in any form that :func:`l5kit.visualization.images.as_rgb` accepts.
        texts: N lines of ASCII letters; other letters become question marks, since the font lacks them.
        positions_px: ``[N, 2]`` upper left corners as (column, row).
        rgb_color: Red, green and blue, each 0 to 255.
        size_px: Font size.
        outline_rgb: Colour of a one-pixel outline of the letters, legible on any background; None for no outline.

    Returns:
        uint8 ``[H, W, 3]``.

    Raises:
        InvalidArgumentError: There is not one position per text, or the picture has a wrong form.
    """
    points_px = np.asarray(positions_px, dtype=np.float64).reshape(-1, 2)
    if len(points_px) != len(texts):
        raise InvalidArgumentError(f"positions_px has {len(points_px)} rows for {len(texts)} texts; give one per text")
    picture = Image.fromarray(as_rgb(image))
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size_px)
    for text, (column, row) in zip(texts, points_px.tolist(), strict=True):
        pen.text(
            (column, row),
            _printable(text),
            fill=rgb_color,
            font=font,
            stroke_width=0 if outline_rgb is None else 1,
            stroke_fill=outline_rgb,
        )
    return np.array(picture, dtype=np.uint8)


def _printable(text: str) -> str:
    return text.encode("ascii", errors="replace").decode("ascii")
