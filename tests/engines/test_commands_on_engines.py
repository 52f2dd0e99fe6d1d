"""Commands give the same bytes and files on all engines, and go on where they were killed."""

import hashlib
import json
import os
import shutil
import sys

import pytest
from typer.testing import CliRunner

from l5kit.cli.main import make_app
from support.networks import save_network

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.filterwarnings("ignore")]

ENGINES = ("processes", "ray", "dask")


def run(*words):
    done = CliRunner().invoke(make_app(), [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def files_in(folder, *, without=()):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in without
    }


@pytest.fixture(scope="module", autouse=True)
def _workers_find_the_tests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_printed_has_the_same_bytes(city, tmp_path, engine, keeps, monkeypatch):
    for name, command in {
        "mask": ["mask", city, "--json"],
        "info": ["info", city, "--statistics", "--json"],
        "validate": ["validate", city, "--json"],
    }.items():
        printed = set()
        for how in ([], ["--engine", engine, "--workers", 2]):
            monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / f"cache-{len(printed)}-{name}"))
            kept = ["--job", tmp_path / f"job-{name}-{len(how)}"] if keeps else []
            printed.add(run(*command, *how, *kept))
        assert len(printed) == 1, name


@pytest.mark.timeout(0)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_written_has_the_same_bytes(city, tmp_path, engine):
    how = ["--engine", engine, "--workers", 2]
    for name, command, without in (
        ("manifest", ["manifest", city, "--out"], ()),
        ("parquet", ["export", city, "--layout", "parquet"], ()),
        ("columns", ["export", city], ()),
        ("chunks", ["export", city, "--no-shards"], ()),
        ("synth", ["synth", "--scenes", 3, "--frames", 20, "--town-size", 300], ()),
        ("chop", ["chop", city, "--frames", 40, "--out"], ()),
        ("simulate", ["simulate", city, "--frames", 20, "--planner", "rules", "--out"], ("run.json", "receipt.json")),
    ):
        here, there, again = (tmp_path / f"{name}-{place}" for place in ("here", "there", "again"))
        run(*command, here)
        run(*command, there, *how)
        found = [files_in(each, without=without) if each.is_dir() else each.read_bytes() for each in (here, there)]
        assert found[0] == found[1], name
        if name != "simulate":
            job = ["--job", tmp_path / f"{name}-job"]
            run(*command, again, *how, *job)
            shutil.rmtree(again) if again.is_dir() else again.unlink()
            run(*command, again, *job)
            last = files_in(again) if again.is_dir() else again.read_bytes()
            assert last == found[0], name


@pytest.mark.parametrize("engine", ENGINES)
def test_imports_and_other_rates_have_the_same_bytes(city, tmp_path, engine):
    pytest.importorskip("pyarrow")
    from support import argoverse2_files

    for number in range(5):
        argoverse2_files.write_scenario(tmp_path / "source" / "val", f"0000000{number}-0000-4000-8000-000000000000")
    for name, command in {
        "import": ["import", "argoverse2", tmp_path / "source"],
        "resample": ["resample", city, "--step", 0.3],
    }.items():
        here, there = tmp_path / f"{name}-here", tmp_path / f"{name}-there"
        run(*command, here)
        run(*command, there, "--engine", engine, "--workers", 2)
        assert files_in(here) == files_in(there), name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("workflow", ["agent_motion_multimodal", "vector_planner"])
def test_scores_have_the_same_bits(city, tmp_path, engine, workflow, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    network = save_network(workflow, city, tmp_path)
    own, of_times = ("duration_s", "samples_per_s"), ("scores.json", "receipt.json")  # which is of the former, too
    command = ["evaluate", network, "--data", city, "--max-samples", 40, "--batch-size", 8, "--worst", 1]
    told = []
    for number, how in enumerate(([], ["--engine", engine, "--workers", 2, "--job", tmp_path / "job"])):
        out = tmp_path / f"{number}"
        run(*command, "--out", out, *how)
        scores = json.loads((out / "scores.json").read_text())
        told.append(({key: scores[key] for key in scores.keys() - set(own)}, files_in(out, without=of_times)))
    assert told[0] == told[1]
    receipts = len(list((tmp_path / "job").glob("*/*/receipt.json")))
    assert receipts == 5
