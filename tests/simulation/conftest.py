"""Scenes that the tests of simulations share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from l5kit.data import ChunkedDataset, find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.dataset import EgoDataset
from l5kit.simulation.engine.scene_batch import RoadMap
from support.logs import make_log, make_scene
from support.samples import make_cfg, make_stub

CFG = make_cfg(history_num_frames=2, future_num_frames=3, raster_size=[16, 12])


def ego_dataset(log: Any, cfg: dict[str, Any] = CFG) -> EgoDataset:
    return EgoDataset(cfg, log, make_stub(cfg))


@pytest.fixture
def near_and_far() -> EgoDataset:
    """The scene of the worked example: 12 frames, the AV at x = f, a car at x = 8 + f and one far away."""
    agents = [[{"track_id": 1, "centroid": (8 + f, 0)}, {"track_id": 2, "centroid": (500, 0)}] for f in range(12)]
    return ego_dataset(make_scene(agents))


@pytest.fixture
def second_comes_close() -> EgoDataset:
    """Four frames with the AV at the origin: a near car, a second that comes close in frame 1, far ones, and none."""
    frames = [
        [{"track_id": 1, "centroid": (1, 1)}, {"track_id": 2, "centroid": (50, 50)}],
        [{"track_id": 1, "centroid": (2, 1)}, {"track_id": 2, "centroid": (5, 5)}],
        [{"track_id": 1, "centroid": (100, 100)}],
        [],
    ]
    return ego_dataset(make_scene(frames, positions_m=(0.0, 0.0)))


@pytest.fixture
def several() -> EgoDataset:
    """Three scenes of 12, 9 and 10 frames; the last one has no agents."""

    def scene(length: int, offset_m: float) -> list[list[dict[str, Any]]]:
        return [
            [{"track_id": 1, "centroid": (5 + 0.5 * f, offset_m)}, {"track_id": 2, "centroid": (-6, 3 - 0.1 * f)}]
            for f in range(length)
        ]

    frames: Sequence[Any] = [scene(12, 2.0), scene(9, -1.0), [[]] * 10]
    return ego_dataset(make_log(frames, positions_m=[(0.3 * f, 0.01 * f, 3.0) for f in range(31)]))


@pytest.fixture
def make_dataset() -> Callable[..., EgoDataset]:
    return ego_dataset


@pytest.fixture(scope="session")
def log(city: Path) -> ChunkedDataset:
    """The log of the synthetic city: three scenes of 100 frames."""
    return ChunkedDataset(str(find_dataset_files(city).dataset)).open()


@pytest.fixture(scope="session")
def scenes(log: ChunkedDataset) -> list[SceneRecords]:
    """Its scenes; no test changes them."""
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))]


@pytest.fixture(scope="session")
def city_road(city: Path) -> RoadMap:
    """Its map, to drive on."""
    return RoadMap(open_map(find_dataset_files(city)))
