"""Datasets in torch's DataLoader: collation, workers by fork and spawn, what is sent to them, their random numbers."""

import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
import zarr
from torch.utils.data import DataLoader, Subset

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.builder import MapBuilder
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import UnpicklableStoreError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import build_rasterizer
from support.fixture_s import make_fixture_s, save_fixture_s
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.samples import make_agent_dataset, make_cfg, make_stub

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux only")
MAP_KEYS = {
    "semantic_map_key": "semantic_map.pb",
    "satellite_map_key": "aerial_map.png",
    "dataset_meta_key": "meta.json",
}


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with fixture S, its map, and an aerial picture of 2 pixels a metre around (-190, 0)."""
    folder: Path = tmp_path_factory.mktemp("data")
    save_fixture_s(folder)
    (folder / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    picture = np.random.default_rng(0).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    cv2.imwrite(str(folder / "aerial_map.png"), picture)
    aerial_from_world = np.array([[2, 0, 0, 680], [0, 2, 0, 300], [0, 0, 0, 0], [0, 0, 0, 1]])
    ecef_to_aerial = aerial_from_world @ np.linalg.inv(WORLD_TO_ECEF)
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ecef_to_aerial.tolist()}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def open_log(folder: Path) -> ChunkedDataset:
    return ChunkedDataset(str(folder / "fixture_s.zarr")).open()


def make_dataset(cls: Any, folder: Path, map_type: str, perturbation: Any = None) -> Any:
    cfg = make_cfg(map_type=map_type, **MAP_KEYS)
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(folder)))
    if cls is AgentDataset:
        return make_agent_dataset(cfg, open_log(folder), rasterizer)
    return cls(cfg, open_log(folder), rasterizer, perturbation)


def assert_batches_hold_the_samples(loader: Any, dataset: Any) -> None:
    index = 0
    for batch in loader:
        size = len(batch["frame_index"])
        for k in range(size):
            for key, value in dataset[index + k].items():
                np.testing.assert_array_equal(batch[key][k].numpy(), value, err_msg=key)
        index += size
    assert index == len(dataset)


@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
@pytest.mark.parametrize("map_type", ["py_satellite", "py_semantic", "box_debug", "satellite_debug"])
def test_batches_of_four_hold_the_samples(map_type: str, cls: Any, data_folder: Path) -> None:
    dataset = make_dataset(cls, data_folder, map_type)
    batch = next(iter(DataLoader(dataset, batch_size=4)))
    assert batch["image"].shape[0] == 4
    assert batch["image"].shape[2:] == (112, 224)
    assert_batches_hold_the_samples(DataLoader(dataset, batch_size=4), dataset)


def test_types_of_a_batch(data_folder: Path) -> None:
    for cls, extent in ((EgoDataset, torch.float64), (AgentDataset, torch.float32)):
        batch = next(iter(DataLoader(make_dataset(cls, data_folder, "box_debug"), batch_size=4)))
        found = {key: value.dtype for key, value in batch.items()}
        for key in ("frame_index", "scene_index", "timestamp", "track_id"):
            assert found[key] == torch.int64, key
        assert (found["yaw"], found["curr_speed"], found["extent"]) == (torch.float64, torch.float32, extent)
        assert (found["host_id"], tuple(batch["host_id"].shape)) == (torch.uint8, (4, 70))


@pytest.mark.process
@needs_fork
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_forked_workers_give_the_samples(cls: Any, data_folder: Path) -> None:
    dataset = make_dataset(cls, data_folder, "py_semantic")
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork")
    assert_batches_hold_the_samples(loader, dataset)


@pytest.mark.process
def test_spawned_workers_give_the_samples(data_folder: Path) -> None:
    dataset = make_dataset(AgentDataset, data_folder, "py_semantic")
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="spawn")
    assert_batches_hold_the_samples(loader, dataset)


@pytest.mark.process
@needs_fork
def test_a_log_in_memory_goes_to_forked_workers() -> None:
    cfg = make_cfg()
    dataset = EgoDataset(cfg, make_fixture_s(), make_stub(cfg))
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork")
    assert_batches_hold_the_samples(loader, dataset)


def open_memory_store() -> ChunkedDataset:
    store, log = zarr.storage.MemoryStore(), make_fixture_s()
    written = ChunkedDataset(store).initialize()
    for name in ("scenes", "frames", "agents", "tl_faces"):
        getattr(written, name).append(getattr(log, name))
    return ChunkedDataset(store).open()


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:Got pickle error when attempting to start a worker Process")
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_a_memory_store_cannot_go_to_spawned_workers_and_says_what_to_do(cls: Any) -> None:
    cfg = make_cfg()
    dataset = cls(cfg, open_memory_store(), make_stub(cfg))
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="spawn")
    with pytest.raises(UnpicklableStoreError, match=r"fork.*num_workers=0.*save\(\)"):
        next(iter(loader))


class WhereTheArraysAre(AgentDataset):
    """Tells the addresses of its arrays, and whether it was made by unpickling."""

    was_unpickled = False

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> dict[str, Any]:
        arrays = (self.agents_mask, self.agents_indices, self.cumulative_sizes_agents, self.cumulative_sizes)
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        return {"addresses": addresses, "was_unpickled": self.was_unpickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.was_unpickled = True


@pytest.mark.process
@needs_fork
def test_d21_forked_workers_share_mask_and_indices(data_folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        dataset = WhereTheArraysAre(make_cfg(), open_log(data_folder), None)
    expected = dataset[0]
    for found in DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"):
        assert ([int(address) for address in found["addresses"]], found["was_unpickled"]) == (
            expected["addresses"],
            False,
        )
    assert pickle.loads(pickle.dumps(dataset)).was_unpickled


def save_large_map(path: Path) -> None:
    """Write a map of 3000 lanes around the origin."""
    builder = MapBuilder(WORLD_TO_ECEF)
    along_m = np.linspace(0, 50, 12)
    for k in range(3000):
        left = np.stack([along_m + 60 * (k % 50), np.full(12, 4.0 * (k // 50)), np.zeros(12)], axis=1)
        builder.add_lane(f"lane {k}", xyz_left=left, xyz_right=left - (0, 3.5, 0))
    builder.save(path)


@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_d21_a_dataset_on_files_pickles_small(cls: Any, data_folder: Path, tmp_path: Path) -> None:
    save_large_map(tmp_path / "semantic_map.pb")
    (tmp_path / "meta.json").write_text((data_folder / "meta.json").read_text())
    cfg = make_cfg(map_type="py_semantic", **MAP_KEYS)
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(tmp_path)))
    log = ChunkedDataset.concatenate([open_log(data_folder)] * 200)
    dataset = make_agent_dataset(cfg, log, rasterizer) if cls is AgentDataset else cls(cfg, log, rasterizer)
    dataset[0]
    pickled = pickle.dumps(dataset)
    assert (tmp_path / "semantic_map.pb").stat().st_size > 200_000
    assert len(pickled) < 100_000
    np.testing.assert_array_equal(pickle.loads(pickled)[-1]["image"], dataset[-1]["image"])


@pytest.mark.parametrize("map_type", ["py_semantic", "py_satellite"])
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_d21_the_real_scene_with_the_street_map_pickles_small(cls: Any, map_type: str, shared_data: Path) -> None:
    keys = {"semantic_map_key": "semantic_synth.pb", "satellite_map_key": "aerial_synth.png"}
    cfg = make_cfg(map_type=map_type, **(MAP_KEYS | keys))
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(shared_data)))
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    dataset = make_agent_dataset(cfg, log, rasterizer) if cls is AgentDataset else cls(cfg, log, rasterizer)
    dataset[100]
    assert len(pickle.dumps(dataset)) < 1_000_000


def make_perturbed(folder: Path) -> EgoDataset:
    perturbation = AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), 0.7)
    return make_dataset(EgoDataset, folder, "stub_debug", perturbation)


def moves_of_epochs(folder: Path, *, seed: int, num_epochs: int = 2, num_workers: int = 2, **options: Any) -> Any:
    """Return how far the AV was moved in each of some frames of each epoch, (E, 10)."""
    torch.manual_seed(seed)
    if num_workers:
        options["multiprocessing_context"] = "fork"
    indices = range(2, 22, 2)
    loader = DataLoader(Subset(make_perturbed(folder), indices), batch_size=1, num_workers=num_workers, **options)
    recorded = make_fixture_s().frames["ego_translation"][indices, :2]
    epochs = [torch.cat([batch["centroid"] for batch in loader]).numpy() for _ in range(num_epochs)]
    return np.linalg.norm(np.array(epochs) - recorded, axis=-1)


@pytest.mark.process
@needs_fork
@pytest.mark.parametrize("persistent", [False, True])
def test_f5_workers_and_epochs_draw_differently_and_reproducibly(persistent: bool, data_folder: Path) -> None:
    first = moves_of_epochs(data_folder, seed=1, persistent_workers=persistent)
    assert (first > 0).mean() > 0.4
    assert (first == 0).mean() > 0.1
    moved = first[first > 0]
    assert len(np.unique(moved.round(9))) == len(moved), "no worker repeats another, no epoch repeats another"
    np.testing.assert_array_equal(moves_of_epochs(data_folder, seed=1, persistent_workers=persistent), first)
    assert not np.array_equal(moves_of_epochs(data_folder, seed=2, persistent_workers=persistent), first)


@pytest.mark.process
def test_f5_without_workers_the_global_generators_decide_as_in_1_5(data_folder: Path) -> None:
    np.random.seed(3)  # noqa: NPY002
    first = moves_of_epochs(data_folder, seed=1, num_workers=0)
    np.random.seed(3)  # noqa: NPY002
    np.testing.assert_array_equal(moves_of_epochs(data_folder, seed=2, num_workers=0), first)
