"""Indices of large logs that are kept in files: the same numbers as in memory, shared, and never stale."""

import mmap
import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data import user_cache
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset, kept_index, masked_agents
from l5kit.dataset.kept_index import kept_end_rows
from l5kit.dataset.select_agents import select_agents
from support.fixture_s import make_fixture_s, save_fixture_s
from support.samples import THRESHOLDS, assert_samples_equal, make_cfg


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(save_fixture_s(tmp_path))


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LARGE_NUM_FRAMES", "LARGE_NUM_ROWS"):
        monkeypatch.setattr(kept_index, name, 1)
    monkeypatch.setattr(kept_index, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(masked_agents, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(user_cache, "LARGE_NUM_BYTES", 1)


def open_agents(path: Path, **options: Any) -> AgentDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return AgentDataset(make_cfg(), ChunkedDataset(str(path)).open(cached="mmap"), None, **options)


def is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def kept_files() -> list[str]:
    folder = user_cache.cache_folder() / "sample_index"
    return sorted(file.name for file in folder.rglob("*") if file.suffix == ".npy")


def assert_same_index(dataset: AgentDataset, expected: AgentDataset) -> None:
    for name in ("agents_mask", "agents_indices", "cumulative_sizes", "cumulative_sizes_agents", "mask_indices"):
        found, wanted = getattr(dataset, name), getattr(expected, name)
        assert found.dtype == wanted.dtype
        assert_array_equal(found, wanted)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("minima", [(10, 1), (0, 0), (3, 2)], ids=str)
def test_kept_numbers_are_those_in_memory(path: Path, minima: tuple[int, int]) -> None:
    options = dict(zip(("min_frame_history", "min_frame_future"), minima, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = AgentDataset(make_cfg(), make_fixture_s(), None, **options)
    dataset = open_agents(path, **options)
    assert is_mapped(dataset.agents_indices)
    assert is_mapped(dataset.agents_mask)
    assert is_mapped(dataset.cumulative_sizes_agents)
    assert not is_mapped(expected.agents_indices)
    assert not dataset.agents_indices.flags.writeable
    assert_same_index(dataset, expected)
    frames = range(len(dataset.dataset.frames))
    assert [dataset.get_frame_indices(frame).tolist() for frame in frames] == [
        expected.get_frame_indices(frame).tolist() for frame in frames
    ]
    for index in (0, len(expected) // 2, -1):
        assert_samples_equal(dataset[index], expected[index])
    assert_samples_equal(dataset.__getitems__([1, 2])[1], expected[2])


@pytest.mark.usefixtures("all_are_large")
def test_others_find_the_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_agents(path)
    files = kept_files()
    assert len(files) == 3
    monkeypatch.setattr(AgentDataset, "load_agents_mask", None)  # the mask is not computed again
    monkeypatch.setattr(kept_index, "_ends_of_frames", None)
    for other in (open_agents(path), pickle.loads(pickle.dumps(first))):
        assert is_mapped(other.agents_indices)
        assert is_mapped(other.cumulative_sizes_agents)
        assert_same_index(other, first)
    assert len(pickle.dumps(first)) < 20_000
    assert kept_files() == files


@pytest.mark.usefixtures("all_are_large")
def test_another_log_at_the_same_place_gets_other_files(path: Path) -> None:
    before = open_agents(path)
    num_files = len(kept_files())
    log = ChunkedDataset(str(path)).open("r+")
    log.agents["label_probabilities"]  # is read before
    agents = log.agents[:]
    agents["label_probabilities"][:40] = 0.0
    log.agents[:] = agents
    changed = log.agents[:].copy()
    after = open_agents(path)
    assert len(kept_files()) == num_files + 3
    assert len(after) < len(before)
    assert_same_index(
        after,
        AgentDataset(
            make_cfg(),
            ChunkedDataset.in_memory(
                scenes=log.scenes[:], frames=log.frames[:], agents=changed, tl_faces=log.tl_faces[:]
            ),
            None,
        ),
    )


@pytest.mark.usefixtures("all_are_large")
def test_another_stored_mask_is_not_taken_for_the_one_before(path: Path) -> None:
    select_agents(ChunkedDataset(str(path)).open(), 0.5, **THRESHOLDS)
    before = open_agents(path)
    assert is_mapped(before.agents_indices)
    shutil.rmtree(path / "agents_mask")
    strict = THRESHOLDS | {"th_distance_av": 0.001}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        select_agents(ChunkedDataset(str(path)).open(), 0.5, **strict)
    files = kept_files()
    open_agents(path)  # that mask is of other thresholds, so one is computed: the same rows, by other files
    assert len(kept_files()) == len(files) + 2


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("damage", ["mask.npy", "indices.npy", "num_taken", "ends"])
def test_a_file_that_is_cut_short_is_not_used(path: Path, damage: str) -> None:
    expected = open_agents(path)
    folder = user_cache.cache_folder() / "sample_index"
    (file,) = [
        file
        for file in folder.rglob("*")
        if file.name == damage or (damage == "ends" and file.suffix == ".npy" and file.parent == folder)
    ]
    os.truncate(file, file.stat().st_size - 1)
    dataset = open_agents(path)
    assert_array_equal(dataset.agents_indices, np.flatnonzero(dataset.agents_mask))
    assert len(dataset) == 35
    assert len(dataset.cumulative_sizes_agents) == len(expected.dataset.frames)


def overwritten(file: Path, place: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place, os.SEEK_END if place < 0 else os.SEEK_SET)
        opened.write(content)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(
    ("pattern", "place", "content"),
    [
        pytest.param("*/num_taken", 0, b"9" * 30 + b" ", id="more rows than there can be"),
        pytest.param("*/num_taken", -5, b"other", id="those of another log"),
        pytest.param("*/mask.npy", 128, bytes(200), id="a mask of zeros"),
        pytest.param("*/indices.npy", 128, bytes(80), id="numbers that do not ascend"),
        pytest.param("*/indices.npy", -8, b"\xff" * 7 + b"\x7f", id="a row behind the last"),
        pytest.param("*/indices.npy", 128, b"\xff" * 8, id="a row before the first"),
        pytest.param("*.npy", -8, bytes(8), id="ends of another log"),
    ],
)
def test_files_whose_contents_are_wrong_are_made_anew(path: Path, pattern: str, place: int, content: bytes) -> None:
    expected = open_agents(path)
    (file,) = (user_cache.cache_folder() / "sample_index").glob(pattern)
    wanted = file.read_bytes()
    wrong = file.with_name("copy")
    shutil.copy(file, wrong)
    overwritten(wrong, place, content)
    assert wrong.read_bytes() != wanted
    wrong.replace(file)  # what the first dataset has mapped stays
    assert_same_index(open_agents(path), expected)
    assert file.read_bytes() == wanted


@pytest.mark.usefixtures("all_are_large")
def test_a_damaged_log_is_told_of_as_before(path: Path) -> None:
    log = ChunkedDataset(str(path)).open("r+")
    frames = log.frames[:]
    frames["agent_index_interval"][3] = (5, 2)
    log.frames[:] = frames
    with pytest.warns(RuntimeWarning, match="is damaged"):
        dataset = EgoDataset(make_cfg(), ChunkedDataset(str(path)).open(), None)
    assert kept_end_rows(dataset.dataset) is None
    assert kept_files() == []


@pytest.mark.usefixtures("all_are_large")
def test_without_a_place_for_files_all_is_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "occupied").write_text("no folder")
    monkeypatch.setenv(user_cache.CACHE_DIR_ENV_KEY, str(path.parent / "occupied"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        dataset = AgentDataset(make_cfg(), ChunkedDataset(str(path)).open(), None)
    assert not is_mapped(dataset.agents_indices)
    assert len(dataset) == 35


def test_small_logs_make_no_files(path: Path) -> None:
    assert not is_mapped(open_agents(path).agents_indices)
    assert kept_files() == []


@pytest.mark.usefixtures("all_are_large")
def test_a_class_with_a_rule_of_its_own_gets_its_own_rows(path: Path) -> None:
    class OnlyEven(AgentDataset):
        def load_agents_mask(self):
            mask = np.array(super().load_agents_mask())
            mask[1::2] = 0
            return mask

    open_agents(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        dataset = OnlyEven(make_cfg(), ChunkedDataset(str(path)).open(), None)
    assert (dataset.agents_indices % 2 == 0).all()
    assert 0 < len(dataset) < 35
