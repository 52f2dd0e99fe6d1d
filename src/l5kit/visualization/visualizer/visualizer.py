"""Interactive pages of scenes."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from l5kit._files import replaced_when_complete
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.visualization.visualizer.common import FrameVisualization
from l5kit.visualization.visualizer.packed_layer import list_to_columns as _visualization_list_to_dict  # noqa: F401

if TYPE_CHECKING:
    from bokeh.models import Column

__all__ = ["visualize", "write_scene_page"]

_HIGHEST_IN_NOTEBOOK_PX: Final = 760
"""Largest height in notebooks, where picture and controls should fit on the screen among other cells."""


def visualize(scene_index: int, frames: Sequence[FrameVisualization], *, frame_step: int = 1) -> "Column":
    """Return a page that shows a scene frame by frame, for ``bokeh.io.show``.

    The page fits the window, up to a height that suits notebooks. The view is 100 m x 100 m around the AV and follows
    it. A slider and a play button, at 10 frames per second, step through the frames. Hovering over an agent shows its
    class, probability, track and speed, and a click on a legend entry hides its trajectories. All frames are in the
    page, which needs no server.

    Args:
        scene_index: Scene number in the title.
        frames: Contents of each frame, see :mod:`l5kit.visualization.visualizer.zarr_utils`.
        frame_step: Show every n-th frame, for smaller pages; the slider counts all frames.

    Returns:
        The figure above button and slider, which are omitted for a single frame, and the colour key.

    Raises:
        InvalidArgumentError: There are no frames, ``frame_step`` is less than 1, or an element has unequal numbers of
            xs and ys (a ``ValueError``).
        MissingDependencyError: Bokeh is not installed.
    """
    return _layout(scene_index, frames, frame_step=frame_step, highest_px=_HIGHEST_IN_NOTEBOOK_PX)


def write_scene_page(
    output_filepath: str | os.PathLike[str],
    scene_index: int,
    frames: Sequence[FrameVisualization],
    *,
    frame_step: int = 1,
) -> None:
    """Write the page of :func:`visualize` as one self-contained HTML file that fills its window.

    The file appears complete or not at all.

    Args:
        output_filepath: The HTML file; an older one is replaced.
        scene_index: Scene number in the title.
        frames: Contents of each frame.
        frame_step: Show every n-th frame, for smaller pages.

    Raises:
        InvalidArgumentError: As in :func:`visualize`.
        MissingDependencyError: Bokeh is not installed.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    layout = _layout(scene_index, frames, frame_step=frame_step)
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    with replaced_when_complete(output_filepath) as path:
        path.write_text(file_html(layout, INLINE, title=f"Scene {scene_index}"), "utf-8")


def _layout(
    scene_index: int, frames: Sequence[FrameVisualization], *, frame_step: int, highest_px: int | None = None
) -> "Column":
    if len(frames) == 0:
        raise InvalidArgumentError("frames is empty; give at least one frame")
    if frame_step < 1:
        raise InvalidArgumentError(f"frame_step is {frame_step}; allowed is 1 or more")
    try:
        from l5kit.visualization.visualizer.scene_page import scene_layout
    except ImportError as error:
        raise MissingDependencyError(
            f"pages of scenes need Bokeh, which is part of the extra viz: {install_command('viz')}"
        ) from error
    return scene_layout(scene_index, frames[::frame_step], frame_step=frame_step, highest_px=highest_px)
