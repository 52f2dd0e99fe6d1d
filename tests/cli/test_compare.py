"""``l5kit compare``: what it prints and writes, and what it refuses."""

import json
import subprocess
import sys

import pytest

from support.compared_runs import write_simulation

SCORES = {scene: 0.8 + 0.001 * scene for scene in range(20)}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs in the working directory: one loses half of the scenes."""
    monkeypatch.chdir(tmp_path)
    write_simulation(tmp_path / "base", SCORES)
    write_simulation(tmp_path / "lower", {scene: score * (scene % 2) for scene, score in SCORES.items()}, agents="idm")
    return tmp_path


def test_tables_of_two_runs(l5kit, runs):
    done = l5kit("compare", "base", "lower", "--draws", 500)
    assert done.exit_code == 0
    assert "20 in common, 0 left out" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "0 / 10" in line]
    assert "worse" in line
    assert "lower   │ 18" in done.stdout
    assert "note: not the same in all runs: others (idm, replay)" in done.stderr
    assert "better and worse: compared with base, by more than chance" in done.stderr


def test_json_is_all_that_is_printed(l5kit, runs):
    done = l5kit("compare", "first=base", "second=lower", "--reference", "second", "--draws", 500, "--json")
    facts = json.loads(done.stdout)
    assert facts["reference"] == "second"
    assert [planner["name"] for planner in facts["planners"]] == ["first", "second"]
    (row,) = [row for row in facts["rows"] if (row["metric"], row["planner"]) == ("score", "first")]
    assert (row["verdict"], row["scenes_better"]) == ("better", 10)
    assert row["p_corrected"] < 0.05


def test_files_are_written_on_demand_and_replaced_when_told_so(l5kit, runs):
    assert l5kit("compare", "base", "lower", "--draws", 100, "--out", "compared").exit_code == 0
    assert (runs / "compared" / "comparison.html").is_file()
    done = l5kit("compare", "base", "lower", "--draws", 100, "--out", "compared")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: --out is 'compared', which holds a comparison")
    assert l5kit("compare", "base", "lower", "--draws", 100, "--out", "compared", "--overwrite").exit_code == 0


def test_view_opens_what_was_compared_without_options_of_datasets(l5kit, runs):
    l5kit("compare", "base", "lower", "--draws", 100, "--out", "compared")
    done = l5kit("view", "compared", "--scene", 3)
    assert done.exit_code == 1
    assert "compared is a comparison, which lists planners and scenes: drop --scene" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["base"], "name two planners or more", id="one run"),
        pytest.param(["base", "nowhere"], "'nowhere' is not a folder", id="no such folder"),
        pytest.param(["base", "lower", "--reference", "bse"], "--reference is 'bse' (did you mean 'base'?)", id="name"),
        pytest.param(["base", "lower", "--metric", "gap"], "has 'gap'", id="metric"),
    ],
)
def test_what_is_refused_is_told_in_one_line(l5kit, runs, arguments, message):
    done = l5kit("compare", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.process
def test_the_options_come_without_kernels():
    code = "import sys, l5kit.cli.compare; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
