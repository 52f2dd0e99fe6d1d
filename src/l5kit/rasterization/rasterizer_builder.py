"""Rasterizer builder: the table of map types, and the rasterizer of a configuration."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from l5kit._types import Config, Float64Array, UInt8Array
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.known_keys import warn_of_misspelt_keys
from l5kit.configs.own_code import is_own, read_own
from l5kit.configs.parameters import (
    RASTERIZERS,
    BoxesAlone,
    BoxParams,
    OwnMapType,
    RasterizerParams,
    SatelliteAlone,
    SatelliteParams,
    SatelliteWithBoxes,
    SemanticAlone,
    SemanticWithBoxes,
    StubParams,
)
from l5kit.configs.reading import read_variant
from l5kit.data.local_data_manager import (
    L5KIT_DATA_FOLDER_ENV_KEY,
    DataManager,
    LocalDataManager,
    require_data_manager,
)
from l5kit.data.map.api import MapAPI, find_map
from l5kit.data.map.map_folder import is_map_index, refuse_routes
from l5kit.data.map.opened import maps_at
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.combined_rasterizer import SatBoxRasterizer, SemBoxRasterizer
from l5kit.rasterization.planar_rasterizer import ManyMapsRasterizer, PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.route_rasterizer import RouteRasterizer
from l5kit.rasterization.satellite_image import AerialImage, aerial_crop_size, read_aerial_pixels
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer, compute_pixel_scale
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.rasterization.stub_rasterizer import StubRasterizer

_MAX_SAMPLE_BYTES = 4_000_000_000
_MAX_AERIAL_PIXEL_M = 10.0
_LEAST_SINE = 0.01


def build_rasterizer(cfg: Config, data_manager: DataManager) -> Rasterizer:
    """Return the rasterizer of the ``raster_params.map_type`` of a configuration.

    ``py_semantic`` and ``py_satellite`` give boxes over the semantic map or the aerial image, ``semantic_debug`` and
    ``satellite_debug`` the map or the image alone, ``box_debug`` boxes alone and ``stub_debug`` an empty raster. With
    ``model_params.route`` there is one more channel, the route of the AV, which needs the semantic map.
    ``FILE.py:NAME`` is a rasterizer in a user's file, whose code is run: an object of that name, or a class or function
    that is called with ``cfg`` and ``data_manager``.

    Args:
        cfg: Sections ``raster_params`` and ``model_params``; only the keys that the map type needs are read.
        data_manager: Data manager of the map, the aerial image and meta.json.

    Warns about keys that look like misspelt keys of ``raster_params``.

    Raises:
        ConfigError: A required key, or a matrix of meta.json, is missing or of the wrong type; a raster would cover
            less than a pixel of the aerial image or far more than all of it, or need an absurd amount of memory.
        UnsupportedConfigError: There is no such map type (a ``NotImplementedError``).
        FileNotFoundError: A required file is missing.
        CorruptedDataError: The aerial image cannot be read.
        InvalidArgumentError: The user's file cannot be loaded, or does not give a rasterizer.
        TypeError: A file is needed, but ``data_manager`` is not a data manager, for example the path of a folder.
    """
    if own_map_type(cfg) is not None:
        return _load_own(cfg, data_manager)
    params = read_variant(cfg, "raster_params.map_type", MAP_TYPES).from_cfg(cfg)
    warn_of_misspelt_keys(cfg, "raster_params")
    rasterizer = _build(params, data_manager)
    if params.has_route:
        if isinstance(rasterizer, ManyMapsRasterizer):
            refuse_routes(len(rasterizer.maps))
        rasterizer = RouteRasterizer(rasterizer, MapAPI.from_cfg(data_manager, cfg))

    # an absurd amount of memory indicates a typo in a size
    num_bytes = int(np.prod(rasterizer.images_shape(1))) * np.dtype(rasterizer.image_dtype).itemsize
    if num_bytes > _MAX_SAMPLE_BYTES:
        raise ConfigError(
            f"raster_params.raster_size is {list(params.geometry.raster_size_px)}, and there are "
            f"{rasterizer.num_channels()} channels (see model_params.history_num_frames): a raster would take "
            f"{num_bytes / 1e9:,.1f} GB, but at most {_MAX_SAMPLE_BYTES / 1e9:g} GB are allowed; reduce one of them"
        )
    return rasterizer


def count_channels(cfg: Config) -> int:
    """Return the number of channels of the rasters of a configuration, without reading map or image files.

    Raises:
        ConfigError: A required key is missing or of the wrong type.
        UnsupportedConfigError: There is no such map type.
        InvalidArgumentError: A custom rasterizer, which must be created to count its channels, fails.
    """
    if own_map_type(cfg) is not None:
        return _load_own(cfg, LocalDataManager(os.environ.get(L5KIT_DATA_FOLDER_ENV_KEY, ""))).num_channels()
    params = read_variant(cfg, "raster_params.map_type", MAP_TYPES).from_cfg(cfg)
    num_box_channels = 2 * (params.history_num_frames + 1) if isinstance(params, BoxParams) else 0
    return num_box_channels + (0 if isinstance(params, BoxesAlone) else 3) + int(params.has_route)


MAP_TYPES: Final[dict[str, type[RasterizerParams]]] = {params.map_type_name(): params for params in RASTERIZERS}
"""Parameter class of the rasterizer of each ``raster_params.map_type``. To add a map type, extend ``RASTERIZERS`` in
``l5kit.configs.parameters``.
"""


def own_map_type(cfg: Config) -> str | None:
    """Return the ``FILE.py:NAME`` of the rasterizer of a configuration; None for one of l5kit."""
    section = cfg.get("raster_params")
    map_type = section.get("map_type") if isinstance(section, Mapping) else None
    return map_type if isinstance(map_type, str) and is_own(map_type) else None


def _load_own(cfg: Config, data_manager: DataManager) -> Rasterizer:
    """Return the rasterizer in a user's file, whose code is run."""
    key, named = "raster_params.map_type", OwnMapType.from_cfg(cfg).map_type
    if cfg.get("model_params", {}).get("route"):
        raise ConfigError(f"model_params.route: {key} is {named!r}, which draws its channels itself; leave it out")
    made: Any
    made, _ = read_own(
        named, key, called="rasterizer", is_one=lambda each: hasattr(each, "rasterize"), arguments=(cfg, data_manager)
    )
    missing = [name for name in ("rasterize", "to_rgb", "num_channels") if not callable(getattr(made, name, None))]
    if missing:
        raise InvalidArgumentError(
            f"{key} is {named!r}, which gives {type(made).__name__}; a rasterizer has rasterize, to_rgb and "
            f"num_channels, but it lacks {', '.join(missing)}; docs/own_rasterizer.md has an example"
        )
    rasterizer: Rasterizer = made
    return rasterizer


