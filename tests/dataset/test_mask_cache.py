"""Sources of the agents mask of AgentDataset: the dataset, the cache folder, or computation."""

import os
import platform
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from l5kit.data import user_cache
from l5kit.data.user_cache import cache_folder
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, mask_cache, select_agents
from l5kit.dataset.mask_cache import load_or_compute_mask
from l5kit.dataset.select_agents import stored_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask, compute_readable_mask
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_log
from support.samples import THRESHOLDS, make_cfg

USUAL = MaskThresholds(0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(save_fixture_s(tmp_path))


@pytest.fixture
def num_computed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Counts how often a mask is computed."""
    calls = []

    def compute(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return compute_readable_mask(*args, **kwargs)

    monkeypatch.setattr(mask_cache, "compute_readable_mask", compute)
    return lambda: len(calls)


def load(path: Path, probability: float = 0.5) -> tuple[Any, list[str]]:
    """Return the mask of a dataset opened anew, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mask = load_or_compute_mask(ChunkedDataset(str(path)).open(), MaskThresholds(probability))
    assert {warning.category for warning in caught} <= {RuntimeWarning}
    return mask, [str(warning.message) for warning in caught]


def store(path: Path, probability: float = 0.5, **thresholds: float) -> None:
    select_agents(ChunkedDataset(str(path)).open(), probability, **(THRESHOLDS | thresholds))


def expected_mask(probability: float = 0.5) -> Any:
    return compute_agents_mask(make_fixture_s(), MaskThresholds(probability))[0]


def cached_files() -> list[Path]:
    return sorted((cache_folder() / "agents_mask").glob("*"))


def only_cached_mask() -> Path:
    (file,) = (file for file in cached_files() if file.suffix == ".npy")
    return file


def test_a_mask_is_computed_once_and_kept(path: Path, num_computed: Callable[[], int]) -> None:
    mask, messages = load(path)
    assert len(messages) == 1
    assert "has to be computed" in messages[0]
    assert str(cache_folder()) in messages[0]
    again, messages = load(path)
    assert (messages, num_computed()) == ([], 1)
    for found in (mask, again):
        np.testing.assert_array_equal(found, expected_mask())
        assert found.dtype == np.uint32
    assert {file.suffix for file in cached_files()} <= {".npy", ".lock"}


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_c1_the_dataset_folder_is_not_written_to(path: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    AgentDataset(make_cfg(), ChunkedDataset(str(path)).open(), None)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


@pytest.mark.filterwarnings("ignore:the agents mask of")
@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="needs permission bits")
def test_c1_a_folder_that_cannot_be_written_to_has_a_mask(path: Path) -> None:
    for folder in (path, *(part for part in path.iterdir() if part.is_dir())):
        folder.chmod(0o555)
    try:
        assert len(AgentDataset(make_cfg(), ChunkedDataset(str(path)).open(), None)) == 35
    finally:
        for folder in (path, *(part for part in path.iterdir() if part.is_dir())):
            folder.chmod(0o755)


def test_a_stored_mask_is_refused_by_a_folder_that_cannot_be_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch, num_computed: Callable[[], int]
) -> None:
    monkeypatch.setattr(stored_mask.os, "access", lambda *args: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        store(path)
    assert num_computed() == 0


def test_a_mask_in_the_dataset_is_read(path: Path, num_computed: Callable[[], int]) -> None:
    store(path)
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert (messages, num_computed(), cached_files()) == ([], 0, [])


def change_stored(path: Path, name: str = "0.5") -> None:
    """Make a stored mask distinguishable from a computed one."""
    array: Any = zarr.open_group(str(path), mode="r+", zarr_format=2)[f"agents_mask/{name}"]
    array[0] = (77, 88)


@pytest.mark.parametrize(("stored", "asked"), [(0, 0.0), (0.0, 0), (0.5, 0.5), (1, 1.0)], ids=str)
def test_c4_all_spellings_of_a_threshold_are_read(path: Path, stored: float, asked: float) -> None:
    store(path, stored)
    change_stored(path, str(stored))
    mask, messages = load(path, asked)
    assert (mask[0].tolist(), messages) == ([77, 88], [])


def test_c4_the_spelling_of_the_configuration_comes_first(path: Path) -> None:
    for probability in (0, 0.0):
        store(path, probability)
    change_stored(path, "0.0")
    assert load(path, 0.0)[0][0].tolist() == [77, 88]
    assert load(path, 0)[0][0].tolist() != [77, 88]


def test_a_mask_of_1_5_tells_no_thresholds_and_is_read(path: Path) -> None:
    store(path)
    (path / "agents_mask" / "0.5" / ".zattrs").unlink()
    change_stored(path)
    mask, messages = load(path)
    assert (mask[0].tolist(), messages) == ([77, 88], [])


def shorten(path: Path) -> None:
    array: Any = zarr.open_group(str(path), mode="r+", zarr_format=2)["agents_mask/0.5"]
    array.resize((97, 2))


def use_other_thresholds(path: Path) -> None:
    shutil.rmtree(path / "agents_mask")
    store(path, th_distance_av=20)


def lose_a_chunk(path: Path) -> None:
    (path / "agents_mask" / "0.5" / "0.0").unlink()


def cut_a_chunk(path: Path) -> None:
    chunk = path / "agents_mask" / "0.5" / "0.0"
    chunk.write_bytes(chunk.read_bytes()[:20])


def damage_metadata(path: Path) -> None:
    (path / "agents_mask" / "0.5" / ".zarray").write_text("{")


def turn_bytes_round(path: Path) -> None:
    metadata = path / "agents_mask" / "0.5" / ".zarray"
    metadata.write_text(metadata.read_text().replace("<u4", ">u4"))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (turn_bytes_round, "is big-endian"),
        (shorten, "does not fit the 98 agents"),
        (use_other_thresholds, "was computed with other thresholds"),
        (lose_a_chunk, "is incomplete: its computation was interrupted or is still running"),
        (cut_a_chunk, "cannot be read (ValueError: it has 20 bytes"),
        (damage_metadata, "cannot be read"),
    ],
)
def test_c2_c3_c4_a_stored_mask_that_does_not_fit_is_computed_anew_with_a_warning(
    path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    store(path)
    damage(path)
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert len(messages) == 2
    assert "the stored agents mask '0.5'" in messages[0]
    assert problem in messages[0]
    assert load(path)[1] == messages[:1]


@pytest.mark.parametrize("content", [None, "{"], ids=["no group", "no json"])
def test_a_mask_is_found_by_its_folder_as_in_1_5(path: Path, content: str | None) -> None:
    store(path)
    change_stored(path)
    group = path / "agents_mask" / ".zgroup"
    group.unlink()
    if content is not None:
        group.write_text(content)
    mask, messages = load(path)
    assert (mask[0].tolist(), messages) == ([77, 88], [])


def test_a_mask_inside_a_zip_file_is_read(path: Path, tmp_path: Path) -> None:
    store(path)
    change_stored(path)
    archive = shutil.make_archive(str(tmp_path / "log.zarr"), "zip", path)
    mask, messages = load(Path(archive))
    assert (mask[0].tolist(), messages) == ([77, 88], [])


def test_other_files_beside_the_masks_do_no_harm(path: Path) -> None:
    store(path)
    (path / "agents_mask" / "notes").mkdir()
    (path / "agents_mask" / "README").touch()
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert messages == []


@pytest.mark.parametrize("keep", [0, 5, 60, 128, 500], ids=lambda keep: f"{keep} bytes")
def test_c2_a_cache_file_cut_short_is_computed_anew(path: Path, keep: int, num_computed: Callable[[], int]) -> None:
    load(path)
    file = only_cached_mask()
    file.write_bytes(file.read_bytes()[:keep])
    np.testing.assert_array_equal(load(path)[0], expected_mask())
    assert num_computed() == 2
    load(path)
    assert num_computed() == 2


@pytest.mark.parametrize("content", [b"garbage", b"PK\x03\x04garbage", b"\x93NUMPY\x01\x00\x02\x00{\n"], ids=repr)
def test_a_damaged_cache_file_is_computed_anew(path: Path, content: bytes) -> None:
    load(path)
    only_cached_mask().write_bytes(content)
    np.testing.assert_array_equal(load(path)[0], expected_mask())


def test_a_cache_file_with_more_behind_its_rows_is_computed_anew(path: Path, num_computed: Callable[[], int]) -> None:
    load(path)
    file = only_cached_mask()
    file.write_bytes(file.read_bytes() + bytes(8))
    np.testing.assert_array_equal(load(path)[0], expected_mask())
    assert num_computed() == 2


def test_a_cache_file_of_another_shape_or_type_is_computed_anew(path: Path) -> None:
    for wrong in (np.zeros((97, 2), np.uint32), np.zeros((98, 2), np.int64), np.zeros((98, 2), np.float32)):
        load(path)
        np.save(only_cached_mask(), wrong)
        np.testing.assert_array_equal(load(path)[0], expected_mask())


def test_what_a_killed_process_left_is_removed(path: Path) -> None:
    load(path)
    file = only_cached_mask()
    file.unlink()
    left = file.with_name(f".{file.name}.abc12345.part")
    left.mkdir()
    for name, content in ((file.name, "half"), ("owner.lock", ""), ("owner.txt", platform.node())):
        (left / name).write_text(content)
    load(path)
    assert not left.exists()


def test_a_log_that_changes_has_another_mask(path: Path) -> None:
    load(path)
    log = ChunkedDataset(str(path)).open("r+")
    agents = log.agents[:]
    agents["label_probabilities"][agents["track_id"] == 1] = 0
    log.agents[:] = agents
    os.utime(path / "agents" / "0", ns=(1, 1))
    mask, messages = load(path)
    assert len(messages) == 1
    assert not mask[agents["track_id"] == 1].any()
    assert len([file for file in cached_files() if file.suffix == ".npy"]) == 2


def test_the_fast_store_shares_the_mask_of_the_chunks(path: Path, num_computed: Callable[[], int]) -> None:
    load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask = load_or_compute_mask(ChunkedDataset(str(path)).open(cached="mmap"), USUAL)
    np.testing.assert_array_equal(mask, expected_mask())
    assert num_computed() == 1


def test_thresholds_have_masks_of_their_own_whatever_their_spelling(
    path: Path, num_computed: Callable[[], int]
) -> None:
    for probability in (0, 0.0, 1, 1.0, 0.5):
        np.testing.assert_array_equal(load(path, probability)[0], expected_mask(probability))
    assert num_computed() == 3


def test_the_cache_folder_is_named_by_the_environment(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "deep" / "down"))
    load(path)
    assert list((tmp_path / "deep" / "down" / "agents_mask").glob("*.npy"))
    monkeypatch.delenv("L5KIT_CACHE_DIR")
    assert cache_folder().name == "l5kit"


