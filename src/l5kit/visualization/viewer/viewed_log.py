"""Dataset behind the viewer page: everything that the page requests."""

import contextlib
import math
import threading
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from l5kit._types import Float64Array, Int64Array, JsonObject
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.map.api import MapAPI
from l5kit.data.map.opened import SceneMaps, open_maps
from l5kit.data.records import FRAME_DTYPE, FRAME_INTERVAL, SCENE_DTYPE
from l5kit.data.scene_table import SceneTable, read_scene_table
from l5kit.data.stores.store import file_name_of, path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError, without_secrets
from l5kit.visualization.controlled_lanes import ControlledLanes
from l5kit.visualization.map_shapes import MapShapes, read_map_shapes
from l5kit.visualization.sample_config import available_map_kinds
from l5kit.visualization.scene_content import SceneContent, read_scene_content
from l5kit.visualization.scene_pictures import num_frames_of
from l5kit.visualization.viewer.aerial_tiles import AerialTiles
from l5kit.visualization.viewer.content_bytes import lane_bytes, map_bytes, scene_bytes
from l5kit.visualization.viewer.log_tags import LogTags
from l5kit.visualization.viewer.prediction_matches import find_in_log, prediction_bytes
from l5kit.visualization.viewer.predictions import Predictions
from l5kit.visualization.viewer.sample_pictures import SamplePictures

_CACHE_BYTES: Final = 64 * 2**20
"""Enough for the chunks of the displayed scene; frames that the table scans need not be kept."""

Columns: TypeAlias = JsonObject
"""JSON object of lists with one value per scene."""