def _build(params: RasterizerParams, data_manager: DataManager) -> PlanarRasterizer | ManyMapsRasterizer:
    """Return the rasterizer of a map type, without a route; add a case here for a new map type."""
    context, image_dtype, boxes = RenderContext.from_geometry(params.geometry), params.image_dtype, _boxes_of(params)
    match params:
        case SemanticWithBoxes() | SemanticAlone():
            require_data_manager(data_manager)
            map_path, world_to_ecef = find_map(data_manager, params)
            on_map = partial(_build_on_map, params, world_to_ecef)
            if is_map_index(map_path):
                return ManyMapsRasterizer(maps_at(map_path, world_to_ecef), on_map)
            return on_map(map_path)
        case SatelliteWithBoxes():
            aerial, world_to_aerial = _find_picture(params, data_manager)
            return SatBoxRasterizer(
                context,
                map_im=aerial,
                world_to_aerial=world_to_aerial,
                image_dtype=image_dtype,
                out_of_bounds=params.satellite_out_of_bounds,
                **boxes,
            )
        case SatelliteAlone():
            return SatelliteRasterizer(
                context,
                *_find_picture(params, data_manager),
                image_dtype=image_dtype,
                out_of_bounds=params.satellite_out_of_bounds,
            )
        case BoxesAlone():
            return BoxRasterizer(context, image_dtype=image_dtype, **boxes)
        case StubParams():
            return StubRasterizer(context, image_dtype=image_dtype)
        case _:
            raise AssertionError(f"{type(params).__name__} is the parameters of no rasterizer")


