"""``benchmarks/learned_drivers.py``: its statistics, its table, what is kept and what is stale, and rows anew."""

import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import l5kit
from l5kit.errors import InvalidArgumentError
from l5kit.workflows import TrainingConfig

pytest.importorskip("lightning")

NAN = np.nan


@pytest.fixture
def script(import_script, monkeypatch):
    module = import_script("learned_drivers")
    monkeypatch.setattr(module, "code_version", lambda: "2.0.0 abc")  # it starts git
    return module


@pytest.fixture
def scores(import_script):
    return import_script("driver_scores")


@pytest.fixture
def place(script, tmp_path):
    return script.Place(tmp_path / "work", tmp_path / "towns", tmp_path / "results", script.FULL)


def made_run(row="rules", seed=0, replay=(1.0, 0.5), idm=(0.5, 0.5), *, minutes=None, share=None, facts=None):
    """Results of a run over two scenes of one town."""
    training = minutes and {
        "weights_sha256": f"{row}-{seed}",
        "minutes": minutes,
        "max_minutes": 4.0,
        "steps": 1000,
        "best_step": 500,
        "best_score": 0.5,
    }
    return {
        "row": row,
        "seed": seed,
        "facts": facts or {},
        "code": "2.0.0 abc",
        "machine": "a processor",
        "training": training,
        "scores": {"replay": {"test/town_00": list(replay)}, "idm": {"test/town_00": list(idm)}},
        "network_share": share,
    }


def keep(script, place, run, **facts):
    """Write a run as today's, except for some facts."""
    row = script.row_of(run["row"])
    today = script.facts_of(row, run["seed"], script.FULL, script.pinned(place.results))
    script.write_row(place.file_of(row, run["seed"]), run | {"facts": today | facts})


def test_the_interval_of_two_scenes_is_that_of_the_four_ways_to_draw_them(scores):
    # means of (a, a), (a, b), (b, a), (b, b): a quarter of the draws is at either end
    found = scores.mean_of(np.array([[0.25, 0.75]]))
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((0.25, 0.75), abs=0.02)


def test_an_interval_of_many_scenes_is_about_two_standard_errors_wide(scores):
    values = np.random.default_rng(0).uniform(0.2, 0.8, (1, 400))
    found = scores.mean_of(values)
    error = values.std() / 20
    assert found.value - found.low == pytest.approx(1.96 * error, rel=0.1)
    assert found.high - found.value == pytest.approx(1.96 * error, rel=0.1)


def test_seeds_are_averaged_by_scene_and_scenes_without_a_score_are_left_out(scores):
    values = np.array([[1.0, 0.0, NAN, 0.5], [0.0, 0.0, NAN, NAN]])
    assert scores.of_scenes(values) == pytest.approx([0.5, 0.0, NAN, 0.5], nan_ok=True)
    assert scores.mean_of(values).value == pytest.approx(1.0 / 3.0)


def test_differences_are_paired_by_scene(scores):
    hard = np.linspace(0.0, 0.9, 10)[None]
    found = scores.difference_of(hard + 0.1, hard)
    assert (found.low, found.value, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert scores.leaves_out_zero(found)
    same = scores.difference_of(hard, hard)
    assert (same.low, same.value, same.high) == (0.0, 0.0, 0.0)
    assert not scores.leaves_out_zero(same)
    one_of_ten = hard.copy()
    one_of_ten[0, 3] = 1.0
    assert not scores.leaves_out_zero(scores.difference_of(one_of_ten, hard))
    assert scores.difference_of(np.array([[1.0, NAN]]), np.array([[0.0, 1.0]])).value == 1.0


def test_the_table_has_means_worst_seeds_differences_and_stale_rows(scores):
    rows = [
        scores.RowRuns("rules", [made_run()]),
        scores.RowRuns(
            "short",
            [
                made_run("short", 0, (1.0, 1.0), minutes=3.0, share={"replay": 0.8, "idm": 0.6}),
                made_run("short", 1, (0.5, None), minutes=5.0, share={"replay": 0.6, "idm": 0.6}),
            ],
            stale=("configuration",),
        ),
        scores.RowRuns("short-poses", []),
    ]
    lines = list(scores.make_tables(rows))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "`short`" in line]
    assert [cell[0] for cell in cells] == ["`short` (stale: configuration)"] * 2 + ["`short`"]
    replayed, reactive, training = (cell[1:] for cell in cells)
    assert replayed[0] == "2"
    assert replayed[1].startswith("0.88 (")  # scenes 0.75 and 1
    assert replayed[2] == "0.50"
    assert replayed[3].startswith("+0.125 (")
    assert replayed[4] == "70%"
    assert reactive[1:4] == ["0.50 (0.50 to 0.50)", "0.50", "+0.000 (+0.000 to +0.000)"]
    assert training == ["3.0, 5.0 (over)", "4", "1,000", "500, 500", "a processor"]
    assert not any("short-poses" in line for line in lines)
    beside = next(line for line in lines if line.startswith("| `rules`"))
    assert [cell.strip() for cell in beside.strip("|").split("|")][3:] == ["", "", ""]


