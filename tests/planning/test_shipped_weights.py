"""Weights that ship with l5kit: they are there, are those of their card, and are found by their names."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.closedloop.planners import open_planner
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.planning import shipped_policies, shipped_weights
from l5kit.planning.weights_file import CARD_FILE, checkpoint_path, is_policy, is_shipped, weights_of


@pytest.mark.parametrize("name", shipped_weights())
def test_the_weights_are_those_of_their_card_and_small(name):
    file = weights_of(name)
    card = json.loads((file.parent / CARD_FILE).read_text("utf-8"))
    assert (card["name"], card["weights"]) == (name, file.name)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == card["sha256"]
    assert file.stat().st_size == card["num_bytes"] <= 3_000_000
    assert card["sha256"] in (file.parent / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", [*shipped_weights(), *shipped_policies()])
def test_what_ships_tells_no_path_of_the_machine_that_made_it(name):
    for path in checkpoint_path(name).iterdir():
        if path.suffix in (".json", ".yaml", ".md"):
            assert not re.search(r"/(tmp|home|root|work|Users)/", path.read_text("utf-8")), path


@pytest.mark.parametrize("name", shipped_policies())
def test_policies_are_those_of_their_card_and_small(name):
    folder = checkpoint_path(name)
    card = json.loads((folder / CARD_FILE).read_text("utf-8"))
    file = folder / card["weights"]
    assert card["name"] == name
    assert hashlib.sha256(file.read_bytes()).hexdigest() == card["sha256"]
    assert file.stat().st_size == card["num_bytes"] <= 2_000_000
    assert card["sha256"] in (folder / "README.md").read_text("utf-8")
    with pytest.raises(
        FileNotFoundError, match=f"is a policy of l5kit train-rl, which l5kit simulate --planner {name} takes"
    ):
        weights_of(name)


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [None, "rules"])
@pytest.mark.parametrize("name", shipped_policies())
def test_policies_drive_by_the_name_alone(name, fallback, city, tmp_path):
    pytest.importorskip("gymnasium")
    options = ClosedLoopOptions(scenes=[0], start_frame=10, num_frames=30)
    driven = simulate(city, tmp_path / "driven", planner=name, fallback=fallback, options=options)
    assert not driven.failed
    (row,) = driven.scenes()
    assert row["frames_off_road"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_weights())
def test_the_av_is_driven_by_the_name_alone(name, city, tmp_path):
    options = ClosedLoopOptions(scenes=[0], start_frame=10, num_frames=30)
    driven = simulate(city, tmp_path / "driven", planner=name, options=options)
    assert not driven.failed
    with np.load(tmp_path / "driven" / "plans.npz") as plans:
        assert np.isfinite(plans["scene_0"][:-1]).all()


def test_a_folder_of_the_same_name_is_taken_by_its_path_only(tmp_path, monkeypatch):
    shutil.copytree(checkpoint_path("route_planner"), tmp_path / "route_planner")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"write './route_planner'"):
        assert weights_of("route_planner").is_absolute()
    assert (
        weights_of("./route_planner")
        == weights_of(Path("route_planner"))
        == Path("route_planner/route_planner.safetensors")
    )
    assert not is_policy("route_planner")
    assert is_shipped(checkpoint_path("route_planner") / "route_planner.safetensors")
    assert not is_shipped(Path("route_planner/route_planner.safetensors"))


def test_weights_of_a_newer_format_say_what_to_do(tmp_path):
    folder = shutil.copytree(checkpoint_path("route_planner"), tmp_path / "newer")
    card = json.loads((folder / CARD_FILE).read_text("utf-8"))
    (folder / CARD_FILE).write_text(json.dumps(card | {"format": 2, "l5kit": "2.9"}), "utf-8")
    for checkpoint in (folder, folder / card["weights"]):
        with pytest.raises(
            UnsupportedValueError, match=r"format 2, written for l5kit 2.9.*pip install --upgrade l5kit2"
        ):
            weights_of(checkpoint)


def test_names_that_are_nearly_shipped_ones_get_a_hint():
    with pytest.raises(FileNotFoundError, match="did you mean 'route_planner'"):
        weights_of("route_planer")
    with pytest.raises(InvalidArgumentError, match="did you mean 'route_planner'"):
        open_planner("route_planer")
