"""Batches made at once by ``__getitems__`` hold the samples that ``dataset[index]`` makes, to the bit."""

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.dataset.sample_batch import Memory, SampleBatch, collate
from l5kit.errors import InvalidArgumentError, SampleError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import build_rasterizer
from l5kit.rasterization.painter import RecycledMemory
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from support.fixture_s import make_fixture_s
from support.logs import make_several_scenes_log
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg, make_stub

BOTH = pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
MAP_KEYS = {
    "semantic_map_key": "semantic_map.pb",
    "satellite_map_key": "aerial_map.png",
    "dataset_meta_key": "meta.json",
}


@pytest.fixture(scope="module")
def map_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the map of fixture S and an aerial picture around (-190, 0)."""
    folder: Path = tmp_path_factory.mktemp("maps")
    (folder / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    picture = np.random.default_rng(0).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    cv2.imwrite(str(folder / "aerial_map.png"), picture)
    aerial_from_world = np.array([[2, 0, 0, 680], [0, 2, 0, 300], [0, 0, 0, 0], [0, 0, 0, 1]])
    ecef_to_aerial = aerial_from_world @ np.linalg.inv(WORLD_TO_ECEF)
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ecef_to_aerial.tolist()}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


@pytest.fixture(scope="module")
def several_scenes(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "several.zarr"
    make_several_scenes_log().save(path)
    return str(path)


def make_dataset(cls: Any, cfg: dict[str, Any], log: ChunkedDataset, rasterizer: Any = None, **options: Any) -> Any:
    if issubclass(cls, AgentDataset):
        options = {"min_frame_history": 0, "min_frame_future": 0} | options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return cls(cfg, log, rasterizer, **options)
    return cls(cfg, log, rasterizer, **options)


def make_batch(dataset: Any, indices: Any) -> SampleBatch:
    """Return samples made at once: a warning that they were made one by one is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = dataset.__getitems__(indices)
    assert type(batch) is SampleBatch
    return batch


def assert_batch_holds_the_samples(dataset: Any, indices: Any) -> None:
    batch = make_batch(dataset, indices)
    assert len(batch) == len(indices)
    for sample, index in zip(batch, indices, strict=True):
        expected = dataset[index]
        assert_samples_equal(sample, expected)
        assert {key: type(value) for key, value in sample.items()} == {
            key: type(value) for key, value in expected.items()
        }


def all_in_disorder(dataset: Any) -> list[int]:
    return [int(index) for index in np.random.default_rng(1).permutation(len(dataset))]


@BOTH
@pytest.mark.parametrize("image_dtype", ["float32", "uint8"])
@pytest.mark.parametrize("map_type", ["py_satellite", "py_semantic", "box_debug", "satellite_debug", "stub_debug"])
def test_pictures_of_all_kinds(map_type: str, image_dtype: str, cls: Any, map_folder: Path) -> None:
    cfg = make_cfg(map_type=map_type, image_dtype=image_dtype, **MAP_KEYS)
    dataset = make_dataset(cls, cfg, make_fixture_s(), build_rasterizer(cfg, LocalDataManager(str(map_folder))))
    assert_batch_holds_the_samples(dataset, all_in_disorder(dataset)[:12])


@BOTH
@pytest.mark.parametrize("history_num_frames", [0, 1, 3])
@pytest.mark.parametrize("step_size", [1, 2, 3])
def test_histories_and_strides(step_size: int, history_num_frames: int, cls: Any) -> None:
    cfg = make_cfg(
        history_num_frames=history_num_frames, history_step_size=step_size, future_step_size=step_size % 3 + 1
    )
    dataset = make_dataset(cls, cfg, make_several_scenes_log())
    assert_batch_holds_the_samples(dataset, all_in_disorder(dataset))


def open_small_cache(path: str) -> ChunkedDataset:
    return ChunkedDataset(path).open(cache_size_bytes=2000)


def open_uncached(path: str) -> ChunkedDataset:
    return ChunkedDataset(path).open(cached=False)