def test_every_row_can_be_trained_and_changes_what_its_name_says(script):
    assert len(set(script.NAMES)) == len(script.ROWS)
    digests = {}
    for row in script.ROWS:
        if row.training is None:
            assert row.name in script.DRIVERS or row.name in script.POLICIES
            continue
        cfg = script.configuration_of(row, 1, script.FULL)
        params = TrainingConfig.from_cfg(cfg).params
        assert (params.run.seed, params.run.max_num_steps) == (1, row.training.steps)
        towns = [folder for loader in ("train_data_loader", "val_data_loader") for folder in cfg[loader]["folders"]]
        assert not any(town.startswith("test/") for town in [*towns, cfg["val_driving"]["folder"]])
        assert script.configuration_of(row, 0, script.QUICK)["train_params"]["max_num_steps"] == 20
        digests.setdefault(json.dumps(cfg), []).append(row.name)
    shared = [names for names in digests.values() if len(names) > 1]
    assert shared == [["route_planner", "route_planner-fallback-rules", "route_planner-route-of-map"]]


def test_what_is_there_is_not_measured_again_and_stale_runs_only_on_request(script, place, monkeypatch, capsys):
    measured = []

    def measure(row, seed, place, *, name):
        measured.append(name)
        facts = script.facts_of(row, seed, script.FULL, script.pinned(place.results))
        return made_run(row.name, seed, minutes=5.0, facts=facts)

    monkeypatch.setattr(script, "measure", measure)
    row = script.row_of("short")
    given = ["--results", str(place.results), "--only", "short", "--seeds", "2"]
    assert script.main(given) == 0
    assert measured == ["short-0", "short-1"]
    assert "800 steps fit" in capsys.readouterr().out
    assert script.main([*given[:-1], "3"]) == 0
    assert measured == ["short-0", "short-1", "short-2"]

    # another configuration than that of the runs
    steps = replace(row.training, steps=7)
    monkeypatch.setattr(
        script, "ROWS", [replace(each, training=steps) if each is row else each for each in script.ROWS]
    )
    capsys.readouterr()
    script.main(given)
    told = capsys.readouterr().out
    assert len(measured) == 3
    assert "short-0.json is stale, other configuration" in told
    assert "| `short` (stale: configuration) |" in told
    listed = "\n".join(script.list_lines(place))
    assert "seeds 0, 1, 2; stale: configuration" in listed
    assert listed.count("seeds") == 1  # none of those that are not trained
    script.main([*given, "--again"])
    assert measured[3:] == ["short-0", "short-1"]


def test_towns_that_come_out_otherwise_are_refused_and_make_runs_stale(script, place, monkeypatch):
    monkeypatch.setattr(script, "make_towns", lambda *_, **__: None)
    monkeypatch.setattr(script, "town_digest", lambda town: f"digest of {town.name}")
    rules, one_town = script.row_of("rules"), script.row_of("short-one-town")
    assert list(script.make_all_towns(rules, place)) == [f"test/town_0{number}" for number in range(4)]
    assert len(script.make_all_towns(one_town, place)) == 1 + 1 + 4
    keep(script, place, made_run())
    assert script.read_runs(rules, place).stale == ()
    monkeypatch.setattr(script, "town_digest", lambda town: "other")
    with pytest.raises(InvalidArgumentError, match="has the digest other"):
        script.make_all_towns(rules, place)
    assert set(script.make_all_towns(rules, replace(place, other_towns=True)).values()) == {"other"}
    assert script.pinned(place.results)["test/town_00"] == "digest of town_00"
    script.make_all_towns(rules, replace(place, scale=script.QUICK))
    keep(script, place, made_run(), towns={"test/town_00": "other"})
    assert script.read_runs(rules, place).stale == ("towns",)


@pytest.mark.parametrize(
    ("anew", "quick", "status", "told"),
    [
        ((1.0, 0.5), [], 0, "difference +0.000 (+0.000 to +0.000)"),
        ((0.9, 0.4), [], 1, "difference -0.100 (-0.100 to -0.100)"),
        ((0.0, 0.5), [], 0, "within the interval"),
        ((0.9,), ["--quick"], 0, "says nothing about the table"),
    ],
    ids=["same", "all worse", "one worse", "quick"],
)
def test_a_row_anew_is_told_beside_the_one_of_the_table(script, place, monkeypatch, capsys, anew, quick, status, told):
    keep(script, place, made_run())
    places = []

    def measure(row, seed, place, *, name):
        places.append(place)
        return made_run(row.name, seed, anew, (0.5, 0.5)[: len(anew)])

    monkeypatch.setattr(script, "measure", measure)
    given = ["--results", str(place.results), "--work", str(place.work), "--reproduce", "rules", *quick]
    before = place.file_of(script.row_of("rules"), 0).read_text()
    assert script.main(given) == status
    printed = capsys.readouterr().out
    assert told in printed
    assert "others replay: 0.750 in the table" in printed or quick
    assert places[0].scale is (script.QUICK if quick else script.FULL)
    assert place.file_of(script.row_of("rules"), 0).read_text() == before