def test_a_cache_that_cannot_be_written_costs_one_warning_and_one_computation(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_computed: Callable[[], int]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "file"))
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert num_computed() == len(messages) == 1
    assert "it cannot be kept in" in messages[0]
    assert "set L5KIT_CACHE_DIR" in messages[0]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError("denied")], ids=repr)
def test_a_full_disk_costs_no_second_computation(
    path: Path, monkeypatch: pytest.MonkeyPatch, num_computed: Callable[[], int], error: OSError
) -> None:
    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert num_computed() == 1
    assert [str(error) in message for message in messages] == [False, True]
    assert not list((cache_folder() / "agents_mask").glob(".*.npy"))


@pytest.mark.parametrize("error", [OSError("no locks"), NotImplementedError("no flock")], ids=repr)
def test_a_file_system_without_locks_has_masks(path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(user_cache.FileLock, "acquire", fail)
    mask, messages = load(path)
    np.testing.assert_array_equal(mask, expected_mask())
    assert len(messages) == 1
    assert str(error) in messages[0]


def test_a_log_without_agents_has_a_kept_mask(tmp_path: Path, num_computed: Callable[[], int]) -> None:
    make_log([[[], []]]).save(tmp_path / "empty.zarr")
    for _ in range(2):
        assert load(tmp_path / "empty.zarr")[0].shape == (0, 2)
    assert num_computed() == 1


def test_a_kept_mask_is_a_file_that_numpy_loads_and_cannot_be_changed(path: Path) -> None:
    load(path)
    np.testing.assert_array_equal(np.load(only_cached_mask()), expected_mask())
    with pytest.raises(ValueError, match="read-only"):
        load(path)[0][0] = 1


def test_an_interrupted_computation_leaves_no_lock(path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning), pytest.raises(KeyboardInterrupt):
        load_or_compute_mask(ChunkedDataset(str(path)).open(), USUAL, progress=interrupt)
    np.testing.assert_array_equal(load(path)[0], expected_mask())


def test_a_log_in_memory_keeps_nothing_on_disk(num_computed: Callable[[], int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask = load_or_compute_mask(make_fixture_s(), USUAL)
    np.testing.assert_array_equal(mask, expected_mask())
    assert (num_computed(), cached_files()) == (1, [])


def test_progress_is_told_scene_by_scene(path: Path) -> None:
    log = ChunkedDataset(str(path)).open()
    told: list[tuple[int, int]] = []
    with pytest.warns(RuntimeWarning):
        load_or_compute_mask(ChunkedDataset.concatenate([log] * 3), USUAL, progress=lambda *counts: told.append(counts))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_warning_points_to_where_the_dataset_is_made(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="has to be computed") as caught:
        AgentDataset(make_cfg(), ChunkedDataset(str(path)).open(), None)
    assert caught[0].filename == __file__


def test_c4_a_dataset_finds_the_mask_of_another_spelling(path: Path) -> None:
    store(path, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = AgentDataset(make_cfg(filter_agents_threshold=0.0), ChunkedDataset(str(path)).open(), None)
    assert len(dataset) > 35


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has these permissions")
def test_a_kept_mask_can_be_read_by_other_users(tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    with pytest.warns(RuntimeWarning, match="has to be computed"):
        load_or_compute_mask(log, MaskThresholds(0.5))
    (file,) = (cache_folder() / "agents_mask").glob("*.npy")
    plain = tmp_path / "plain"
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode
