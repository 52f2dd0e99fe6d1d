"""The datasets that are measured: their classes and their configurations, those of the recorded rates of L5Kit 1.5."""

from dataclasses import dataclass
from typing import Any, Literal

_SCENE_MAPS = ("semantic_synth.pb", "aerial_synth.png")
_NO_MAPS = ("semantic_map.pb", "aerial_map.png")


@dataclass(frozen=True)
class Workload:
    """A dataset to draw samples from.

    Attributes:
        dataset: Name of its class.
        map_type: ``raster_params.map_type``.
        future_num_frames: Length of the target trajectory.
    """

    dataset: Literal["AgentDataset", "EgoDataset"]
    map_type: str
    future_num_frames: int = 50

    @property
    def name(self) -> str:
        """The name of the workload in lists of rates."""
        return f"{self.dataset} {self.map_type}"

    def config(self) -> dict[str, Any]:
        """Return the configuration, whose file names are those of the data that the reference was recorded on."""
        semantic_map, aerial = _SCENE_MAPS if self.map_type.startswith("py_") else _NO_MAPS
        return {
            "model_params": {
                "model_architecture": "resnet50",
                "history_num_frames": 10,
                "future_num_frames": self.future_num_frames,
                "step_time": 0.1,
                "render_ego_history": True,
            },
            "raster_params": {
                "raster_size": [224, 224],
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


AGENT_SEMANTIC = Workload("AgentDataset", "py_semantic")
EGO_SEMANTIC = Workload("EgoDataset", "py_semantic", future_num_frames=12)
AGENT_SATELLITE = Workload("AgentDataset", "py_satellite")
AGENT_BOX = Workload("AgentDataset", "box_debug")
AGENT_STUB = Workload("AgentDataset", "stub_debug")

WORKLOADS = (AGENT_SEMANTIC, EGO_SEMANTIC, AGENT_SATELLITE, AGENT_BOX, AGENT_STUB)
"""All of them."""