def _build_on_map(
    params: SemanticWithBoxes | SemanticAlone, world_to_ecef: Float64Array, map_path: str
) -> PlanarRasterizer:
    """Return the rasterizer of a map type with the semantic map, for one map."""
    context, image_dtype = RenderContext.from_geometry(params.geometry), params.image_dtype
    if isinstance(params, SemanticAlone):
        return SemanticRasterizer(context, map_path, world_to_ecef, image_dtype=image_dtype)
    return SemBoxRasterizer(
        context,
        semantic_map_path=map_path,
        world_to_ecef=world_to_ecef,
        image_dtype=image_dtype,
        **_boxes_of(params),
    )


def _boxes_of(params: RasterizerParams) -> dict[str, Any]:
    """Return the box options of a map type; empty if it draws none."""
    keys = ("filter_agents_threshold", "history_num_frames", "render_ego_history", "solid_boxes")
    return {key: getattr(params, key) for key in keys} if isinstance(params, BoxParams) else {}


def _find_picture(params: SatelliteParams, data_manager: DataManager) -> tuple[AerialImage, Float64Array]:
    """Return the aerial image, and the transform from the world to its pixels."""
    require_data_manager(data_manager)
    picture_path = data_manager.require(params.satellite_map_key)
    meta_path = data_manager.require(params.dataset_meta_key)
    metadata = load_metadata(meta_path)
    world_to_ecef, ecef_to_aerial = (
        load_matrix(metadata, name, path=meta_path) for name in ("world_to_ecef", "ecef_to_aerial")
    )
    aerial, world_to_aerial = AerialImage.from_file(picture_path), ecef_to_aerial @ world_to_ecef

    # a matrix of a different image gives pixels of arbitrary size, or non-finite rows and columns
    files = f"{meta_path} and {picture_path}"
    scale_m = compute_pixel_scale(world_to_aerial)
    if not scale_m <= _MAX_AERIAL_PIXEL_M:
        raise ConfigError(
            f"{files} do not fit the raster: the matrices give pixels of {scale_m:g} m, but above "
            f"{_MAX_AERIAL_PIXEL_M:g} m nothing is recognizable; use the meta.json of this image"
        )
    to_rows, to_columns = world_to_aerial[:2, :3]
    sine = np.linalg.norm(np.cross(to_rows, to_columns)) / (np.linalg.norm(to_rows) * np.linalg.norm(to_columns))
    if not sine > _LEAST_SINE:
        raise ConfigError(
            f"{files} do not fit the raster: the matrices give rows and columns of the image the same direction; "
            "use the meta.json of this image"
        )

    # a raster may cover less than a pixel of the image, or far more than all of it
    geometry = params.geometry
    try:
        aerial_crop_size(geometry.raster_size_px, aerial.pixels.shape, scale_m, geometry.pixel_size_m)
    except InvalidArgumentError as error:
        raise ConfigError(f"{files} do not fit the raster: {error}") from error
    return aerial, world_to_aerial


def _load_satellite_map(satellite_map_path: str) -> UInt8Array:
    """Return the pixels of an aerial image, RGB, shape (rows, columns, 3); kept for scripts for L5Kit 1.x."""
    return read_aerial_pixels(satellite_map_path)
