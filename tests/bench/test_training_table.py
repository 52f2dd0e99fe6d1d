"""``benchmarks/training_table.py``, on small towns and a few steps."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightning")


@pytest.fixture
def script(import_script, monkeypatch):
    module = import_script("training_table")
    towns = [
        module.Town(part, seed, 2, "0") for part, seed in (("train", 1), ("train", 2), ("selection", 3), ("test", 4))
    ]
    monkeypatch.setattr(module, "TOWNS", tuple(towns))
    monkeypatch.setattr(module, "SIZE", {"num_frames": 30, "town_size": 250.0})
    return module


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_table_is_made_kept_and_made_again(script, tmp_path, capsys, monkeypatch):
    given = ["--workflow", "safepathnet", "--seeds", "2", "--steps-factor", "0.001", "--samples", "8"]
    given += ["--work", str(tmp_path), "--document", str(tmp_path / "doc.md")]
    (tmp_path / "doc.md").write_text(f"before\n{script.START}\nold\n{script.END}\nafter\n")
    with pytest.raises(SystemExit, match="has the digest"):
        script.main(given)
    script.main([*given, "--other-towns"])
    document = (tmp_path / "doc.md").read_text()
    assert document.startswith("before\n")
    assert document.endswith("after\n")
    assert "old" not in document
    assert document.count("| `safepathnet` |") == 5
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        *(f"safepathnet-{seed}{rate}.json" for seed, rate in script_names(document)),
    ]
    capsys.readouterr()
    monkeypatch.setattr(script, "train", None)
    script.main([*given, "--other-towns"])
    assert (tmp_path / "doc.md").read_text() == document
    (tmp_path / "doc.md").write_text(f"{script.START}\n{script.END}")
    script.main([*given, "--only-table", "--work", str(tmp_path / "none"), "--results", str(tmp_path / "results")])
    assert (tmp_path / "doc.md").read_text() == document.removeprefix("before\n").removesuffix("\nafter\n")
    with pytest.raises(SystemExit, match="0 sets of towns"):
        script.main([*given, "--only-table", "--results", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="other configuration"):
        script.main([*given, "--other-towns", "--samples", "9"])


def script_names(document):
    """The runs behind a table of two seeds: seed 0 with both learning rates, and seed 1 with the chosen one."""
    chosen = "-rate-2" if "2 of the configured" in document else ""
    return sorted([("0", ""), ("0", "-rate-2"), ("1", chosen)], key=lambda each: f"safepathnet-{each[0]}{each[1]}.json")


def test_means_and_ratios_are_over_scenes(import_script):
    scores = import_script("training_scores")
    names = ("ade_m", "constant_velocity/ade_m", "ctrv/ade_m", "ctra/ade_m")
    values = ([2.0, 4.0], [8.0, 16.0], [6.0, 6.0], [20.0, 20.0])
    sums = scores.SceneSums(
        {name: np.array(value) for name, value in zip(names, values, strict=True)},
        {name: np.array([2.0, 2.0]) for name in names},
    )
    assert sums.estimate("ade_m").value == pytest.approx(1.5)
    assert sums.best_baseline("ade_m") == "ctrv"
    assert sums.ratio("ade_m").value == pytest.approx(0.5)
    assert sums.added(sums).estimate("ade_m") == sums.estimate("ade_m")
    assert sums.followed_by(sums).sums["ade_m"].tolist() == [2.0, 4.0, 2.0, 4.0]
    same = sums.estimate("ctrv/ade_m")
    assert (same.low, same.value, same.high) == (3.0, 3.0, 3.0)


def test_the_table_of_the_docs_is_that_of_the_kept_runs_of_the_configurations_that_ship(import_script):
    script = import_script("training_table")
    kept = Path(script.__file__).parent / "training_results"
    for row in script.read_rows(kept):
        run = f"{row['workflow']} with seed {row['seed']}"
        shipped = script.configuration_of(row["workflow"], row["seed"], row["rate_factor"], row["steps_factor"])
        assert row["facts"]["configuration"] == json.loads(json.dumps(shipped)), f"train {run} again"
    _, _, rest = script.DOCUMENT.read_text("utf-8").partition(script.START)
    table, end, _ = rest.partition(script.END)
    assert end
    assert table.strip("\n").splitlines() == script.table_of(kept)
