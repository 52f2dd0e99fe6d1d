"""Workloads of the benchmarks: datasets with the configurations of L5Kit 1.5, their samples, and drives."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from l5kit._types import JsonObject
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.opened import open_map
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError
from l5kit.evaluation.driving.collisions import find_collisions
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.map_scores import find_distances_off_road
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.driven_scenes import DrivenScenes
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset

_SCENE_MAPS = ("semantic_synth.pb", "aerial_synth.png")
_NO_MAPS = ("semantic_map.pb", "aerial_map.png")
_NEEDED_FILES = {"py_semantic": ("semantic_map", "meta"), "py_satellite": ("aerial", "meta")}
_NAMES = {"semantic_map": "semantic map", "aerial": "aerial picture", "meta": "meta.json"}


@dataclass(frozen=True)
class Workload:
    """Raster dataset to draw samples from.

    Attributes:
        dataset: Name of the dataset class.
        map_type: ``raster_params.map_type``.
        future_num_frames: Length of the target trajectory.
        history_num_frames: Number of rasterized frames before the current one.
        raster_size_px: Width and height of the raster.
    """

    dataset: Literal["AgentDataset", "EgoDataset"]
    map_type: str
    future_num_frames: int = 50
    history_num_frames: int = 10
    raster_size_px: int = 224

    @property
    def name(self) -> str:
        """Name of the workload in tables of rates."""
        return f"{self.dataset} {self.map_type}"

    @property
    def needed_files(self) -> tuple[str, ...]:
        """Required maps, as fields of :class:`l5kit.data.dataset_files.DatasetFiles`."""
        return _NEEDED_FILES.get(self.map_type, ())

    def config(self) -> JsonObject:
        """Return the configuration, with the file names of the data on which the reference was recorded."""
        semantic_map, aerial = _SCENE_MAPS if self.map_type.startswith("py_") else _NO_MAPS
        return {
            "model_params": {
                "model_architecture": "resnet50",
                "history_num_frames": self.history_num_frames,
                "future_num_frames": self.future_num_frames,
                "step_time": 0.1,
                "render_ego_history": True,
            },
            "raster_params": {
                "raster_size": [self.raster_size_px, self.raster_size_px],
                "pixel_size": [0.5, 0.5],
                "ego_center": [0.25, 0.5],
                "map_type": self.map_type,
                "satellite_map_key": aerial,
                "semantic_map_key": semantic_map,
                "dataset_meta_key": "meta.json",
                "filter_agents_threshold": 0.5,
                "disable_traffic_light_faces": False,
                "set_origin_to_bottom": True,
            },
        }


@dataclass(frozen=True)
class VectorWorkload:
    """Dataset of vector samples, with the configuration of a model.

    Attributes:
        dataset: Name of the dataset class.
        model: Name of the configuration.
    """

    dataset: Literal["EgoDatasetVectorized", "EgoAgentDatasetVectorized"]
    model: Literal["urban_driver", "safepathnet"]

    @property
    def name(self) -> str:
        """Name of the workload in tables of rates."""
        return f"{self.dataset} {self.model}"

    @property
    def needed_files(self) -> tuple[str, ...]:
        """Required maps, as fields of :class:`l5kit.data.dataset_files.DatasetFiles`."""
        return "semantic_map", "meta"

    def config(self) -> JsonObject:
        """Return the configuration, with the file names of the data on which the reference was recorded."""
        if self.model == "urban_driver":
            semantic_map, aerial = _SCENE_MAPS
            return {
                "model_params": {
                    "history_num_frames_ego": 1,
                    "history_num_frames": 0,
                    "history_num_frames_agents": 3,
                    "step_time": 0.1,
                    "disable_other_agents": False,
                    "disable_map": False,
                    "disable_lane_boundaries": True,
                    "global_head_dropout": 0.0,
                    "future_num_frames": 12,
                    "detach_unroll": True,
                    "warmup_num_frames": 0,
                    "discount_factor": 0.8,
                },
                "raster_params": {
                    "semantic_map_key": semantic_map,
                    "dataset_meta_key": "meta.json",
                    "filter_agents_threshold": 0.5,
                    "disable_traffic_light_faces": False,
                    "satellite_map_key": aerial,
                },
                "data_generation_params": _data_generation_params(other_agents_num=30, distance_m=35),
            }
        # the SafePathNet configuration has all raster parameters, although its samples have no raster
        raster_params = AGENT_SEMANTIC.config()["raster_params"]
        return {
            "model_params": {
                "history_num_frames_ego": 19,
                "history_num_frames_agents": 19,
                "future_num_frames": 30,
                "step_time": 0.1,
                "agent_num_trajectories": 20,
                "disable_other_agents": False,
                "disable_map": False,
                "disable_lane_boundaries": False,
                "use_perturbation": False,
                "perturbation_probability": 1.0,
                "use_gaussian_perturbation": False,
                "perturbation_min_displacement_m": 1.2,
                "weights_scaling": [1.0, 1.0, 1.0],
                "cost_prob_coeff": 0.1,
                "render_ego_history": False,
            },
            "raster_params": raster_params | {"set_origin_to_bottom": False},
            "data_generation_params": _data_generation_params(other_agents_num=50, distance_m=50),
        }


def _data_generation_params(*, other_agents_num: int, distance_m: int) -> JsonObject:
    return {
        "other_agents_num": other_agents_num,
        "max_agents_distance": distance_m,
        "lane_params": {
            "max_num_lanes": 30,
            "max_points_per_lane": 20,
            "max_points_per_crosswalk": 20,
            "max_retrieval_distance_m": distance_m,
            "max_num_crosswalks": 20,
        },
    }


AGENT_SEMANTIC = Workload("AgentDataset", "py_semantic")
EGO_SEMANTIC = Workload("EgoDataset", "py_semantic", future_num_frames=12)
EGO_SMALL = Workload("EgoDataset", "py_semantic", future_num_frames=12, history_num_frames=4, raster_size_px=112)
EGO_GYM = Workload("EgoDataset", "py_semantic", future_num_frames=1, history_num_frames=1, raster_size_px=112)
AGENT_SATELLITE = Workload("AgentDataset", "py_satellite")
AGENT_BOX = Workload("AgentDataset", "box_debug")
AGENT_STUB = Workload("AgentDataset", "stub_debug")

URBAN_DRIVER = VectorWorkload("EgoDatasetVectorized", "urban_driver")
SAFEPATHNET = VectorWorkload("EgoAgentDatasetVectorized", "safepathnet")

WORKLOADS = (AGENT_SEMANTIC, EGO_SEMANTIC, AGENT_SATELLITE, AGENT_BOX, AGENT_STUB, URBAN_DRIVER, SAFEPATHNET)
"""All workloads."""


class RowLeftOutError(L5KitError):
    """A row of the benchmark cannot be measured here; the message names what is missing."""


def config_with_files(workload: Workload | VectorWorkload, files: DatasetFiles) -> JsonObject:
    """Return the configuration of a workload with full paths of the maps, for ``LocalDataManager("")``.

    Raises:
        RowLeftOutError: A required map is missing.
    """
    missing = [_NAMES[part] for part in workload.needed_files if getattr(files, part) is None]
    if missing:
        raise RowLeftOutError(f"there is no {' and no '.join(missing)} near {files.dataset}")
    cfg = workload.config()
    keys = {"semantic_map_key": files.semantic_map, "satellite_map_key": files.aerial, "dataset_meta_key": files.meta}
    cfg["raster_params"].update({key: str(path) for key, path in keys.items() if path is not None})
    return cfg


def make_samples(workload: Workload | VectorWorkload, cfg: JsonObject, dataset: ChunkedDataset) -> "BaseEgoDataset":
    """Return a dataset of the class that the workload names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the agents mask of", category=RuntimeWarning)
        if isinstance(workload, VectorWorkload):
            # lazy import: commits without these classes can still be compared in all other rows
            from l5kit.dataset.ego import EgoAgentDatasetVectorized, EgoDatasetVectorized
            from l5kit.vectorization.vectorizer_builder import build_vectorizer

            is_of_av = workload.dataset == "EgoDatasetVectorized"
            of_vectors = EgoDatasetVectorized if is_of_av else EgoAgentDatasetVectorized
            return of_vectors(cfg, dataset, build_vectorizer(cfg, LocalDataManager("")))
        from l5kit.dataset.agent import AgentDataset  # lazy: imports torch
        from l5kit.dataset.ego import EgoDataset

        of_pictures = AgentDataset if workload.dataset == "AgentDataset" else EgoDataset
        return of_pictures(cfg, dataset, build_rasterizer(cfg, LocalDataManager("")))


