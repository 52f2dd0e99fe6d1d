"""Contact sheet: many pictures in rows on one sheet."""

from collections.abc import Sequence

import numpy as np

from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import as_rgb
from l5kit.visualization.text import draw_text, fitted_text, text_size_px

_GROUND_RGB = (236, 238, 240)
_INK_RGB = (32, 36, 42)
_GAP_PX = 16
_TITLE_GAP_PX = 6


def contact_sheet(
    images: Sequence[NumericArray], *, titles: Sequence[str], columns: int, title_size_px: int = 15
) -> UInt8Array:
    """Return one picture with all given ones in rows, each below its title.

    All cells have the size of the largest picture; smaller pictures are centred in their cells, and titles that are too
    long for a cell end in an ellipsis.

    Args:
        images: N uint8 pictures in any form that :func:`l5kit.visualization.images.as_rgb` accepts, of any sizes.
        titles: N lines.
        columns: Pictures per row.
        title_size_px: Font size.

    Returns:
        uint8 ``[H, W, 3]``.

    Raises:
        InvalidArgumentError: There is no picture, not one title per picture, no column, or a picture of wrong form.
    """
    if len(images) == 0 or len(titles) != len(images):
        raise InvalidArgumentError(
            f"there are {len(images)} images and {len(titles)} titles; give at least one image, each with its title"
        )
    if columns < 1:
        raise InvalidArgumentError(f"columns is {columns}; allowed is 1 or more")
    pictures = [as_rgb(image, name=f"images[{index}]") for index, image in enumerate(images)]
    title_height_px = text_size_px("", size_px=title_size_px)[1] + _TITLE_GAP_PX
    height_px = max(picture.shape[0] for picture in pictures)
    width_px = max(picture.shape[1] for picture in pictures)
    # number of rows and columns that are needed, and distance between cells
    rows, columns = -(-len(pictures) // columns), min(columns, len(pictures))
    step_px = (title_height_px + height_px + _GAP_PX, width_px + _GAP_PX)

    sheet = np.full((_GAP_PX + rows * step_px[0], _GAP_PX + columns * step_px[1], 3), _GROUND_RGB, dtype=np.uint8)
    # left upper corners of the cells as (row, column), in reading order
    corners = _GAP_PX + np.stack(np.divmod(np.arange(len(pictures)), columns), axis=1) * step_px
    for picture, (top, left) in zip(pictures, corners.tolist(), strict=True):
        row = top + title_height_px + (height_px - picture.shape[0]) // 2
        column = left + (width_px - picture.shape[1]) // 2
        sheet[row : row + picture.shape[0], column : column + picture.shape[1]] = picture
    lines = [fitted_text(title, width_px=width_px, size_px=title_size_px) for title in titles]
    return draw_text(sheet, lines, corners[:, ::-1], rgb_color=_INK_RGB, size_px=title_size_px)