def test_what_cannot_be_reproduced_is_said(script, place):
    keep(script, place, made_run())
    given = ["--results", str(place.results), "--reproduce"]
    with pytest.raises(InvalidArgumentError, match=r"no row 'rule' \(did you mean 'rules'"):
        script.main([*given, "rule"])
    with pytest.raises(InvalidArgumentError, match=r"seed 1 of rules has not been measured.*Seeds that have: 0"):
        script.main([*given, "rules", "--seed", "1"])
    with pytest.raises(InvalidArgumentError, match="--list shows which rows have"):
        script.main([*given, "short"])


def test_the_table_of_the_documents_is_that_of_the_kept_runs(script, place):
    lines = script.table_of(replace(place, results=script.RESULTS))
    for document in script.DOCUMENTS:
        _, start, rest = document.read_text("utf-8").partition(script.START)
        table, end, _ = rest.partition("<!-- end of table -->")
        assert start
        assert end
        assert table.strip("\n").splitlines() == lines, "python benchmarks/learned_drivers.py --only-table --write"


def test_places_along_a_line_are_even_and_head_along_it(import_script):
    routes = import_script("map_routes")
    line_m = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 4.0]])
    positions_m, headings_rad = routes.evenly_along(line_m, 5, heading_rad=1.0)
    assert positions_m.tolist() == [[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [4.0, 2.0], [4.0, 4.0]]
    assert headings_rad == pytest.approx(np.deg2rad([0.0, 0.0, 90.0, 90.0, 90.0]))
    positions_m, headings_rad = routes.evenly_along(line_m[:1], 3, heading_rad=1.0)
    assert positions_m.tolist() == [[0.0, 0.0]] * 3
    assert headings_rad.tolist() == [1.0] * 3


@pytest.mark.process
def test_the_version_of_the_code_tells_changes_that_were_not_committed(import_script, tmp_path, monkeypatch):
    script = import_script("learned_drivers")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert script.code_version() == l5kit.__version__
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    clean = script.code_version()
    assert re.fullmatch(rf"{re.escape(l5kit.__version__)} [0-9a-f]{{12}}", clean)
    (tmp_path / "README").touch()
    assert script.code_version() == clean
    (tmp_path / "src" / "code.py").write_text("2\n")
    assert script.code_version().startswith(f"{clean}+")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_are_trained_driven_and_reproduced(script, tmp_path, monkeypatch, capsys):
    towns = {"train": script.Towns(1, 1, 1), "choose": script.Towns(2, 1, 1), "test": script.Towns(3, 1, 1)}
    monkeypatch.setattr(script, "FULL", script.Scale(towns))
    monkeypatch.setattr(script, "SIZE", {"num_frames": 24, "town_size": 250.0, "aerial_resolution_m": 2.0})
    monkeypatch.setattr(script, "NUM_EVALUATIONS", 1)
    few = (*script.PLANNER.changes, "train_data_loader.batch_size=8", "train_data_loader.threads=1")
    planner = script.Training("route_planner", 2, 1.0, few)
    rows = (
        script.Row("log"),
        script.Row("route_planner", planner),
        script.Row("route_planner-route-of-map", planner, has_map_route=True),
    )
    monkeypatch.setattr(script, "ROWS", rows)
    monkeypatch.setattr(script, "NAMES", tuple(row.name for row in rows))
    given = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results"), "--seeds", "1"]
    assert script.main(given) == 0
    kept = {file.name: json.loads(file.read_text()) for file in (tmp_path / "results").iterdir()}
    assert sorted(kept) == [
        "log-0.json",
        "route_planner-0.json",
        "route_planner-route-of-map-0.json",
        "towns.json",
    ]
    run, of_map = kept["route_planner-0.json"], kept["route_planner-route-of-map-0.json"]
    assert run["training"]["steps"] == 2
    assert run["training"] == of_map["training"]
    assert len(list((tmp_path / "work" / "trainings").iterdir())) == 1
    assert {len(scores) for of_agents in run["scores"].values() for scores in of_agents.values()} == {1}
    assert sorted(kept["towns.json"]) == ["choose/town_00", "test/town_00", "train/town_00"]
    capsys.readouterr()
    monkeypatch.setattr(script, "train", None)
    assert script.main([*given, "--only-table"]) == 0
    assert "| `route_planner` | 1 |" in capsys.readouterr().out
    assert script.main([*given, "--reproduce", "log"]) == 0
    assert "within the interval" in capsys.readouterr().out