def open_mapped(path: str) -> ChunkedDataset:
    return ChunkedDataset(path).open(cached="mmap")


def open_twice(path: str) -> ChunkedDataset:
    return ChunkedDataset.concatenate([open_uncached(path), open_mapped(path)])


OPENERS = [open_small_cache, open_uncached, open_mapped, open_twice]


@BOTH
@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_logs_of_all_kinds(opener: Any, cls: Any, several_scenes: str) -> None:
    cfg = make_cfg(map_type="box_debug")
    dataset = make_dataset(cls, cfg, opener(several_scenes), build_rasterizer(cfg, LocalDataManager(".")))
    assert_batch_holds_the_samples(dataset, all_in_disorder(dataset)[:40])


@BOTH
@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_strides_over_logs_of_all_kinds(opener: Any, cls: Any, several_scenes: str) -> None:
    cfg = make_cfg(map_type="box_debug", history_step_size=2, future_step_size=3)
    rasterizer = build_rasterizer(cfg, LocalDataManager("."))
    in_memory = make_dataset(cls, cfg, make_several_scenes_log(), rasterizer)
    dataset = make_dataset(cls, cfg, opener(several_scenes), rasterizer)
    batch = make_batch(dataset, range(len(in_memory)))
    for index, sample in enumerate(in_memory):
        assert_samples_equal(batch[index], sample)
        assert_samples_equal(dataset[index], sample)


@BOTH
@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_a_scene_of_a_dataset(opener: Any, cls: Any, several_scenes: str) -> None:
    whole = make_dataset(cls, make_cfg(), opener(several_scenes))
    scene = whole.get_scene_dataset(3)
    assert_batch_holds_the_samples(scene, range(len(scene)))


@BOTH
def test_first_and_last_frames_of_scenes(cls: Any) -> None:
    dataset = make_dataset(cls, make_cfg(history_num_frames=2, future_num_frames=4), make_several_scenes_log())
    ends = [int(i) for scene in (0, 2, 3) for i in dataset.get_scene_indices(scene)[[0, -1]]]
    assert_batch_holds_the_samples(dataset, ends)


@BOTH
def test_negative_indices_and_repeated_ones(cls: Any) -> None:
    dataset = make_dataset(cls, make_cfg(), make_several_scenes_log())
    assert_batch_holds_the_samples(dataset, [-1, 3, 3, -len(dataset), np.int64(2)])


@BOTH
def test_traffic_light_faces_are_switched_off_after_construction(cls: Any, map_folder: Path) -> None:
    cfg = make_cfg(map_type="py_semantic", **MAP_KEYS)
    dataset = make_dataset(cls, cfg, make_fixture_s(), build_rasterizer(cfg, LocalDataManager(str(map_folder))))
    indices = all_in_disorder(dataset)[:8]
    lit = make_batch(dataset, indices)
    cfg["raster_params"]["disable_traffic_light_faces"] = True
    assert_batch_holds_the_samples(dataset, indices)
    assert any((a["image"] != b["image"]).any() for a, b in zip(lit, make_batch(dataset, indices), strict=True))


def test_perturbations_draw_the_numbers_of_single_items_in_order() -> None:
    perturbation = AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), 0.6)
    dataset = EgoDataset(make_cfg(), make_fixture_s(), make_stub(make_cfg()), perturbation)
    indices = all_in_disorder(dataset)
    perturbation.reseed(5)
    batch = make_batch(dataset, indices)
    perturbation.reseed(5)
    for sample, index in zip(batch, indices, strict=True):
        assert_samples_equal(sample, dataset[index])
    recorded = dataset.dataset.frames["ego_translation"][indices, :2]
    moved = [bool((sample["centroid"] != xy).any()) for sample, xy in zip(batch, recorded, strict=True)]
    assert 0.3 < np.mean(moved) < 0.9


def test_no_samples() -> None:
    assert make_dataset(EgoDataset, make_cfg(), make_fixture_s()).__getitems__([]) == []


