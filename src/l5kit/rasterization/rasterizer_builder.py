"""The rasterizer that a configuration describes."""

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar

import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.parameters import SATELLITE_MAP_TYPES, SEMANTIC_MAP_TYPES, RasterizerParams
from l5kit.data.local_data_manager import DataManager, require_data_manager
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.rasterization.aerial_image import AerialImage, read_aerial_pixels
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.sat_box_rasterizer import SatBoxRasterizer
from l5kit.rasterization.satellite_image import aerial_crop_size
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer, compute_pixel_scale
from l5kit.rasterization.sem_box_rasterizer import SemBoxRasterizer
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.rasterization.stub_rasterizer import StubRasterizer

_T = TypeVar("_T")

_MAX_SAMPLE_BYTES = 4_000_000_000
_MAX_AERIAL_PIXEL_M = 10.0
_LEAST_SINE = 0.01


class _BoxArguments(TypedDict):
    filter_agents_threshold: float
    history_num_frames: int
    render_ego_history: bool
    solid_boxes: bool


def build_rasterizer(cfg: Mapping[str, Any], data_manager: DataManager) -> Rasterizer:
    """Return the rasterizer of the ``raster_params.map_type`` of a configuration.

    ``py_semantic`` and ``py_satellite`` give boxes over the semantic map or the aerial picture, ``semantic_debug`` and
    ``satellite_debug`` the map or the picture alone, ``box_debug`` boxes alone and ``stub_debug`` an empty picture.

    Args:
        cfg: Sections ``raster_params`` and ``model_params``; only the keys that the map type needs are read.
        data_manager: Finds the map, the aerial picture and meta.json.

    Raises:
        ConfigError: A needed key, or a matrix of meta.json, is missing or of the wrong type; a raster would take less
            than a pixel of the aerial picture, or far more than it has, or more memory than anyone wants.
        UnsupportedConfigError: There is no such map type (a ``NotImplementedError``).
        FileNotFoundError: A needed file is missing.
        CorruptedDataError: The aerial picture cannot be read.
        TypeError: A file is needed, and ``data_manager`` is something else, such as the path of a folder.
    """
    params = RasterizerParams.from_cfg(cfg)
    rasterizer = _build(params, data_manager)
    _require_memory(params, rasterizer)
    return rasterizer


def _build(params: RasterizerParams, data_manager: DataManager) -> PlanarRasterizer:
    context = RenderContext.from_geometry(params.geometry)
    if params.map_type in SEMANTIC_MAP_TYPES:
        return _build_semantic(params, context, data_manager)
    if params.map_type in SATELLITE_MAP_TYPES:
        return _build_satellite(params, context, data_manager)
    if params.map_type == "box_debug":
        return BoxRasterizer(context, **_box_arguments(params), image_dtype=params.image_dtype)
    return StubRasterizer(context, image_dtype=params.image_dtype)


def _build_semantic(params: RasterizerParams, context: RenderContext, data_manager: DataManager) -> PlanarRasterizer:
    require_data_manager(data_manager)
    map_path = data_manager.require(_needed(params.semantic_map_key, "raster_params.semantic_map_key"))
    (world_to_ecef,) = _load_matrices(_require_meta(params, data_manager), "world_to_ecef")
    if params.map_type == "semantic_debug":
        return SemanticRasterizer(context, map_path, world_to_ecef, image_dtype=params.image_dtype)
    return SemBoxRasterizer(
        context,
        semantic_map_path=map_path,
        world_to_ecef=world_to_ecef,
        image_dtype=params.image_dtype,
        **_box_arguments(params),
    )


def _build_satellite(params: RasterizerParams, context: RenderContext, data_manager: DataManager) -> PlanarRasterizer:
    require_data_manager(data_manager)
    picture_path = data_manager.require(_needed(params.satellite_map_key, "raster_params.satellite_map_key"))
    meta_path = _require_meta(params, data_manager)
    world_to_ecef, ecef_to_aerial = _load_matrices(meta_path, "world_to_ecef", "ecef_to_aerial")
    aerial, world_to_aerial = AerialImage.from_file(picture_path), ecef_to_aerial @ world_to_ecef
    _require_fitting_scale(params, aerial, world_to_aerial, f"{meta_path} and {picture_path}")
    if params.map_type == "satellite_debug":
        return SatelliteRasterizer(
            context,
            aerial,
            world_to_aerial,
            image_dtype=params.image_dtype,
            out_of_bounds=params.satellite_out_of_bounds,
        )
    return SatBoxRasterizer(
        context,
        map_im=aerial,
        world_to_aerial=world_to_aerial,
        image_dtype=params.image_dtype,
        out_of_bounds=params.satellite_out_of_bounds,
        **_box_arguments(params),
    )


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


def _box_arguments(params: RasterizerParams) -> _BoxArguments:
    return {
        "filter_agents_threshold": _needed(params.filter_agents_threshold, "raster_params.filter_agents_threshold"),
        "history_num_frames": _needed(params.history_num_frames, "model_params.history_num_frames"),
        "render_ego_history": _needed(params.render_ego_history, "model_params.render_ego_history"),
        "solid_boxes": params.solid_boxes,
    }


def _require_meta(params: RasterizerParams, data_manager: DataManager) -> str:
    return data_manager.require(_needed(params.dataset_meta_key, "raster_params.dataset_meta_key"))


def _load_matrices(meta_path: str, *names: str) -> list[Float64Array]:
    metadata = load_metadata(meta_path)
    return [load_matrix(metadata, name, path=meta_path) for name in names]


def _load_satellite_map(satellite_map_path: str) -> UInt8Array:
    """Return the pixels of an aerial picture, RGB, shape (rows, columns, 3) (a helper that scripts for 1.x import)."""
    return read_aerial_pixels(satellite_map_path)


def _needed(value: _T | None, key: str) -> _T:
    if value is None:
        raise ConfigError(f"{key} is missing, but the map type needs it")
    return value
