"""Constructors and indices of the datasets: other integers, other objects, damaged logs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset, select_agents
from l5kit.errors import ConfigError, CorruptedDataError, InvalidArgumentError
from l5kit.sampling import get_agent_context, get_history_slice
from support.fixture_s import make_fixture_s, save_fixture_s
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg, make_stub


class OwnPerturbation:
    """A perturbation as scripts for 1.5 write it: only ``perturb``, not derived from anything."""

    def perturb(self, history_frames: Any, future_frames: Any) -> tuple[Any, Any]:
        moved = history_frames.copy()
        moved["ego_translation"][0, 0] += 1.0
        return moved, future_frames


class OwnRasterizer:
    """A rasterizer with ``rasterize`` alone."""

    def rasterize(self, history_frames: Any, history_agents: Any, history_tl_faces: Any, agent: Any = None) -> Any:
        return np.full((4, 6, 2), len(history_frames), np.float32)


@pytest.fixture
def ego() -> EgoDataset:
    cfg = make_cfg()
    return EgoDataset(cfg, make_fixture_s(), make_stub(cfg))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64, np.int64], ids=lambda kind: kind.__name__)
def test_every_kind_of_integer_gives_the_same_sample(kind: Any, ego: EgoDataset) -> None:
    assert_samples_equal(ego[kind(12)], ego[12])
    sample = ego.get_frame(kind(0), kind(12), track_id=kind(1))
    as_given = {"frame_index": kind(12), "scene_index": kind(0)}
    assert_samples_equal(sample, ego.get_frame(0, 12, track_id=1) | as_given)


def test_small_integers_do_not_overflow() -> None:
    frames = np.zeros(300, make_fixture_s().frames.dtype)
    context = get_agent_context(np.uint8(250), frames, [], [], np.uint8(200), np.uint8(100))
    assert [len(part) for part in context[:2]] == [201, 49]
    assert get_history_slice(np.int8(120), np.int8(100), np.int8(2)) == get_history_slice(120, 100, 2)


@pytest.mark.parametrize("index", ["x", 1.5, None])
def test_an_index_that_is_no_integer_is_a_type_error(index: Any, ego: EgoDataset) -> None:
    with pytest.raises(TypeError):
        ego[index]


@pytest.mark.process
def test_objects_without_base_classes_work() -> None:
    dataset = EgoDataset(make_cfg(), make_fixture_s(), OwnRasterizer(), OwnPerturbation())
    recorded = EgoDataset(make_cfg(), make_fixture_s(), None)
    assert dataset[10]["image"].shape == (2, 4, 6)
    assert dataset[10]["centroid"][0] == recorded[10]["centroid"][0] + 1.0
    batch = next(iter(DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context="fork")))
    assert batch["image"].shape == (2, 2, 4, 6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"zarr_dataset": "path.zarr"}, "zarr_dataset must be a ChunkedDataset", id="a path"),
        pytest.param({"rasterizer": "py_semantic"}, "rasterizer must have a method rasterize", id="rasterizer"),
        pytest.param({"perturbation": 0.5}, "perturbation must have a method perturb", id="perturbation"),
    ],
)
def test_wrong_objects_are_refused_by_name(arguments: dict[str, Any], words: str) -> None:
    usual = {"cfg": make_cfg(), "zarr_dataset": make_fixture_s(), "rasterizer": None}
    with pytest.raises(InvalidArgumentError, match=words):
        EgoDataset(**(usual | arguments))


def test_a_log_that_was_not_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is not open"):
        EgoDataset(make_cfg(), ChunkedDataset(save_fixture_s(tmp_path)), None)


@pytest.mark.parametrize("value", ["yes", 2, None])
def test_a_bad_switch_of_the_lights_is_told_by_the_constructor(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"raster_params\.disable_traffic_light_faces"):
        EgoDataset(make_cfg(disable_traffic_light_faces=value), make_fixture_s(), None)


def test_minima_must_be_integers() -> None:
    with pytest.raises(TypeError):
        make_agent_dataset(make_cfg(), make_fixture_s(), min_frame_history="1")


@pytest.mark.parametrize("array", ["scenes", "frames"])
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_a_missing_chunk_is_no_empty_log(cls: Any, array: str, tmp_path: Path) -> None:
    path = save_fixture_s(tmp_path)
    (Path(path) / array / "0").unlink()
    log = ChunkedDataset(path).open()
    with pytest.raises((CorruptedDataError, RuntimeError), match=rf"{array}.0 is missing"):
        cls(make_cfg(), log, None)[0]
    with pytest.raises(CorruptedDataError, match=rf"{array}.0 is missing"):
        select_agents(log, 0.5, 30, 1.1, 50)
    assert not (Path(path) / "agents_mask").exists()


def test_what_a_dataset_says_of_itself(ego: EgoDataset) -> None:
    assert repr(ego) == "<EgoDataset of 30 samples on 'a log in memory'>"
