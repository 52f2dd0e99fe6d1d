"""Rasterizer: what every one offers, and what users derive theirs from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from l5kit._types import NumericArray, RecordArray, UInt8Array
from l5kit.data.log_facts import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.rasterization.pictures import RasterPictures, channels_first

__all__ = ["EGO_EXTENT_HEIGHT", "EGO_EXTENT_LENGTH", "EGO_EXTENT_WIDTH", "Rasterizer"]


class Rasterizer(ABC):
    """Draws a window of a log as a picture with one or more channels.

    A rasterizer of one's own derives from this class and defines the three abstract methods; datasets then take it.
    """

    @abstractmethod
    def rasterize(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> RasterPictures:
        """Return the raster of a window of a log, channels last.

        Args:
            history_frames: Frames, newest first, shape (F,) of FRAME_DTYPE.
            history_agents: The agents of each frame, AGENT_DTYPE.
            history_tl_faces: The traffic light faces of each frame, TL_FACE_DTYPE.
            agent: The agent of interest, a row of the newest frame's agents; None for the AV.

        Returns:
            Shape (height, width, channels), float32 from 0 to 1; or several such pictures by name, which samples then
            have as a dictionary under ``image``.
        """

    @abstractmethod
    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return a raster as a picture for people.

        Args:
            in_im: What :meth:`rasterize` returned, shape (height, width, channels).
            **kwargs: Options of the class; unknown ones are ignored.

        Returns:
            RGB, shape (height, width, 3).
        """

    @abstractmethod
    def num_channels(self) -> int:
        """Return the number of channels of the raster."""

    def rasterize_planar(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> RasterPictures:
        """Return the raster of :meth:`rasterize` with channels first, as datasets hand it out.

        Arguments as in :meth:`rasterize`.

        Returns:
            C-contiguous, shape (channels, height, width), the dtype of :meth:`rasterize`; several by name, if it
            returns several.

        Raises:
            InvalidArgumentError: :meth:`rasterize` returns something else than pictures.
        """
        return channels_first(self.rasterize(history_frames, history_agents, history_tl_faces, agent))
