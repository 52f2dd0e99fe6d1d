"""Configurations, rasterizers and datasets that the tests of samples share."""

import copy
import warnings
from typing import Any

import numpy as np

from l5kit.configs.parameters import RasterGeometry
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.stub_rasterizer import StubRasterizer

THRESHOLDS = {"th_yaw_degree": 30, "th_extent_ratio": 1.1, "th_distance_av": 50}
FIXTURE_S_CFG: dict[str, Any] = {
    "format_version": 4,
    "model_params": {
        "history_num_frames": 3,
        "future_num_frames": 5,
        "step_time": 0.1,
        "render_ego_history": True,
    },
    "raster_params": {
        "raster_size": [224, 112],
        "pixel_size": [0.25, 0.25],
        "ego_center": [0.25, 0.5],
        "set_origin_to_bottom": True,
        "map_type": "stub_debug",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
    },
}


def make_cfg(**overrides: Any) -> dict[str, Any]:
    """Return the configuration of the known answers of fixture S with some keys replaced, in any section."""
    cfg = copy.deepcopy(FIXTURE_S_CFG)
    for key, value in overrides.items():
        in_model = key in cfg["model_params"] or key in ("history_step_size", "future_step_size", "route")
        cfg["model_params" if in_model else "raster_params"][key] = value
    return cfg


def make_stub(cfg: dict[str, Any]) -> StubRasterizer:
    return StubRasterizer(RenderContext.from_geometry(RasterGeometry.from_cfg(cfg)))


def make_agent_dataset(
    cfg: dict[str, Any], log: ChunkedDataset, rasterizer: Rasterizer | None = None, **options: Any
) -> Any:
    """Return an AgentDataset without the warnings about masks and minima."""
    from l5kit.dataset import AgentDataset  # needs torch, which the other cases do without

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return AgentDataset(cfg, log, rasterizer, **options)


def assert_samples_equal(sample: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(sample) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(sample[key], value, err_msg=key)
        assert np.asarray(sample[key]).dtype == np.asarray(value).dtype, key
