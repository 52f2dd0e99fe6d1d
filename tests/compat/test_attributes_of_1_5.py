"""Attributes that scripts for L5Kit 1.5 read exist and have their values of 1.5."""

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from torch import nn

from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.dataset import EgoAgentDatasetVectorized, EgoDataset, EgoDatasetVectorized
from l5kit.kinematic import AckermanPerturbation
from l5kit.planning.rasterized.multimodal_model import RasterizedMultiModalPlanningModel
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import (
    BoxRasterizer,
    SatBoxRasterizer,
    SatelliteRasterizer,
    SemanticRasterizer,
    SemBoxRasterizer,
)
from l5kit.vectorization.vectorizer import Vectorizer
from support.fixture_s import make_fixture_s
from support.maps import WORLD_TO_ECEF
from support.rasters import make_context
from support.samples import make_agent_dataset, make_cfg, make_stub
from support.tolerances import FLOAT64
from support.vectors import make_vector_cfg

CONTEXT = make_context()
AERIAL = np.arange(60 * 50 * 3, dtype=np.uint8).reshape(60, 50, 3)
WORLD_TO_AERIAL = np.diag([2.0, 2.0, 1.0, 1.0])
OF_ALL_RASTERIZERS = {
    "render_context": CONTEXT,
    "raster_size": CONTEXT.raster_size_px,
    "pixel_size": CONTEXT.pixel_size_m,
    "ego_center": CONTEXT.center_in_raster_ratio,
}
OF_BOXES = {"filter_agents_threshold": 0.3, "history_num_frames": 7}
OF_AERIAL = {"map_im": AERIAL, "world_to_aerial": WORLD_TO_AERIAL, "interpolation": cv2.INTER_AREA}
ONES = [1.0, 1.0, 1.0]
LOSS = nn.L1Loss(reduction="none")
SWITCHES = {"disable_other_agents": False, "disable_map": True, "disable_lane_boundaries": True}
OF_VECTOR_MODELS = SWITCHES | {"disable_pos_encode": False, "criterion": LOSS}


def make_generator() -> GaussianRandomGenerator:
    return GaussianRandomGenerator(np.zeros(3), np.ones(3), 4)


def make_perturbation() -> AckermanPerturbation:
    return AckermanPerturbation(make_generator(), perturb_prob=0.5, min_displacement=2)


def make_vectorizer(map_path: str) -> Vectorizer:
    return Vectorizer(make_vector_cfg(), MapAPI(map_path, WORLD_TO_ECEF))


def make_vector_agents(map_path: str) -> EgoAgentDatasetVectorized:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return EgoAgentDatasetVectorized(make_vector_cfg(), make_fixture_s(), make_vectorizer(map_path))


def make_unroll_model(_: str) -> VectorizedUnrollModel:
    return VectorizedUnrollModel(1, 3, 12, ONES, LOSS, 0.0, *SWITCHES.values(), False, 2, 0.8, False)


