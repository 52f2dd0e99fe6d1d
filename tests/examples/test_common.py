"""Helpers that the training examples share."""

import runpy
from pathlib import Path

import numpy as np
import pytest

COMMON = Path(__file__).resolve().parents[2] / "examples" / "common.py"


@pytest.fixture(scope="module")
def common():
    return runpy.run_path(str(COMMON))


def test_without_data_a_city_is_made_or_taken_as_it_is(common, monkeypatch, tmp_path):
    made = []
    monkeypatch.setitem(common["set_up"].__globals__, "make_city", lambda path, **options: made.append((path, options)))
    options = common["make_parser"]("what it does", out=str(tmp_path)).parse_args([])
    for _ in range(2):
        cfg, folder = common["set_up"]("safepathnet", options, num_steps=7)
        assert folder == tmp_path / "city"
        assert cfg["train_params"]["max_num_steps"] == 7
    assert made == [(tmp_path / "city", {"num_train_scenes": 40, "num_scenes": 8, "reuse": True})] * 2


def test_steps_stand_in_place_of_the_epochs_of_a_configuration(common, tmp_path):
    parse = common["make_parser"]("what it does", out=str(tmp_path / "out")).parse_args
    whole = common["set_up"]("safepathnet", parse(["--data", str(tmp_path)]), num_steps=7)[0]
    short = common["set_up"]("safepathnet", parse(["--data", str(tmp_path), "--steps", "3"]), num_steps=7)[0]
    assert whole["train_params"]["num_epochs"] == 6
    assert "num_epochs" not in short["train_params"]
    assert short["train_params"]["max_num_steps"] == 3


@pytest.mark.parametrize(
    ("num_samples", "val", "expected"),
    [
        (6, {"batch_size": 2, "max_num_batches": 1}, [1, 4]),
        (3, {"batch_size": 2, "max_num_batches": 9}, [0, 1, 2]),
        (3, {"batch_size": 2}, [0, 1, 2]),
    ],
)
def test_samples_are_spread_over_all_scenes(common, num_samples, val, expected):
    assert common["evenly_spread"](num_samples, {"val_data_loader": val}) == expected


def test_the_largest_value_of_each_of_the_first_scenes_is_found(common):
    largest = common["largest_of_each_scene"](np.array([4, 4, 7, 7, 9]), np.array([1.0, 5.0, 3.0, 2.0, 8.0]), most=2)
    assert largest == [1, 2]
