"""Consolidated metadata says what the arrays say, or is not there, whoever has written to them."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore

from l5kit.data import ChunkedDataset, validate_path
from l5kit.data.interop import export_columns
from l5kit.data.log_facts import LogFacts
from l5kit.dataset.select_agents.stored_mask import write_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from support.logs import write_with_chunks
from support.random_logs import random_dataset

ARRAYS = ("scenes", "frames", "agents", "tl_faces")
STALE = "consolidated metadata"


def consolidate(store, _):
    zarr.consolidate_metadata(store, zarr_format=2)


def append(store, _):
    rows = random_dataset(np.random.default_rng(5), 1)
    with ChunkedDataset(store).open("r+") as log:
        for name in ARRAYS:
            getattr(log, name).append(getattr(rows, name))


def shorten(store, _):
    with ChunkedDataset(store).open("a") as log:
        log.agents.resize(max(len(log.agents) - 3, 0))


def overwrite_rows(store, _):
    with ChunkedDataset(store).open("r+") as log:
        log.agents["yaw"] = 0.5


def store_mask(store, number):
    log = ChunkedDataset(str(store.root)).open()
    write_mask(log, MaskThresholds(1 / (2 + number)), np.ones((len(log.agents), 2), np.uint32))


WRITERS = (append, shorten, overwrite_rows)


def shapes(store, *, consolidated):
    """Shape of every array, masks among them, as plain zarr finds them."""
    root = zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=consolidated)
    return {name: getattr(member, "shape", None) for name, member in root.members(max_depth=None)}


def stale_findings(location):
    return [finding for finding in validate_path(location) if finding.check == STALE]


def check_after_each(store, steps):
    for number, step in enumerate(steps):
        step(store, number)
        found = shapes(store, consolidated=None)  # as zarr opens by default: by the consolidated metadata, if any
        assert found == shapes(store, consolidated=False), step
        opened = ChunkedDataset(store).open()
        assert {len(opened.scenes), len(opened.agents)} == {found["scenes"][0], found["agents"][0]}
        assert not stale_findings(store), step


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.sampled_from([consolidate, store_mask, *WRITERS]), max_size=5))
def test_writers_in_folders_leave_no_metadata_behind_that_differs(steps):
    with tempfile.TemporaryDirectory() as folder:
        path = write_with_chunks(random_dataset(np.random.default_rng(3), 2), Path(folder) / "a.zarr")
        check_after_each(LocalStore(path), [consolidate, *steps])


@settings(max_examples=10, deadline=None)
@given(steps=st.lists(st.sampled_from([consolidate, *WRITERS]), max_size=5))
def test_writers_in_stores_leave_no_metadata_behind_that_differs(steps):
    store = MemoryStore()
    ChunkedDataset(store).initialize("w", 1, 2, 30, 4)
    check_after_each(store, [consolidate, *steps])


def test_arrays_added_to_a_consolidated_group_are_found():
    store = MemoryStore()
    zarr.open_group(store, mode="w", zarr_format=2)
    consolidate(store, 0)
    ChunkedDataset(store).initialize("a", 1, 2, 30, 4)
    assert shapes(store, consolidated=None)["agents"] == (30,)


@pytest.fixture
def stale(tmp_path):
    """A log to which another program has appended without updating the consolidated metadata."""
    path = write_with_chunks(random_dataset(np.random.default_rng(3), 2), tmp_path / "a.zarr")
    zarr.consolidate_metadata(path, zarr_format=2)
    agents = zarr.open_group(path, mode="r+", zarr_format=2, use_consolidated=False)["agents"]
    agents.append(agents[:4])
    return Path(path)


def test_a_folder_is_read_by_its_own_files(stale):
    on_disk = zarr.open_group(stale, mode="r", zarr_format=2, use_consolidated=False)["agents"].shape
    assert ChunkedDataset(stale).open().agents.shape == on_disk
    assert shapes(str(stale), consolidated=True)["agents"] != on_disk


def test_stale_copies_are_findings(stale):
    (finding,) = stale_findings(stale)
    assert finding.severity == "error"
    assert finding.file == str(stale / "agents/.zarray")


@pytest.mark.parametrize("name", [".zattrs", "agents/.zattrs"])
def test_attributes_that_differ_are_findings(tmp_path, name):
    path = write_with_chunks(random_dataset(np.random.default_rng(3), 2), tmp_path / "a.zarr")
    zarr.consolidate_metadata(path, zarr_format=2)
    assert not stale_findings(path)
    (Path(path) / name).write_text('{"step_time_s": 0.5}')
    assert [finding.file for finding in stale_findings(path)] == [str(Path(path) / name)]


def test_arrays_that_are_in_no_copy_are_findings(tmp_path):
    path = Path(write_with_chunks(random_dataset(np.random.default_rng(3), 2), tmp_path / "a.zarr"))
    zarr.consolidate_metadata(path, zarr_format=2)
    zarr.open_group(path / "agents_mask", mode="w", zarr_format=2).create_array("0.5", data=np.arange(6))
    assert [finding.file for finding in stale_findings(path)] == [str(path / "agents_mask/0.5/.zarray")]


@pytest.mark.parametrize("content", [b"{}", b"[", b"[]", b'{"metadata": 3}', b"\xff"])
def test_damaged_copies_are_findings(stale, content):
    (stale / ".zmetadata").write_bytes(content)
    assert [finding.file for finding in stale_findings(stale)] == [str(stale / ".zmetadata")]


def test_exports_in_columns_are_compared_too(tmp_path):
    log = random_dataset(np.random.default_rng(3), 2)
    export_columns(
        ChunkedDataset.in_memory(**{name: getattr(log, name) for name in ARRAYS}, facts=LogFacts()), tmp_path / "c.zarr"
    )
    zarr.consolidate_metadata(tmp_path / "c.zarr", zarr_format=3)
    num_agents = len(log.agents)
    assert not stale_findings(tmp_path / "c.zarr")
    zarr.open_array(tmp_path / "c.zarr/agents/yaw", mode="r+").resize((num_agents + 2,))
    assert [finding.file for finding in stale_findings(tmp_path / "c.zarr")] == [
        str(tmp_path / "c.zarr/agents/yaw/zarr.json")
    ]