@pytest.mark.parametrize("wrong", [30, -31])
def test_an_index_outside_the_dataset(wrong: int) -> None:
    dataset = make_dataset(EgoDataset, make_cfg(), make_fixture_s())
    assert len(dataset) == 30
    with pytest.raises(IndexError) as single:
        dataset[wrong]
    with pytest.raises(IndexError) as batched:
        dataset.__getitems__([0, wrong])
    assert (type(batched.value), str(batched.value)) == (type(single.value), str(single.value))


def test_a_sample_that_cannot_be_made_is_the_error_of_the_single_item() -> None:
    log = make_several_scenes_log()
    log.agents["label_probabilities"][5] = 0  # fails the label filter, yet is requested
    mask = np.ones(len(log.agents), bool)
    dataset = make_dataset(AgentDataset, make_cfg(), log, agents_mask=mask, strict_mask=True)
    with pytest.raises(SampleError) as single:
        dataset[5]
    with pytest.raises(SampleError) as batched:
        dataset.__getitems__([2, 5, 7])
    assert str(batched.value) == str(single.value)
    assert type(batched.value.__cause__) is type(single.value.__cause__)


def add_mark(sample: dict[str, Any]) -> dict[str, Any]:
    return sample | {"mark": 1}


class OwnItem(EgoDataset):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return add_mark(super().__getitem__(index))


