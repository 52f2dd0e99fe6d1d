"""Tiles of the aerial picture at several resolutions, and its position in the world."""

import threading
from functools import cached_property
from typing import Final

import cv2
import numpy as np

from l5kit._types import Float64Array, JsonObject, UInt8Array
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.remote_dataset_files import local_file
from l5kit.errors import ConfigError, IndexOutOfRangeError
from l5kit.rasterization.satellite_image import read_aerial_pixels

TILE_PX: Final = 512
"""Side of a tile. Each tile has one more column and row, the first ones of its neighbours, so that no seam shows."""

CUT_RADIUS_M: Final = 100.0
"""A cut-out covers this distance around all positions of the AV, along rows and columns."""

_MOST_CUT_PX: Final = 2048
_SMALLEST_LEVEL_PX: Final = 1024
_QUALITY: Final = 85
_LEAST_DETERMINANT: Final = 1e-9


class AerialTiles:
    """An aerial picture, read at the first request; thread-safe.

    Level 0 is the picture; each further level has half the rows and columns. Pixel coordinates (column, row) of level k
    are those of level 0 divided by 2**k: the first pixel covers 0 to 1.

    Args:
        files: Paths of the picture and meta.json.

    Raises:
        ConfigError: meta.json lacks a matrix, or the matrices are degenerate in the plane.
    """

    def __init__(self, files: DatasetFiles) -> None:
        if files.aerial is None or files.meta is None:
            raise ConfigError("an aerial picture needs a meta.json, which gives its position")
        self._path = files.aerial
        meta = str(files.meta)
        matrices = load_metadata(meta)
        ecef_to_aerial = load_matrix(matrices, "ecef_to_aerial", path=meta)
        self._aerial_from_world = ecef_to_aerial @ load_matrix(matrices, "world_to_ecef", path=meta)
        if not abs(np.linalg.det(self._aerial_from_world[:2, :2])) > _LEAST_DETERMINANT:
            raise ConfigError(f"{meta}: the matrices flatten the aerial picture; use the meta.json of this picture")
        self._lock = threading.Lock()

    def pixel_from_world(self, height_m: float) -> Float64Array:
        """Return the matrix (2, 3) from world x, y, 1 to column and row of the picture, at a height.

        It matches the crops of the satellite rasterizer at the height of the AV.
        """
        rows_columns = self._aerial_from_world[:2]
        matrix = np.stack([rows_columns[:, 0], rows_columns[:, 1], rows_columns[:, 2:] @ (height_m, 1.0)], axis=1)
        return matrix[::-1].copy()

    def facts(self, height_m: float) -> JsonObject:
        """Return the facts that the page needs to place the tiles under a scene.

        Args:
            height_m: Height of the AV in the world.

        Raises:
            FileNotFoundError: The file no longer exists.
            CorruptedDataError: The picture cannot be read.
        """
        with self._lock:
            height_px, width_px = self._levels[0].shape[:2]
            num_levels = len(self._levels)
        return {
            "width_px": width_px,
            "height_px": height_px,
            "tile_px": TILE_PX,
            "num_levels": num_levels,
            "pixel_from_world": self.pixel_from_world(height_m).tolist(),
        }

    def tile(self, level: int, column: int, row: int) -> bytes:
        """Return a tile as JPEG.

        Args:
            level: Number of times the picture was halved.
            column: Index of the tile from the left.
            row: Index of the tile from the top.

        Raises:
            IndexOutOfRangeError: There is no such tile.
            CorruptedDataError: The picture cannot be read.
        """
        with self._lock:
            levels = self._levels
        if level < len(levels):
            top, left = row * TILE_PX, column * TILE_PX
            pixels = levels[level][top : top + TILE_PX + 1, left : left + TILE_PX + 1]
            if pixels.size:
                return _as_jpeg(pixels)
        raise IndexOutOfRangeError(f"the aerial picture has no tile in column {column} and row {row} of level {level}")

    def cut_out(self, positions_m: Float64Array, height_m: float) -> tuple[JsonObject, bytes] | None:
        """Return the part of the picture around positions as one tile; None if the picture does not cover them.

        Args:
            positions_m: World x and y, (N, 2).
            height_m: Height of the AV in the world.

        Returns:
            Facts as returned by :meth:`facts`, and the tile as JPEG, at most 2,049 pixels high and wide.

        Raises:
            CorruptedDataError: The picture cannot be read.
        """
        matrix = self.pixel_from_world(height_m)
        positions_m = positions_m[np.isfinite(positions_m).all(axis=1)]
        if len(positions_m) == 0:
            return None
        # a circle in the world is an ellipse in the picture, whose extent along an axis is the norm of a matrix row
        points_px = positions_m @ matrix[:, :2].T + matrix[:, 2]
        reach = CUT_RADIUS_M * np.linalg.norm(matrix[:, :2], axis=1)
        with self._lock:
            levels = self._levels
        whole = np.array(levels[0].shape[1::-1])
        low = np.clip(np.floor(points_px.min(axis=0) - reach), 0, whole).astype(np.int64)
        high = np.clip(np.ceil(points_px.max(axis=0) + reach), 0, whole).astype(np.int64)
        if not (high > low).all():
            return None
        # the finest level with a small enough cut; its first pixel becomes the origin of the cut
        level = next((k for k in range(len(levels)) if ((high - low) >> k).max() <= _MOST_CUT_PX), len(levels) - 1)
        low, high = low >> level, -(-high >> level)
        pixels = levels[level][low[1] : high[1], low[0] : high[0]]
        cut_matrix = matrix / 2**level
        cut_matrix[:, 2] -= low
        facts: JsonObject = {
            "width_px": pixels.shape[1],
            "height_px": pixels.shape[0],
            "tile_px": max(pixels.shape[:2]),
            "num_levels": 1,
            "pixel_from_world": cut_matrix.tolist(),
        }
        return facts, _as_jpeg(pixels)

    @cached_property
    def _levels(self) -> list[UInt8Array]:
        levels = [read_aerial_pixels(str(local_file(self._path)))]
        while max(levels[-1].shape[:2]) > _SMALLEST_LEVEL_PX:
            # means of 2 x 2 pixels; for odd sizes the last row or column counts twice
            height_px, width_px = levels[-1].shape[:2]
            even = cv2.copyMakeBorder(levels[-1], 0, height_px % 2, 0, width_px % 2, cv2.BORDER_REPLICATE)
            halved = cv2.resize(even, (even.shape[1] // 2, even.shape[0] // 2), interpolation=cv2.INTER_AREA)
            levels.append(halved.astype(np.uint8, copy=False))
        return levels


def _as_jpeg(pixels: UInt8Array) -> bytes:
    _, content = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return content.tobytes()
