"""Rasterizer builder: the table of map types, and the rasterizer that a configuration describes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypedDict, TypeVar

import numpy as np

from l5kit._types import Config, Float64Array, UInt8Array
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.known_keys import warn_of_misspelt_keys
from l5kit.configs.parameters import (
    BoxesAlone,
    BoxParams,
    MapKeys,
    RasterizerParams,
    SatelliteAlone,
    SatelliteParams,
    SatelliteWithBoxes,
    SemanticAlone,
    SemanticWithBoxes,
    StubParams,
)
from l5kit.configs.reading import read_variant
from l5kit.data.local_data_manager import DataManager, require_data_manager
from l5kit.data.map.api import MapAPI
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.combined_rasterizer import SatBoxRasterizer, SemBoxRasterizer
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.route_rasterizer import RouteRasterizer
from l5kit.rasterization.satellite_image import AerialImage, aerial_crop_size, read_aerial_pixels
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer, compute_pixel_scale
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.rasterization.stub_rasterizer import StubRasterizer

_P = TypeVar("_P", bound=RasterizerParams)

_MAX_SAMPLE_BYTES = 4_000_000_000
_MAX_AERIAL_PIXEL_M = 10.0
_LEAST_SINE = 0.01


@dataclass(frozen=True)
class MapType(Generic[_P]):
    """What makes one map type differ from the others.

    Attributes:
        params: What its rasterizer is built from.
        build: Builds the rasterizer.
    """

    params: type[_P]
    build: Callable[[_P, RenderContext, DataManager], PlanarRasterizer]

    def read_and_build(self, cfg: Config, data_manager: DataManager) -> PlanarRasterizer:
        """Return the rasterizer that a configuration describes."""
        params = self.params.from_cfg(cfg)
        rasterizer = self.build(params, RenderContext.from_geometry(params.geometry), data_manager)
        if params.has_route:
            rasterizer = RouteRasterizer(rasterizer, MapAPI.from_cfg(data_manager, cfg))
        _require_memory(params, rasterizer)
        return rasterizer


class _BoxArguments(TypedDict):
    filter_agents_threshold: float
    history_num_frames: int
    render_ego_history: bool
    solid_boxes: bool


def build_rasterizer(cfg: Config, data_manager: DataManager) -> Rasterizer:
    """Return the rasterizer of the ``raster_params.map_type`` of a configuration.

    ``py_semantic`` and ``py_satellite`` give boxes over the semantic map or the aerial picture, ``semantic_debug`` and
    ``satellite_debug`` the map or the picture alone, ``box_debug`` boxes alone and ``stub_debug`` an empty picture.
    With ``model_params.route`` there is one more channel, the route of the AV; it takes the semantic map.

    Args:
        cfg: Sections ``raster_params`` and ``model_params``; only the keys that the map type needs are read.
        data_manager: Finds the map, the aerial picture and meta.json.

    Warns of keys that are nearly those of ``raster_params``.

    Raises:
        ConfigError: A needed key, or a matrix of meta.json, is missing or of the wrong type; a raster would take less
            than a pixel of the aerial picture, or far more than it has, or more memory than anyone wants.
        UnsupportedConfigError: There is no such map type (a ``NotImplementedError``).
        FileNotFoundError: A needed file is missing.
        CorruptedDataError: The aerial picture cannot be read.
        TypeError: A file is needed, and ``data_manager`` is something else, such as the path of a folder.
    """
    kind = read_variant(cfg, "raster_params.map_type", MAP_TYPES)
    warn_of_misspelt_keys(cfg, "raster_params")
    return kind.read_and_build(cfg, data_manager)


def count_channels(cfg: Config) -> int:
    """Return how many channels the rasters of a configuration have, without the files that they are drawn from.

    Raises:
        ConfigError: A needed key is missing or of the wrong type.
        UnsupportedConfigError: There is no such map type.
    """
    params = read_variant(cfg, "raster_params.map_type", MAP_TYPES).params.from_cfg(cfg)
    num_box_channels = 2 * (params.history_num_frames + 1) if isinstance(params, BoxParams) else 0
    return num_box_channels + (0 if isinstance(params, BoxesAlone) else 3) + int(params.has_route)


def _build_semantic_with_boxes(
    params: SemanticWithBoxes, context: RenderContext, data_manager: DataManager
) -> PlanarRasterizer:
    map_path, world_to_ecef = _find_map(params, data_manager)
    return SemBoxRasterizer(
        context,
        semantic_map_path=map_path,
        world_to_ecef=world_to_ecef,
        image_dtype=params.image_dtype,
        **_box_arguments(params),
    )


def _build_semantic_alone(params: SemanticAlone, context: RenderContext, data_manager: DataManager) -> PlanarRasterizer:
    map_path, world_to_ecef = _find_map(params, data_manager)
    return SemanticRasterizer(context, map_path, world_to_ecef, image_dtype=params.image_dtype)


def _build_satellite_with_boxes(
    params: SatelliteWithBoxes, context: RenderContext, data_manager: DataManager
) -> PlanarRasterizer:
    aerial, world_to_aerial = _find_picture(params, data_manager)
    return SatBoxRasterizer(
        context,
        map_im=aerial,
        world_to_aerial=world_to_aerial,
        image_dtype=params.image_dtype,
        out_of_bounds=params.satellite_out_of_bounds,
        **_box_arguments(params),
    )


def _build_satellite_alone(
    params: SatelliteAlone, context: RenderContext, data_manager: DataManager
) -> PlanarRasterizer:
    aerial, world_to_aerial = _find_picture(params, data_manager)
    return SatelliteRasterizer(
        context,
        aerial,
        world_to_aerial,
        image_dtype=params.image_dtype,
        out_of_bounds=params.satellite_out_of_bounds,
    )


def _build_boxes_alone(params: BoxesAlone, context: RenderContext, _: DataManager) -> PlanarRasterizer:
    return BoxRasterizer(context, **_box_arguments(params), image_dtype=params.image_dtype)


def _build_stub(params: StubParams, context: RenderContext, _: DataManager) -> PlanarRasterizer:
    return StubRasterizer(context, image_dtype=params.image_dtype)


MAP_TYPES: Final[dict[str, MapType[Any]]] = {
    "py_semantic": MapType(SemanticWithBoxes, _build_semantic_with_boxes),
    "py_satellite": MapType(SatelliteWithBoxes, _build_satellite_with_boxes),
    "box_debug": MapType(BoxesAlone, _build_boxes_alone),
    "semantic_debug": MapType(SemanticAlone, _build_semantic_alone),
    "satellite_debug": MapType(SatelliteAlone, _build_satellite_alone),
    "stub_debug": MapType(StubParams, _build_stub),
}
"""What each ``raster_params.map_type`` stands for; a new map type is an entry here."""


def _find_map(params: MapKeys, data_manager: DataManager) -> tuple[str, Float64Array]:
    """Return the path of the semantic map, and world_to_ecef."""
    require_data_manager(data_manager)
    map_path = data_manager.require(params.semantic_map_key)
    (world_to_ecef,) = _load_matrices(data_manager.require(params.dataset_meta_key), "world_to_ecef")
    return map_path, world_to_ecef


def _find_picture(params: SatelliteParams, data_manager: DataManager) -> tuple[AerialImage, Float64Array]:
    """Return the aerial picture, and the transform from the world to its pixels."""
    require_data_manager(data_manager)
    picture_path = data_manager.require(params.satellite_map_key)
    meta_path = data_manager.require(params.dataset_meta_key)
    world_to_ecef, ecef_to_aerial = _load_matrices(meta_path, "world_to_ecef", "ecef_to_aerial")
    aerial, world_to_aerial = AerialImage.from_file(picture_path), ecef_to_aerial @ world_to_ecef
    _require_fitting_scale(params, aerial, world_to_aerial, f"{meta_path} and {picture_path}")
    return aerial, world_to_aerial


def _require_fitting_scale(
    params: RasterizerParams, aerial: AerialImage, world_to_aerial: Float64Array, files: str
) -> None:
    """Refuse a picture of which a raster would take less than a pixel, or far more than all.

    Args:
        params: What the rasterizer is built from.
        aerial: The picture.
        world_to_aerial: Where it lies.
        files: Where both came from, for the message.
    """
    geometry = params.geometry
    scale_m = compute_pixel_scale(world_to_aerial)
    if not scale_m <= _MAX_AERIAL_PIXEL_M:
        raise ConfigError(
            f"{files} do not fit the raster: the matrices make pixels of {scale_m:g} m, and of more than "
            f"{_MAX_AERIAL_PIXEL_M:g} m nothing can be made out; take the meta.json of this picture"
        )
    to_rows, to_columns = world_to_aerial[:2, :3]
    sine = np.linalg.norm(np.cross(to_rows, to_columns)) / (np.linalg.norm(to_rows) * np.linalg.norm(to_columns))
    if not sine > _LEAST_SINE:
        raise ConfigError(
            f"{files} do not fit the raster: the matrices give rows and columns of the picture the same direction; "
            "take the meta.json of this picture"
        )
    try:
        aerial_crop_size(geometry.raster_size_px, aerial.pixels.shape, scale_m, geometry.pixel_size_m)
    except InvalidArgumentError as error:
        raise ConfigError(f"{files} do not fit the raster: {error}") from error


def _require_memory(params: RasterizerParams, rasterizer: PlanarRasterizer) -> None:
    num_bytes = int(np.prod(rasterizer.images_shape(1))) * np.dtype(rasterizer.image_dtype).itemsize
    if num_bytes > _MAX_SAMPLE_BYTES:
        raise ConfigError(
            f"raster_params.raster_size is {list(params.geometry.raster_size_px)}, and there are "
            f"{rasterizer.num_channels()} channels (see model_params.history_num_frames): a picture would take "
            f"{num_bytes / 1e9:,.1f} GB, and the most is {_MAX_SAMPLE_BYTES / 1e9:g} GB; make one of them smaller"
        )


def _box_arguments(params: BoxParams) -> _BoxArguments:
    return {
        "filter_agents_threshold": params.filter_agents_threshold,
        "history_num_frames": params.history_num_frames,
        "render_ego_history": params.render_ego_history,
        "solid_boxes": params.solid_boxes,
    }


def _load_matrices(meta_path: str, *names: str) -> list[Float64Array]:
    metadata = load_metadata(meta_path)
    return [load_matrix(metadata, name, path=meta_path) for name in names]


def _load_satellite_map(satellite_map_path: str) -> UInt8Array:
    """Return the pixels of an aerial picture, RGB, shape (rows, columns, 3) (a helper that scripts for 1.x import)."""
    return read_aerial_pixels(satellite_map_path)