class ViewedLog:
    """A dataset with its map, read on request; thread-safe.

    A map that cannot be read is omitted, with a note.

    Args:
        files: Paths of the dataset, its map and meta.json.
        dataset: The opened dataset; None to open that of ``files``.
        predictions: Predictions of a model over it; those without a row in the log are omitted, with a note.

    Attributes:
        notes: A sentence for everything that is missing or cannot be read.
        samples: Pictures of model inputs.
        sample_kinds: Kinds of rasters that the files allow.
        aerial: The aerial picture; None if there is none or its position is unknown.
        tags: Tags of the scenes.

    Raises:
        DatasetFormatError: The dataset cannot be opened; or another error of :meth:`ChunkedDataset.open`.
    """

    def __init__(
        self, files: DatasetFiles, dataset: ChunkedDataset | None = None, *, predictions: Predictions | None = None
    ) -> None:
        self._dataset = (
            ChunkedDataset(files.dataset).open(cache_size_bytes=_CACHE_BYTES) if dataset is None else dataset
        )
        self.notes = list(files.notes)
        self._table_lock, self._map_lock = threading.Lock(), threading.Lock()
        self._columns: Columns | None = None
        self._is_closed = threading.Event()

        # All maps of the scenes, and their union for the page. If there are too many maps to draw as one, single scenes
        # still use theirs.
        self._maps: SceneMaps | None = None
        self._map: MapAPI | None = None
        try:
            self._maps = open_maps(files)
            if self._maps is not None:
                drawn = self._maps.map_of(range(len(self._maps)))
                drawn.bounds_info  # noqa: B018 - reads the map
                self._map = drawn
        except (L5KitError, OSError) as error:
            self.notes.append(f"the map is not shown: {error}")
            if self._maps is not None and self._maps.is_single:
                self._maps = None
        if self._maps is None:  # samples cannot use an unreadable map either
            files = replace(files, semantic_map=None)
        self._files = files
        self.samples = SamplePictures(files, self._dataset)
        self.sample_kinds = available_map_kinds(files)
        self.aerial: AerialTiles | None = None
        if files.aerial is not None and files.meta is not None:
            with contextlib.suppress(L5KitError, OSError):  # the map and the satellite raster report the error
                self.aerial = AerialTiles(files)
        self._predictions = predictions
        if predictions is not None:
            num_lost = len(predictions) - int(np.count_nonzero(find_in_log(predictions, self._dataset)))
            if num_lost:
                self.notes.append(f"{num_lost:,} of {len(predictions):,} predictions have no row in this log")
        self.tags = LogTags(self._dataset, self._maps, self._require_open)

    @property
    def num_scenes(self) -> int:
        """Number of scenes."""
        return len(self._dataset.scenes)

    def facts(self) -> JsonObject:
        """Return the facts of the dataset for the page."""
        return {
            "name": file_name_of(self._files.dataset),
            "path": without_secrets(path_of(self._files.dataset)),
            "num_scenes": self.num_scenes,
            "num_frames": len(self._dataset.frames),
            "num_agents": len(self._dataset.agents),
            "has_map": self._map is not None,
            "has_aerial": self.aerial is not None,
            "sample_kinds": list(self.sample_kinds),
            "notes": self.notes,
            "run": None,
            "predictions": None if self._predictions is None else self._predictions.name,
        }

    def prepare_reading(self) -> None:
        """Compile or load all kernels that reading data for the page needs, except those of samples.

        Numba compiles kernels one after the other, so later ones delay samples only.
        """
        scenes, frames = np.zeros(1, SCENE_DTYPE), np.zeros(1, FRAME_DTYPE)
        scenes[FRAME_INTERVAL] = [0, 1]
        read_scene_content(ChunkedDataset.in_memory(scenes=scenes, frames=frames), 0, map_api=None)

    def read_ahead(self) -> None:
        """Read the first requests of the page in advance; errors are left to the requests."""
        with contextlib.suppress(L5KitError, OSError):
            if self.num_scenes:
                self.scene_bytes(0)
        with contextlib.suppress(L5KitError, OSError):
            self._require_open()
            self.map_bytes  # noqa: B018
            self.scene_columns  # noqa: B018

    @property
    def scene_columns(self) -> Columns:
        """The table of all scenes, with None for values of unreadable scenes."""
        with self._table_lock:
            if self._columns is None:
                self._columns = self._make_columns()
            return self._columns

    def _make_columns(self) -> Columns:
        return _as_columns(read_scene_table(self._dataset, progress=lambda _done, _total: self._require_open()))

    def scene_row(self, scene_index: int) -> Columns:
        """Return the table of a single scene; see :meth:`scene`."""
        self.require_scene(scene_index)
        return _as_columns(read_scene_table(self._dataset.get_scene_dataset(scene_index)))

    def close(self) -> None:
        """Stop reading ahead and reading the table; no more requests are allowed."""
        self._is_closed.set()

    def require_scene(self, scene_index: int) -> None:
        """Refuse a scene that the dataset does not have, including negative indices.

        Raises:
            IndexOutOfRangeError: There is no such scene.
        """
        num_frames_of(self._dataset, scene_index)

    def scene(self, scene_index: int) -> SceneContent:
        """Return one scene.

        Raises:
            IndexOutOfRangeError: There is no such scene.
            CorruptedDataError: The scene cannot be read.
        """
        self.require_scene(scene_index)
        return read_scene_content(self._dataset, scene_index, map_api=self._map, controlled=self._controlled)

    def scene_bytes(self, scene_index: int) -> bytes:
        """Return the bytes of one scene for the page; see :meth:`scene`."""
        return scene_bytes(self.scene(scene_index))

    def ego_height_m(self, scene_index: int) -> float:
        """Return the median height of the AV in a scene, in world coordinates; see :meth:`scene`."""
        heights_m = self.scene(scene_index).ego_positions_m[:, 2]
        known_m = heights_m[np.isfinite(heights_m)]
        return float(np.median(known_m)) if len(known_m) else 0.0

    def drive_bytes(self, scene_index: int) -> bytes | None:
        """Return the additional bytes of a simulated scene for the page; None for a recorded log."""
        self.require_scene(scene_index)
        return None

    def prediction_bytes(self, scene_index: int) -> bytes | None:
        """Return the bytes of the predictions in a scene for the page; None without predictions; see :meth:`scene`."""
        self.require_scene(scene_index)
        return None if self._predictions is None else prediction_bytes(self._predictions, self.scene(scene_index))

    @property
    def map_shapes(self) -> MapShapes | None:
        """The outlines of the map; None without a map."""
        with self._map_lock:
            return self._map_shapes

    @property
    def map_bytes(self) -> bytes | None:
        """The bytes of the map for the page; None without a map."""
        with self._map_lock:
            return self._map_bytes

    def lane_bytes(self, lane_indices: Int64Array | None = None) -> bytes | None:
        """Return the bytes of the lane data for the page; None without a map.

        Args:
            lane_indices: Ascending indices of the lanes on the map of the page; None for all lanes.

        Raises:
            CorruptedDataError: The id of a lane is not UTF-8 text.
        """
        if self._map is None:
            return None
        with self._map_lock:
            return lane_bytes(self._map.arrays, self._map.network, lane_indices=lane_indices)

    @cached_property
    def _map_shapes(self) -> MapShapes | None:
        return None if self._map is None else read_map_shapes(self._map.arrays)

    @cached_property
    def _map_bytes(self) -> bytes | None:
        return None if self._map_shapes is None else map_bytes(self._map_shapes)

    @cached_property
    def _controlled(self) -> ControlledLanes | None:
        return None if self._map is None else ControlledLanes(self._map.arrays)

    def _require_open(self) -> None:
        if self._is_closed.is_set():
            raise _ClosedError("the viewer has been closed")


class _ClosedError(L5KitError):
    """Reading was stopped because the viewer has been closed."""


def _as_columns(table: SceneTable) -> Columns:
    return {
        "num_frames": table.num_frames.tolist(),
        "length_s": _rounded(table.lengths_s, 3),
        "agents_per_frame": _rounded(table.agents_per_frame, 2),
        "distance_m": _rounded(table.distances_m, 2),
        "turn_deg": _rounded(table.turns_deg, 2),
        "turn": table.turns,
        "speed_mps": _rounded(table.speeds_mps, 3),
        "host": list(table.hosts),
        "error": {str(index): text for index, text in table.errors.items()},
        "doubt": {str(index): text for index, text in table.doubts.items()},
    }


def _rounded(values: Float64Array, digits: int) -> list[float | None]:
    """Return values for JSON, None for non-finite ones; rounding makes very large values infinite."""
    with np.errstate(over="ignore"):
        rounded: list[float] = np.round(values, digits).tolist()
    return [value if math.isfinite(value) else None for value in rounded]