def drive_by_idm(batch: SceneBatch) -> DrivenScenes:
    """Simulate AVs with tracker and bicycle model, and all vehicles on lanes with IDM."""
    driver = IntelligentDriver()
    control = AgentControl.of_traffic(tracks=driver.tracks)
    return SceneSimulation(batch, ego=EgoSeat(driver), agents=AgentSeat(driver, control=control)).run()


def check_drive(driven: DrivenScenes) -> int:
    """Check a drive for collisions and off-road driving, and return the number of agent and AV rows in all frames."""
    states, road_users, driving_map = driven.ego_states(), driven.road_users(), driven.batch.driving_map
    find_collisions(states, road_users, find_lane_positions(states, driving_map))
    if driving_map is not None:
        find_distances_off_road(states, driving_map)
    return int(np.diff(driven.buffer.frames["agent_index_interval"], axis=1).sum() + states.is_there.sum())


def read_road(files: DatasetFiles) -> RoadMap:
    """Return the map next to a dataset, with its lanes built.

    Raises:
        RowLeftOutError: The map or ``meta.json`` is missing.
    """
    api = open_map(files)
    if api is None:
        raise RowLeftOutError(f"there is no semantic map and no meta.json near {files.dataset}")
    road = RoadMap(api)
    _ = road.driving  # built once, before timing
    return road
