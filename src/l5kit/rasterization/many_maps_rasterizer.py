"""Rasters of scenes that have a map each: a rasterizer for each map, made when somebody is drawn on it."""

from collections.abc import Callable, Sequence

import numpy as np

from l5kit._types import NumericArray, RecordArray, UInt8Array
from l5kit.data.kept import Kept
from l5kit.data.map.scene_maps import SceneMaps
from l5kit.data.windows import Targets, Windows
from l5kit.rasterization.planar_rasterizer import LogWindow, PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext

_MOST_KEPT = 32
"""Rasterizers that are kept, each with its map."""


class ManyMapsRasterizer(Rasterizer):
    """Draws each window with the rasterizer of the map that its agent of interest is on, to the bit as that one does.

    Windows of a batch that are on one map are drawn together. The maps drawn last are kept, so that memory does not
    grow with their number. Several threads may use it at once.

    Args:
        maps: The maps.
        build: Makes a rasterizer for the file of a map; all of them have the same channels.

    Attributes:
        maps: The maps.
    """

    def __init__(self, maps: SceneMaps, build: Callable[[str], PlanarRasterizer]) -> None:
        self.maps = maps
        self._build = build
        self._kept: Kept[PlanarRasterizer] = Kept(_MOST_KEPT)
        self._first = self.on_map(0)

    def __repr__(self) -> str:
        """Return what draws, and how many maps there are."""
        return f"<{type(self).__name__}: {self._first!r} on each of {len(self.maps)} maps>"

    def on_map(self, row: int) -> PlanarRasterizer:
        """Return the rasterizer of a map.

        Raises:
            CorruptedDataError: Its file is missing, damaged, or not what it was.
        """
        return self._kept.get(row, lambda: self._build(self.maps.path_of(row)))

    @property
    def render_context(self) -> RenderContext:
        """Size, scale and orientation of the raster."""
        return self._first.render_context

    @property
    def draws_windows(self) -> bool:
        """True, as rasterizers of maps draw batches."""
        return self._first.draws_windows

    @property
    def image_dtype(self) -> str:
        """``float32`` for values from 0 to 1, ``uint8`` for bytes."""
        return self._first.image_dtype

    @property
    def image_device(self) -> str:
        """``cpu``."""
        return self._first.image_device

    def images_shape(self, num_windows: int, /) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""
        return self._first.images_shape(num_windows)

    def num_channels(self) -> int:
        """Return the number of channels of the raster."""
        return self._first.num_channels()

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return a raster as the rasterizers of maps show it; see there."""
        return self._first.to_rgb(in_im, **kwargs)

    def rasterize(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> NumericArray:
        """Return the raster of a window of a log, channels last; see :meth:`Rasterizer.rasterize`."""
        window = LogWindow(history_frames, history_agents, history_tl_faces, agent)
        (row,) = self.maps.rows_at(window.as_batch()[1].centroids_m.astype(np.float64)).tolist()
        image: NumericArray = self.on_map(row).rasterize(history_frames, history_agents, history_tl_faces, agent)
        return image

    def rasterize_windows(
        self, windows: Windows, targets: Targets, images: NumericArray | None = None, /
    ) -> NumericArray:
        """Return the rasters of a batch of windows; see :class:`~l5kit.rasterization.rasterizer.WindowRasterizer`."""
        rows = self.maps.rows_at(targets.centroids_m)
        if images is None:
            images = np.empty(self.images_shape(len(windows)), self.image_dtype)
        for row in np.unique(rows).tolist():
            here = np.flatnonzero(rows == row)
            images[here] = self.on_map(row).rasterize_windows(windows.taken(here), targets.taken(here))
        return images
