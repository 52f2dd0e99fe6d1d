"""Video files."""

import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError, MissingDependencyError, UnsupportedValueError, install_command
from l5kit.visualization.images import checked_resolution, rgb_frames

__all__ = ["write_video"]

BROWSER_CODEC = "h264"

_H264_ENDINGS = (".mp4", ".m4v", ".mov", ".mkv", ".avi")
_ENDINGS_WITH_FAST_START = (".mp4", ".m4v", ".mov")
"""Containers whose index can be at the front, so that playing starts before the whole film is loaded."""

_SLOWEST_FPS, _FASTEST_FPS = 0.001, 1000

_X264_OPTIONS = {"crf": "23", "threads": "1", "mbtree": "0"}
"""Thin lines stay sharp, and equal pictures give equal files: the number of threads changes the bytes, and the
"macroblock tree" reads uninitialised memory, so that its choices differ from run to run."""

_BT709, _LIMITED_RANGE = 1, 1
"""Codes of HD video colours in ITU-T H.273, and of luma from 16 to 235 in FFmpeg."""


def write_video(
    output_filepath: str | os.PathLike[str],
    images: Iterable[NumericArray],
    resolution: tuple[int, int],
    fps: float = 24.0,
    codec: str = "FMP4",
    interpolation: int = cv2.INTER_CUBIC,
) -> None:
    """Write pictures as a video file.

    The extension of the file name selects the container. An odd width or height is made even by repeating the last
    column or row, since the codecs store colour for blocks of two by two pixels. The file appears complete or not at
    all. With ``"h264"``, equal pictures give equal files with the same version of PyAV and kind of processor.

    Args:
        output_filepath: The file to write, such as ``scene.mp4``; an older one is replaced.
        images: uint8 pictures, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``, of any sizes.
        resolution: ``(width, height)`` in pixels; pictures of another size are resized.
        fps: Frames per second, 0.001 to 1000.
        codec: Four characters for OpenCV's writer (desktop players play the default), or ``"h264"``, which browsers
            play and which needs the extra ``viz``.
        interpolation: OpenCV's interpolation flag for resizing.

    Raises:
        InvalidArgumentError: There is no picture, a picture is not uint8 or of wrong shape, or resolution or rate are
            out of range.
        UnsupportedValueError: The codec is unknown, or the container does not support it or this size.
        MissingDependencyError: ``codec="h264"`` without the extra ``viz``.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
        PermissionError: The folder is not writable.
    """
    if not _SLOWEST_FPS <= fps <= _FASTEST_FPS:
        raise InvalidArgumentError(f"fps is {fps}; allowed are {_SLOWEST_FPS} to {_FASTEST_FPS} frames per second")
    width, height = checked_resolution(resolution)
    even_resolution = (width + width % 2, height + height % 2)
    frames = _padded(rgb_frames(images, (width, height), interpolation), even_resolution)
    write = _write_h264 if codec.lower() == BROWSER_CODEC else _write_with_opencv
    with replaced_when_complete(output_filepath) as path:
        path.touch()  # fail on a read-only folder, for which the libraries would blame the codec
        write(path, frames, resolution=even_resolution, fps=fps, codec=codec)


def _padded(frames: Iterable[UInt8Array], resolution: tuple[int, int]) -> Iterator[UInt8Array]:
    width, height = resolution
    for frame in frames:
        yield np.pad(frame, ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)), mode="edge")


def _write_with_opencv(
    path: Path, frames: Iterable[UInt8Array], *, resolution: tuple[int, int], fps: float, codec: str
) -> None:
    if len(codec) != 4:
        raise UnsupportedValueError(
            f"codec is {codec!r}; allowed are four characters such as 'FMP4', or {BROWSER_CODEC!r}"
        )
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, resolution)
    if not writer.isOpened():
        raise UnsupportedValueError(
            f"codec {codec!r} cannot be written to a {path.suffix or 'nameless'} file by this OpenCV; "
            f"try 'FMP4' with .mp4, 'MJPG' with .avi, or {BROWSER_CODEC!r} with .mp4"
        )
    try:
        for frame in frames:
            writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    finally:
        writer.release()


def _write_h264(
    path: Path, frames: Iterable[UInt8Array], *, resolution: tuple[int, int], fps: float, codec: str
) -> None:
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError(
            f"codec={codec!r} needs PyAV, which is part of the extra viz: {install_command('viz')}"
        ) from error
    if path.suffix.lower() not in _H264_ENDINGS:
        raise UnsupportedValueError(
            f"codec {codec!r} cannot be written to a {path.suffix or 'nameless'} file; "
            f"allowed are {', '.join(_H264_ENDINGS)}, and browsers play .mp4"
        )
    options = {"movflags": "+faststart"} if path.suffix.lower() in _ENDINGS_WITH_FAST_START else {}
    with av.open(str(path), mode="w", options=options) as container:
        container.metadata["comment"] = "l5kit"
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(100_000), options=_X264_OPTIONS)
        # browsers guess unspecified colours from the size
        context = stream.codec_context
        context.width, context.height = resolution
        context.pix_fmt = "yuv420p"  # the only pixel format that all browsers decode
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED_RANGE
        try:
            context.open()
        except av.FFmpegError as error:
            raise UnsupportedValueError(
                f"resolution {resolution} cannot be encoded as {BROWSER_CODEC}; the limit is 16384 pixels per side"
            ) from error
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            container.mux(stream.encode(picture.reformat(format="yuv420p", dst_colorspace=_BT709)))
        container.mux(stream.encode())
