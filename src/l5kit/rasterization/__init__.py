"""Rasterizers: windows of a log as images of road user boxes, the semantic map and aerial images."""

from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.combined_rasterizer import SatBoxRasterizer, SemBoxRasterizer
from l5kit.rasterization.rasterizer import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, Rasterizer
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.satellite_image import (
    get_sat_image_crop,
    get_sat_image_crop_scaled,
    get_sat_image_crop_scaled_from_ecef,
)
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.rasterization.stub_rasterizer import StubRasterizer

__all__ = [
    "EGO_EXTENT_HEIGHT",
    "EGO_EXTENT_LENGTH",
    "EGO_EXTENT_WIDTH",
    "BoxRasterizer",
    "Rasterizer",
    "RenderContext",
    "SatBoxRasterizer",
    "SatelliteRasterizer",
    "SemBoxRasterizer",
    "SemanticRasterizer",
    "StubRasterizer",
    "build_rasterizer",
    "get_sat_image_crop",
    "get_sat_image_crop_scaled",
    "get_sat_image_crop_scaled_from_ecef",
]
