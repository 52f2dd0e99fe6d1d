"""Still pictures as PNG files."""

import os

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray
from l5kit.visualization.images import as_rgb


def write_png(output_filepath: str | os.PathLike[str], image: NumericArray) -> None:
    """Write one picture as a PNG file without loss; equal pictures give equal files, and no file is ever half written.

    Args:
        output_filepath: The file to write; an older one is replaced.
        image: uint8, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``.

    Raises:
        InvalidArgumentError: A picture that is not uint8 or of another shape.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    picture, mark = Image.fromarray(as_rgb(image)), PngInfo()
    mark.add_text("Software", "l5kit")
    with replaced_when_complete(output_filepath) as path:
        picture.save(path, format="PNG", compress_level=9, pnginfo=mark)
