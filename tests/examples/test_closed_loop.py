"""The examples in which planners and agents are driven in closed loop."""

import importlib
import json
import re

import pytest

from l5kit.data import ChunkedDataset

FEW = ("--scenes", 2, "--frames", 12)
SMALL_RASTERS = ("model_params.model_architecture=simple_cnn", "raster_params.raster_size=[112, 112]")
SMALL_WORLD = ("data_generation_params.other_agents_num=3", "data_generation_params.lane_params.max_num_lanes=3")
VALIDATORS = (
    "displacement_error_l2",
    "distance_to_reference_trajectory",
    "collision_front",
    "collision_rear",
    "collision_side",
)


def rows_of(printed, title):
    """The cells of a table that the scripts print, by row."""
    lines = printed.split(f"\n{title} ")[1].splitlines()[1:]
    rows = {}
    for line in lines:
        name, *cells = re.split(r"\s{2,}", line.strip())
        if not cells:
            break
        rows[name] = cells
    return rows


def test_columns_are_as_wide_as_their_names_and_texts(capsys, examples_on_path):
    closed_loop = importlib.import_module("closed_loop")
    long = "a planner with a very long name"
    cells = {"idm": {"score": "0.50", "no collision at fault with others": "1.00"}}
    closed_loop.print_columns("mean", cells | {long: cells["idm"] | {"score": "0.25 [0.125,0.375]"}})
    _, *lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [re.split(r"\s{2,}", line) for line in lines] == [
        ["mean", "idm", long],
        ["score", "0.50", "0.25 [0.125,0.375]"],
        ["no collision at fault with others", "1.00", "1.00"],
    ]


def test_a_planner_drives_as_in_1_5_and_is_scored(train_little, split_city, tmp_path):
    printed = train_little("closed_loop_planning.py", "--data", split_city, *FEW, changes=SMALL_RASTERS)
    failures = rows_of(printed, "scenes that fail")
    assert list(failures) == list(VALIDATORS)
    assert all(re.fullmatch(r"[01] of 1", cell) for (cell,) in failures.values())
    scores = rows_of(printed, "mean over scenes")
    _, replay, _, _ = scores["no_at_fault_collisions"]
    assert replay == "1.00"  # the log of a synthetic city has none
    folders = sorted(path.name for path in (tmp_path / "out" / "planning").iterdir())
    assert folders == ["constant-velocity", "idm", "planner", "replay"]
    driven = ChunkedDataset(tmp_path / "out" / "planning" / "planner" / "simulated.zarr").open()
    assert len(driven.frames) == 12


def test_a_network_that_was_trained_before_is_not_trained_again(train_little, split_city, tmp_path):
    train_little("closed_loop_planning.py", "--data", split_city, *FEW, changes=SMALL_RASTERS)
    network = ("--network", tmp_path / "out" / "training-1")
    elsewhere = tmp_path / "not" / "there" / "yet"
    printed = train_little("closed_loop_planning.py", "--data", split_city, *FEW, *network, "--out", elsewhere)
    assert "planner" in printed
    assert {path.name for path in elsewhere.iterdir()} <= {"closed-loop-planning.html", "planning"}
    assert not (tmp_path / "out" / "training-2").exists()


@pytest.mark.parametrize("strides", [1, 2])
def test_urban_driver_drives_among_agents_of_the_log_and_of_rules(train_little, split_city, tmp_path, strides):
    steps = (f"model_params.future_step_size={strides}", "model_params.future_num_frames=6")
    changes = (*SMALL_WORLD, *steps, "model_params.warmup_num_frames=0")
    printed = train_little("closed_loop_urban_driver.py", "--data", split_city, *FEW, changes=changes)
    assert ("scenes that fail" in printed) == (strides == 1)
    driven = {}
    for traffic in ("replayed", "that-react"):
        folder = tmp_path / "out" / "urban-driver" / traffic
        assert json.loads((folder / "Urban Driver" / "scores.json").read_text())["scenes"] == 1
        log = ChunkedDataset(folder / "constant-velocity" / "simulated.zarr").open()
        driven[traffic] = log.agents["centroid"]
    assert driven["replayed"].tobytes() != driven["that-react"].tobytes()


def test_simnet_drives_agents_and_is_compared_with_the_log(train_little, split_city):
    printed = train_little("closed_loop_simnet.py", "--data", split_city, *FEW, changes=SMALL_RASTERS)
    assert re.search(r"^ +0 +\d+ +\d+\.\d\d m$", printed, flags=re.MULTILINE)
    distances = rows_of(printed, "distance from the log")
    assert next(iter(distances)) == "speeds_mps (m/s)"
    assert len(distances) == 6
    assert all(len(cells) == 3 for cells in distances.values())
    rates = rows_of(printed, "how often")
    assert next(iter(rates)) == "collisions_by_track"
    assert len(rows_of(printed, "mean over scenes")["score"]) == 2


@pytest.mark.parametrize(
    ("rate", "allowed", "verdict"),
    [
        pytest.param(1e4, 0, "not valid", id="plans that are not finite"),
        pytest.param(1e-9, 1, "valid", id="one may fail"),
    ],
)
def test_a_planner_that_fails_too_many_scenes_is_not_valid(
    train_little, split_city, capsys, tmp_path, rate, allowed, verdict
):
    changes = (*SMALL_WORLD, f"train_params.learning_rate={rate}")
    options = ("--allowed", allowed, "--scenes", 1, "--frames", 40)
    with pytest.raises(SystemExit) as ended:
        train_little("closed_loop_validation.py", "--data", split_city, *options, changes=changes)
    printed = capsys.readouterr().out
    assert f"the planner is {verdict}: " in printed
    assert ended.value.code == (verdict == "not valid")
    assert ("planner: not driven to its end" in printed) == (verdict == "not valid")
    assert re.findall(r"^[01] of (\d) scenes fail; ", printed, flags=re.MULTILINE) == ["01"[verdict == "valid"], "1"]


def test_braking_is_measured_over_half_a_second(monkeypatch, examples_on_path):
    torch = importlib.import_module("torch")
    validation = importlib.import_module("closed_loop_validation")
    times_s = 0.1 * torch.arange(12)
    states = torch.zeros(12, 7)
    states[:, 0] = 20 * times_s - 2 * times_s**2  # brakes at 4 m/s2 all the time
    states[:, 6] = times_s
    scene = type("Scene", (), {"simulated_ego_states": states})()
    values = validation.DecelerationMetric().compute(scene)
    assert values[:6].tolist() == [0] * 6
    assert values[6:].tolist() == pytest.approx([4.0] * 6, abs=1e-3)
