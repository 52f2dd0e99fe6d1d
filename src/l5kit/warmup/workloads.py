"""The datasets that are measured: their classes and their configurations, those of the recorded rates of L5Kit 1.5."""

from dataclasses import dataclass
from typing import Literal

from l5kit._types import JsonObject

_SCENE_MAPS = ("semantic_synth.pb", "aerial_synth.png")
_NO_MAPS = ("semantic_map.pb", "aerial_map.png")
_NEEDED_FILES = {"py_semantic": ("semantic_map", "meta"), "py_satellite": ("aerial", "meta")}


@dataclass(frozen=True)
class Workload:
    """A dataset to draw samples from.

    Attributes:
        dataset: Name of its class.
        map_type: ``raster_params.map_type``.
        future_num_frames: Length of the target trajectory.
        history_num_frames: Frames before the current one that are drawn.
        raster_size_px: Width and height of the picture.
    """

    dataset: Literal["AgentDataset", "EgoDataset"]
    map_type: str
    future_num_frames: int = 50
    history_num_frames: int = 10
    raster_size_px: int = 224

    @property
    def name(self) -> str:
        """The name of the workload in lists of rates."""
        return f"{self.dataset} {self.map_type}"

    @property
    def needed_files(self) -> tuple[str, ...]:
        """The maps that it needs, as fields of :class:`l5kit.data.dataset_files.DatasetFiles`."""
        return _NEEDED_FILES.get(self.map_type, ())

    def config(self) -> JsonObject:
        """Return the configuration, whose file names are those of the data that the reference was recorded on."""
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
    """A dataset of vector samples, with the configuration of the model that takes them.

    Attributes:
        dataset: Name of its class.
        model: Name of the configuration.
    """

    dataset: Literal["EgoDatasetVectorized", "EgoAgentDatasetVectorized"]
    model: Literal["urban_driver", "safepathnet"]

    @property
    def name(self) -> str:
        """The name of the workload in lists of rates."""
        return f"{self.dataset} {self.model}"

    @property
    def needed_files(self) -> tuple[str, ...]:
        """The maps that it needs, as fields of :class:`l5kit.data.dataset_files.DatasetFiles`."""
        return "semantic_map", "meta"

    def config(self) -> JsonObject:
        """Return the configuration, whose file names are those of the data that the reference was recorded on."""
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
        # the configuration of SafePathNet has all raster parameters, though its samples have no picture
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
"""All of them."""