class OwnFrame(EgoDataset):
    def get_frame(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return add_mark(super().get_frame(*args, **kwargs))


class OwnFunction(EgoDataset):
    def _get_sample_function(self) -> Any:
        inherited = super()._get_sample_function()
        return lambda *args: add_mark(inherited(*args))


class OwnAgentFrame(AgentDataset):
    def get_frame(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return add_mark(super().get_frame(*args, **kwargs))


@pytest.mark.parametrize("cls", [OwnItem, OwnFrame, OwnFunction, OwnAgentFrame])
def test_what_a_subclass_makes_is_honoured(cls: Any) -> None:
    dataset = make_dataset(cls, make_cfg(), make_fixture_s())
    samples = dataset.__getitems__(iter([3, 1]))
    assert [sample["mark"] for sample in samples] == [1, 1]
    for sample, index in zip(samples, [3, 1], strict=True):
        assert_samples_equal(sample, dataset[index])


def test_what_an_instance_makes_is_honoured() -> None:
    dataset = make_dataset(EgoDataset, make_cfg(), make_fixture_s())
    inherited = dataset.get_frame
    dataset.get_frame = lambda *args, **kwargs: add_mark(inherited(*args, **kwargs))
    assert [sample["mark"] for sample in dataset.__getitems__([3, 1])] == [1, 1]


def test_a_replaced_sample_function_is_honoured() -> None:
    dataset = make_dataset(EgoDataset, make_cfg(), make_fixture_s())
    inherited = dataset.sample_function
    dataset.sample_function = lambda *args: add_mark(inherited(*args))
    assert [sample["mark"] for sample in dataset.__getitems__([3, 1])] == [1, 1]


class DarkRasterizer(SemanticRasterizer):
    def rasterize(self, *args: Any) -> Any:
        return super().rasterize(*args) * 0


def test_a_rasterizer_of_its_own_is_honoured(map_folder: Path) -> None:
    cfg = make_cfg()
    context = make_stub(cfg).render_context
    rasterizer = DarkRasterizer(context, str(map_folder / "semantic_map.pb"), WORLD_TO_ECEF)
    dataset = make_dataset(EgoDataset, cfg, make_fixture_s(), rasterizer)
    for sample in dataset.__getitems__([3, 1]):
        assert sample["image"].shape == (3, 112, 224)
        assert not sample["image"].any()


class SlowRasterizer:
    """A rasterizer as users write them: only single windows, channels last."""

    def rasterize(self, history_frames: Any, *_: Any) -> Any:
        return np.full((6, 8, 2), float(history_frames["timestamp"][0]), np.float32)


def test_a_rasterizer_without_planes() -> None:
    dataset = make_dataset(EgoDataset, make_cfg(), make_fixture_s(), SlowRasterizer())
    for sample, index in zip(dataset.__getitems__([3, 1]), [3, 1], strict=True):
        assert sample["image"].shape == (2, 6, 8)
        assert_samples_equal(sample, dataset[index])


def make_large(num_pixels: int = 256, image_dtype: str = "float32") -> EgoDataset:
    """Return a dataset with pictures large enough for their memory to be used again."""
    cfg = make_cfg(map_type="box_debug", raster_size=[num_pixels, num_pixels], image_dtype=image_dtype)
    return make_dataset(EgoDataset, cfg, make_fixture_s(), build_rasterizer(cfg, LocalDataManager(".")))


def address_of(batch: SampleBatch) -> int:
    return int(batch.columns["image"].__array_interface__["data"][0])


def test_memory_that_is_looked_at_is_never_used_again() -> None:
    dataset = make_large()
    view = make_batch(dataset, [5, 6, 7])[1]["image"][2:4, 100:200]
    kept = view.copy()
    for start in range(12):
        make_batch(dataset, [start, start + 1, start + 2])
    np.testing.assert_array_equal(view, kept)
    assert view.any()


def test_memory_that_nobody_looks_at_is_used_again() -> None:
    memory = RecycledMemory()
    dataset = make_large().with_draws(None, new_memory=lambda shape, dtype: Memory(memory.empty(shape, dtype)))
    batch = make_batch(dataset, [1, 2, 3])
    address = address_of(batch)
    tensors = collate(batch)
    del batch
    assert memory.num_free_bytes == 0
    del tensors
    assert memory.num_free_bytes == 3 * 8 * 256 * 256 * 4
    assert address_of(make_batch(dataset, [4, 5, 6])) == address
    assert address_of(make_batch(dataset, [4, 5])) != address, "of another size"


@pytest.mark.parametrize("size", [3, 2])
def test_out_is_drawn_over(size: int) -> None:
    dataset = make_large()
    out = make_batch(dataset, [1, 2, 3])
    indices = [9, 8, 7][:size]
    again: Any = dataset.__getitems__(indices, out=out)
    assert address_of(again) == address_of(out)
    for sample, index in zip(again, indices, strict=True):
        assert_samples_equal(sample, dataset[index])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        pytest.param(lambda: make_batch(make_large(), [1, 2]), "out holds rasters of shape", id="too few"),
        pytest.param(lambda: make_batch(make_large(128), [1, 2, 3]), "out holds rasters of shape", id="other size"),
        pytest.param(
            lambda: make_batch(make_large(image_dtype="uint8"), [1, 2, 3]),
            "out holds rasters of shape",
            id="other type",
        ),
        pytest.param(
            lambda: make_batch(make_dataset(EgoDataset, make_cfg(), make_fixture_s()), [1, 2, 3]),
            "must be a batch with rasters",
            id="no pictures",
        ),
        pytest.param(list, "must be a batch with rasters.*got list", id="a list"),
    ],
)
def test_out_of_another_kind_is_refused(out: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make_large().__getitems__([1, 2, 3], out=out())


def test_samples_of_a_batch_share_no_memory_with_each_other_or_the_log() -> None:
    log = make_several_scenes_log()
    before = {name: getattr(log, name).copy() for name in ("scenes", "frames", "agents", "tl_faces")}
    dataset = make_agent_dataset(make_cfg(), log, min_frame_history=0)
    batch = make_batch(dataset, [3, 3])
    arrays = [[value for value in sample.values() if isinstance(value, np.ndarray)] for sample in batch]
    for first, second in itertools.product(*arrays):
        assert not np.shares_memory(first, second)
    for value in itertools.chain(*arrays):
        if value.flags.writeable:
            value[...] = 77
    for name, rows in before.items():
        assert getattr(log, name).tobytes() == rows.tobytes()
    assert make_batch(dataset, [3])[0]["centroid"][0] != 77
