"""An aerial picture that travels to other processes as the path of its file."""

import cv2
import numpy as np

from l5kit._types import UInt8Array
from l5kit.configs.texts import require_regular_file
from l5kit.errors import CorruptedDataError, InvalidArgumentError


class AerialImage:
    """Pixels of an aerial picture and, when they were read from a file, where that lies.

    Pickling keeps the path in place of the pixels when there is one; the receiving process reads the file again.

    Attributes:
        pixels: RGB, uint8, shape (rows, columns, 3).
        path: File that the pixels were read from, or None.
    """

    def __init__(self, pixels: UInt8Array, path: str | None = None) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise InvalidArgumentError(
                f"map_im has shape {pixels.shape} and dtype {pixels.dtype}; pass uint8 RGB, shape (rows, columns, 3)"
            )
        self.pixels = pixels
        self.path = path

    @classmethod
    def from_file(cls, path: str) -> "AerialImage":
        """Read a picture in any format that OpenCV knows; errors as in :func:`read_aerial_pixels`."""
        return cls(read_aerial_pixels(path), path)

    def __reduce__(self) -> tuple[object, ...]:
        return (AerialImage, (self.pixels,)) if self.path is None else (AerialImage.from_file, (self.path,))


def read_aerial_pixels(path: str) -> UInt8Array:
    """Return the pixels of a picture file, RGB, shape (rows, columns, 3), read-only.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptedDataError: OpenCV cannot read the file as a picture.
    """
    require_regular_file(path, called="picture file")
    with open(path, "rb") as file:
        content = np.frombuffer(file.read(), np.uint8)
    try:
        bgr = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    except cv2.error as error:  # headers of sizes that cannot be, for example
        raise CorruptedDataError(f"{path} is not a picture that OpenCV can read ({error}); replace the file") from error
    if bgr is None:
        raise CorruptedDataError(f"{path} is not a picture that OpenCV can read; replace the file")
    pixels: UInt8Array = np.ascontiguousarray(bgr[..., ::-1])
    pixels.setflags(write=False)
    return pixels
