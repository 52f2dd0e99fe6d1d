"""A batch of a damaged log fails as its first damaged sample does by itself, and reads nothing outside the arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.index.windows import WindowSteps
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset
from l5kit.dataset.sample_indices import LogArrays, SampleIndices, cut_samples
from l5kit.errors import CorruptedDataError, SampleError
from support.logs import CHUNK_LENGTHS, make_log, make_several_scenes_log, write_with_chunks
from support.random_logs import random_dataset
from support.samples import assert_samples_equal, make_cfg

FRAMES_OF_A_SCENE, AGENTS_OF_A_FRAME = "frame_index_interval", "agent_index_interval"


def assert_fails_as_single_items_do(dataset: EgoDataset, indices: list[int], damaged: int) -> None:
    with pytest.raises(SampleError) as single:
        dataset[damaged]
    with pytest.raises(SampleError) as batched:
        dataset.__getitems__(indices)
    assert str(batched.value) == str(single.value)
    assert type(batched.value.__cause__) is type(single.value.__cause__)


def assert_holds_the_samples(dataset: EgoDataset, indices: list[int]) -> None:
    for sample, index in zip(dataset.__getitems__(indices), indices, strict=True):
        assert_samples_equal(sample, dataset[index])


@pytest.mark.parametrize(
    ("row", "interval", "damaged", "whole"),
    [
        pytest.param(3, (21, 38), 30, [0, 5, 20], id="ends one frame behind the last one"),
        pytest.param(3, (21, 2**40), 21, [0, 5, 20], id="ends far behind the last one"),
        pytest.param(0, (-1, 20), 4, [20, 21, 36], id="starts before the first one"),
        pytest.param(0, (0, 10), 10, [0, 9, 20, 36], id="lost its last frames"),
        pytest.param(0, (12, 3), 4, [20, 21, 36], id="ends before its start"),
    ],
)
def test_an_interval_of_a_scene(row: int, interval: tuple[int, int], damaged: int, whole: list[int]) -> None:
    log = make_several_scenes_log()
    dataset = EgoDataset(make_cfg(), log, None)
    log.scenes[FRAMES_OF_A_SCENE][row] = interval
    assert_holds_the_samples(dataset, whole)
    assert_fails_as_single_items_do(dataset, [*whole, damaged, whole[0]], damaged)


@pytest.mark.parametrize("history_step_size", [1, 2])
@pytest.mark.parametrize("interval", [(60, 1000), (-5, 2), (7, 3)])
def test_an_interval_of_a_frame(interval: tuple[int, int], history_step_size: int) -> None:
    log = make_several_scenes_log()
    dataset = EgoDataset(make_cfg(history_step_size=history_step_size, future_num_frames=2), log, None)
    log.frames[AGENTS_OF_A_FRAME][8] = interval
    assert_holds_the_samples(dataset, [0, 20, 30])
    assert_fails_as_single_items_do(dataset, [0, 20, 8, 30], 8)


@pytest.mark.parametrize(
    ("interval", "frame"), [((-1, 20), 4), ((0, 10**6), 4), ((0, 10), 10), ((12, 3), 4), ((0, 20), -1)]
)
def test_windows_of_scenes_that_do_not_fit_are_not_cut(interval: tuple[int, int], frame: int) -> None:
    log = make_several_scenes_log()
    log.scenes[FRAMES_OF_A_SCENE][0] = interval
    arrays = LogArrays.of(log, has_tl_faces=True)
    with pytest.raises(CorruptedDataError, match="frame_index_interval of a scene does not fit its frames"):
        cut_samples(arrays, SampleIndices(np.zeros(1, np.int64), np.full(1, frame)), WindowSteps(0, 0, 1, 1))


def open_small_cache(path: str) -> ChunkedDataset:
    return ChunkedDataset(path).open(cache_size_bytes=1500)


def open_uncached(path: str) -> ChunkedDataset:
    return ChunkedDataset(path).open(cached=False)


def open_joined(path: str) -> ChunkedDataset:
    return ChunkedDataset.concatenate([ChunkedDataset(path).open(), open_uncached(path)])


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("history_step_size", [1, 2])
@pytest.mark.parametrize(
    "opener",
    [lambda path: ChunkedDataset(path).open(), open_small_cache, open_uncached, open_joined],
    ids=["cached", "small cache", "uncached", "joined"],
)
@pytest.mark.parametrize("chunk", ["frames/1", "agents/2", "traffic_light_faces/1"])
def test_a_chunk(chunk: str, opener: Any, history_step_size: int, damage: str, tmp_path: Path) -> None:
    path = write_with_chunks(random_dataset(np.random.default_rng(17), 6), tmp_path / "log.zarr")
    cfg = make_cfg(history_step_size=history_step_size)
    batched, single = (EgoDataset(cfg, opener(path), None) for _ in range(2))
    file = Path(path) / chunk
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:20])
    errors = {}
    for index in range(len(single)):
        try:
            single[index]
        except SampleError as error:
            errors[index] = str(error)
    whole = [index for index in range(len(single)) if index not in errors]
    assert_holds_the_samples(batched, whole)
    if chunk.startswith("traffic") and damage == "missing":
        assert not errors, "faces of a missing chunk are read as zeros"
        return
    for index, message in list(errors.items())[::3]:
        with pytest.raises(SampleError) as raised:
            batched.__getitems__([*whole[:2], index, *whole[2:4]])
        assert str(raised.value) == message
    assert errors


@pytest.mark.parametrize(
    "opener", [open_uncached, lambda path: ChunkedDataset(path).open()], ids=["uncached", "cached"]
)
def test_strides_need_no_chunk_of_the_frames_between(opener: Any, tmp_path: Path) -> None:
    agents_of_a_frame = [{"track_id": track_id} for track_id in range(1, CHUNK_LENGTHS["agents"] + 1)]
    path = write_with_chunks(make_log([[agents_of_a_frame] * 6]), tmp_path / "log.zarr")
    cfg = make_cfg(history_num_frames=2, history_step_size=2, future_num_frames=0)
    in_memory = EgoDataset(cfg, make_log([[agents_of_a_frame] * 6]), None)
    (Path(path) / "agents" / "1").unlink()
    dataset = EgoDataset(cfg, opener(path), None)
    for found in (dataset[4], *dataset.__getitems__([4])):
        assert_samples_equal(found, in_memory[4])
    assert_fails_as_single_items_do(dataset, [4, 3], 3)
