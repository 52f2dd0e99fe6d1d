"""What the workloads do: samples that are made, and scenes that are driven and checked."""

import warnings
from typing import TYPE_CHECKING

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
from l5kit.warmup.workloads import VectorWorkload, Workload

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset

_NAMES = {"semantic_map": "semantic map", "aerial": "aerial picture", "meta": "meta.json"}


class RowLeftOutError(L5KitError):
    """A row of the benchmark cannot be measured here; the message says what it lacks."""


def config_with_files(workload: Workload | VectorWorkload, files: DatasetFiles) -> JsonObject:
    """Return the configuration of a workload with the whole paths of the maps, for ``LocalDataManager("")``.

    Raises:
        RowLeftOutError: A map that it needs is missing.
    """
    missing = [_NAMES[part] for part in workload.needed_files if getattr(files, part) is None]
    if missing:
        raise RowLeftOutError(f"there is no {' and no '.join(missing)} near {files.dataset}")
    cfg = workload.config()
    keys = {"semantic_map_key": files.semantic_map, "satellite_map_key": files.aerial, "dataset_meta_key": files.meta}
    cfg["raster_params"].update({key: str(path) for key, path in keys.items() if path is not None})
    return cfg


def make_samples(workload: Workload | VectorWorkload, cfg: JsonObject, dataset: ChunkedDataset) -> "BaseEgoDataset":
    """Return a dataset of the class of a workload."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the agents mask of", category=RuntimeWarning)
        if isinstance(workload, VectorWorkload):
            # imported here, so that commits without them can be compared in all other rows
            from l5kit.dataset.ego import EgoAgentDatasetVectorized, EgoDatasetVectorized
            from l5kit.vectorization.vectorizer_builder import build_vectorizer

            is_of_av = workload.dataset == "EgoDatasetVectorized"
            of_vectors = EgoDatasetVectorized if is_of_av else EgoAgentDatasetVectorized
            return of_vectors(cfg, dataset, build_vectorizer(cfg, LocalDataManager("")))
        from l5kit.dataset.agent import AgentDataset  # here, as datasets bring torch
        from l5kit.dataset.ego import EgoDataset

        of_pictures = AgentDataset if workload.dataset == "AgentDataset" else EgoDataset
        return of_pictures(cfg, dataset, build_rasterizer(cfg, LocalDataManager("")))


def drive_by_idm(batch: SceneBatch) -> DrivenScenes:
    """Drive AVs, with tracker and bicycle, and all vehicles on lanes by IDM."""
    driver = IntelligentDriver()
    control = AgentControl.of_traffic(tracks=driver.tracks)
    return SceneSimulation(batch, ego=EgoSeat(driver), agents=AgentSeat(driver, control=control)).run()


def check_drive(driven: DrivenScenes) -> int:
    """Look for collisions and ways off the road, and return the rows of agents and AVs of all frames."""
    states, road_users, driving_map = driven.ego_states(), driven.road_users(), driven.batch.driving_map
    find_collisions(states, road_users, find_lane_positions(states, driving_map))
    if driving_map is not None:
        find_distances_off_road(states, driving_map)
    return int(np.diff(driven.buffer.frames["agent_index_interval"], axis=1).sum() + states.is_there.sum())


def read_road(files: DatasetFiles) -> RoadMap:
    """Return the map beside a dataset, its lanes built.

    Raises:
        RowLeftOutError: There is none.
    """
    api = open_map(files)
    if api is None:
        raise RowLeftOutError(f"there is no semantic map and no meta.json near {files.dataset}")
    road = RoadMap(api)
    _ = road.driving  # built once, before any pass
    return road