# name -> how the object is made from the path of the map of fixture S, and what it has
CASES: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "RenderContext": (
        lambda _: CONTEXT,
        {
            "raster_size_px": np.array([224, 112]),
            "pixel_size_m": np.array([0.25, 0.25]),
            "center_in_raster_ratio": np.array([0.25, 0.5]),
            "set_origin_to_bottom": True,
            "raster_from_local": np.array([[4, 0, 56], [0, -4, 56], [0, 0, 1]]),
        },
    ),
    "BoxRasterizer": (lambda _: BoxRasterizer(CONTEXT, 0.3, 7), OF_ALL_RASTERIZERS | OF_BOXES),
    "SatelliteRasterizer": (
        lambda _: SatelliteRasterizer(CONTEXT, AERIAL, WORLD_TO_AERIAL, cv2.INTER_AREA),
        OF_ALL_RASTERIZERS | OF_AERIAL | {"map_pixel_scale": 0.5},
    ),
    "SatBoxRasterizer": (
        lambda _: SatBoxRasterizer(CONTEXT, 0.3, 7, AERIAL, WORLD_TO_AERIAL, cv2.INTER_AREA),
        OF_ALL_RASTERIZERS | OF_BOXES | OF_AERIAL | {"box_rast": BoxRasterizer, "sat_rast": SatelliteRasterizer},
    ),
    "SemanticRasterizer": (
        lambda path: SemanticRasterizer(CONTEXT, path, WORLD_TO_ECEF),
        OF_ALL_RASTERIZERS | {"mapAPI": MapAPI, "world_to_ecef": WORLD_TO_ECEF},
    ),
    "SemBoxRasterizer": (
        lambda path: SemBoxRasterizer(CONTEXT, 0.3, 7, path, WORLD_TO_ECEF),
        OF_ALL_RASTERIZERS | OF_BOXES | {"box_rast": BoxRasterizer, "sem_rast": SemanticRasterizer},
    ),
    "MapAPI": (
        lambda path: MapAPI(path, WORLD_TO_ECEF),
        {"protobuf_map_path": str, "elements": object, "ecef_to_world": np.linalg.inv(WORLD_TO_ECEF), "ids_to_el": dict}
        | {"bounds_info": dict},
    ),
    "Vectorizer": (
        make_vectorizer,
        {"mapAPI": MapAPI, "max_agents_distance": 35, "history_num_frames_agents": 3, "future_num_frames": 5}
        | {"history_num_frames_max": 3, "other_agents_num": 4}
        | {"lane_cfg_params": make_vector_cfg()["data_generation_params"]["lane_params"]},
    ),
    "GaussianRandomGenerator": (
        lambda _: make_generator(),
        {"mean": np.zeros(3), "std": np.ones(3), "rng": np.random.Generator},
    ),
    "AckermanPerturbation": (
        lambda _: make_perturbation(),
        {"random_offset_generator": GaussianRandomGenerator, "perturb_prob": 0.5, "min_displacement": 2},
    ),
    "ChunkedDataset": (
        lambda _: ChunkedDataset("", key="train"),
        {"path": "", "key": "train", "scenes": np.ndarray, "frames": np.ndarray, "agents": np.ndarray}
        | {"tl_faces": np.ndarray},
    ),
    "EgoDataset": (
        lambda _: EgoDataset(make_cfg(), make_fixture_s(), make_stub(make_cfg()), make_perturbation()),
        {"cfg": make_cfg(), "dataset": ChunkedDataset, "cumulative_sizes": np.array([30]), "rasterizer": object}
        | {"perturbation": AckermanPerturbation, "sample_function": Callable},
    ),
    "AgentDataset": (
        lambda _: make_agent_dataset(make_cfg(), make_fixture_s(), make_stub(make_cfg())),
        {"cfg": make_cfg(), "agents_mask": np.ndarray, "agents_indices": np.ndarray, "mask_indices": np.ndarray}
        | {"cumulative_sizes_agents": np.ndarray},
    ),
    "EgoDatasetVectorized": (
        lambda path: EgoDatasetVectorized(make_vector_cfg(), make_fixture_s(), make_vectorizer(path)),
        {"vectorizer": Vectorizer, "perturbation": None, "cumulative_sizes": np.array([30])},
    ),
    "EgoAgentDatasetVectorized": (
        make_vector_agents,
        {"vectorizer": Vectorizer, "eval_mode": False, "agents_mask": np.ndarray, "agents_indices": np.ndarray}
        | {"mask_indices": np.ndarray, "cumulative_sizes_agents": np.ndarray},
    ),
    "RasterizedMultiModalPlanningModel": (
        lambda _: RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3, 2, ONES, LOSS, False, 0.5),
        {"num_modes": 2, "num_timestamps": 4, "num_outputs": 3, "coef_alpha": 0.5, "criterion": LOSS}
        | {"num_input_channels": 5, "model_arch": "simple_cnn", "pretrained": False},
    ),
    "VectorizedModel": (
        lambda _: VectorizedModel(1, 3, 12, ONES, LOSS, 0.0, *SWITCHES.values()),
        OF_VECTOR_MODELS | {"normalize_targets": True},
    ),
    "VectorizedUnrollModel": (
        make_unroll_model,
        OF_VECTOR_MODELS
        | {"detach_unroll": False, "warmup_num_frames": 2, "discount_factor": 0.8, "limit_predicted_yaw": False},
    ),
    "SafePathNetModel": (
        lambda _: SafePathNetModel(3, 3, 4, ONES, LOSS, *SWITCHES.values(), 2, 6, 0.25),
        OF_VECTOR_MODELS | {"normalize_targets": False, "max_num_agents": 6, "num_timesteps": 4, "eps": 2.0**-23},
    ),
    "MultimodalDecoder": (
        lambda _: SafePathNetModel(3, 3, 4, ONES, LOSS, *SWITCHES.values(), 2, 6, 0.25).global_head,
        {"num_timesteps": 4, "num_trajectories": 10, "num_outputs": 3, "agent_num_timesteps": 4}
        | {"agent_num_trajectories": 2, "multimodal_predictions": True, "agent_multimodal_predictions": True},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_attributes_are_there_with_their_values(name: str, fixture_s_map: str) -> None:
    make, expected = CASES[name]
    thing = make(fixture_s_map)
    for attribute, value in expected.items():
        found = getattr(thing, attribute)
        if isinstance(value, type) or value is Callable:
            assert isinstance(found, value), attribute
        elif isinstance(value, np.ndarray):
            np.testing.assert_allclose(found, value, atol=FLOAT64, err_msg=attribute)
        elif isinstance(value, float):
            assert math.isclose(found, value), attribute
        else:
            assert found == value or found is value, attribute


def test_the_root_folder_of_a_data_manager(tmp_path: Any) -> None:
    assert LocalDataManager(str(tmp_path)).root_folder == tmp_path


def test_a_pickled_model_of_1_5_that_holds_an_attribute_is_read() -> None:
    """An attribute stored in a pickled module of 1.5 does not break the property."""
    model = VectorizedModel(1, 3, 12, ONES, LOSS, 0.0, *SWITCHES.values())
    old = copy.deepcopy(model)
    old.__dict__["disable_pos_encode"] = False
    assert pickle.loads(pickle.dumps(old)).disable_pos_encode is False
