"""``l5kit mask``."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask


def zarr_of(city):
    return city / "scenes" / "sample.zarr"


@pytest.fixture
def expected(city):
    return compute_agents_mask(ChunkedDataset(str(zarr_of(city))).open(), MaskThresholds(0.5))[0]


def test_the_table_counts_the_rows_of_the_mask(l5kit, city, expected):
    done = l5kit("mask", city, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    past, future = expected[:, 0], expected[:, 1]
    assert content["agent_rows"] == len(expected)
    assert content["agent_rows_taken_by_default"] == np.count_nonzero((past >= 10) & (future >= 1)) > 0
    assert content["table"][1][2] == np.count_nonzero((past >= 10) & (future >= 30))


def test_people_get_the_same_table(l5kit, city, expected):
    done = l5kit("mask", city)
    assert done.exit_code == 0
    (line,) = [line for line in done.stdout.splitlines() if "at least 10" in line]
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    counts = [np.count_nonzero((expected[:, 0] >= 10) & (expected[:, 1] >= step)) for step in (0, 10, 30, 50)]
    assert cells == ["at least 10", *(f"{count:,}" for count in counts)]


def test_the_mask_is_kept_in_the_cache_and_not_in_the_dataset(l5kit, city_copy):
    before = sorted(zarr_of(city_copy).iterdir())
    assert l5kit("mask", city_copy).exit_code == 0
    assert sorted(zarr_of(city_copy).iterdir()) == before
    assert len(list(Path(os.environ["L5KIT_CACHE_DIR"]).rglob("*.npy"))) == 1


def test_thresholds_reach_the_mask(l5kit, city):
    near = json.loads(l5kit("mask", city, "--distance", 20, "--json").stdout)
    far = json.loads(l5kit("mask", city, "--json").stdout)
    assert near["th_distance_av"] == 20
    assert 0 < near["agent_rows_taken_by_default"] < far["agent_rows_taken_by_default"]


def test_store_writes_into_the_dataset_and_tells_what_was_rejected(l5kit, city_copy, expected):
    done = l5kit("mask", city_copy, "--store", "--json")
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    assert content["reject_th_AV_distance"] > 0
    stored = ChunkedDataset(str(zarr_of(city_copy))).open().root["agents_mask"]["0.5"][:]
    np.testing.assert_array_equal(stored, expected)


def test_a_stored_mask_is_not_written_again(l5kit, city_copy):
    assert l5kit("mask", city_copy, "--store").exit_code == 0
    done = l5kit("mask", city_copy, "--store")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "exists; remove it" in done.stderr


def test_a_damaged_chunk_is_an_error_in_one_line(l5kit, city_copy):
    (zarr_of(city_copy) / "agents" / "0").write_bytes(b"damaged")
    done = l5kit("mask", city_copy)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "agents/0" in done.stderr
    assert done.stderr.count("error: ") == done.stderr.count("\n") == 1
