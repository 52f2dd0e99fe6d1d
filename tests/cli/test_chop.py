"""``l5kit chop``."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

SIZES = ("--frames", 60, "--future", 30)


@pytest.fixture
def datasets(city, tmp_path):
    """Two copies of a synthetic dataset, in a temporary folder."""
    return [shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / f"{name}.zarr") for name in ("one", "two")]


def test_a_test_set_is_made_and_described(l5kit, datasets, tmp_path):
    done = l5kit("chop", *datasets, *SIZES, "--json")
    assert done.exit_code == 0
    made = json.loads(done.stdout)
    assert [entry["folder"] for entry in made] == [str(tmp_path / f"{name}_chopped_60") for name in ("one", "two")]
    for entry in made:
        mask = np.load(f"{entry['folder']}/mask.npz")["arr_0"]
        assert (entry["agent_rows"], entry["test_agents"]) == (len(mask), mask.sum())
        assert mask.any()
        assert len(Path(entry["folder"], "gt.csv").read_text().splitlines()) == 1 + mask.sum()


def test_people_get_a_table_and_a_warning_about_training(l5kit, datasets, tmp_path):
    done = l5kit("chop", datasets[0], *SIZES)
    assert done.exit_code == 0
    assert str(tmp_path / "one_chopped_60") in done.stdout
    assert done.stderr.count("\n") == done.stderr.count("warning: ") == 1
    assert "min_frame_history=0" in done.stderr
    assert "min_frame_future=10" in done.stderr


def test_a_dataset_folder_will_do_and_the_test_set_goes_where_it_is_told(l5kit, city_copy, tmp_path):
    done = l5kit("chop", city_copy, *SIZES, "--min-future", 30, "--out", tmp_path / "new" / "set")
    assert done.exit_code == 0
    assert sorted(os.listdir(tmp_path / "new" / "set")) == ["gt.csv", "mask.npz", "sample.zarr"]


def test_options_reach_the_selection(l5kit, datasets):
    few = json.loads(l5kit("chop", datasets[0], *SIZES, "--min-future", 39, "--json").stdout)
    many = json.loads(l5kit("chop", datasets[1], *SIZES, "--min-future", 1, "--json").stdout)
    assert 0 < few[0]["test_agents"] < many[0]["test_agents"]


def test_data_that_is_there_is_not_written_over(l5kit, datasets, tmp_path):
    assert l5kit("chop", datasets[0], *SIZES).exit_code == 0
    (tmp_path / "one_chopped_60" / "mask.npz").write_bytes(b"mine")
    done = l5kit("chop", datasets[0], *SIZES)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--overwrite" in done.stderr
    assert (tmp_path / "one_chopped_60" / "mask.npz").read_bytes() == b"mine"
    assert l5kit("chop", datasets[0], *SIZES, "--overwrite").exit_code == 0
    assert (tmp_path / "one_chopped_60" / "mask.npz").read_bytes() != b"mine"


def test_scenes_that_are_too_short_are_an_error_in_one_line(l5kit, datasets, tmp_path):
    done = l5kit("chop", datasets[0])  # 100 frames to keep, of 100
    assert (done.exit_code, done.stdout) == (1, "")
    assert "scene 0 has 100" in done.stderr
    assert done.stderr.count("error: ") == done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["one.zarr", "two.zarr"]


def test_one_folder_for_two_datasets_is_a_wrong_call(l5kit, datasets, tmp_path):
    done = l5kit("chop", *datasets, *SIZES, "--out", tmp_path / "set")
    assert done.exit_code == 2
    assert not (tmp_path / "set").exists()
