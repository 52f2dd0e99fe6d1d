"""``l5kit bench``."""

import json
import re
import shutil

import pytest

from l5kit_bench.machine import has_memory_figures

pytestmark = pytest.mark.process  # a fast store is read by another process

QUICK = ("bench", "--quick", "--passes", 1)


@pytest.fixture
def reference(tmp_path):
    """Recorded rates that any machine beats."""
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({"workloads": {"AgentDataset stub_debug": {"per_1000_score": 0.001}}}))
    return path


def test_rows_are_measured_on_a_dataset_and_compared(l5kit, city, reference, tmp_path):
    files = tmp_path / "rates.json", tmp_path / "rates.md"
    done = l5kit(
        *QUICK,
        "--data",
        city,
        "--reference",
        reference,
        "--only",
        "agent-stub",
        "--json",
        files[0],
        "--markdown",
        files[1],
    )
    assert (done.exit_code, done.stderr) == (0, "")
    content = json.loads(files[0].read_text())
    (row,) = content["rows"]
    assert content["data"] == str(city / "scenes" / "sample.zarr")
    assert row["rate"] == row["rates"][0] > 0
    assert row["ratio"] == pytest.approx(row["rate"] / content["score"]["mean"] * 1000 / 0.001)
    assert "All that is compared is what is asked or better." in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "AgentDataset stub_debug" in line]
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert "| " + " | ".join(cells) + " |" in files[1].read_text()
    assert cells[-1] == "40 to L5Kit 1.5"


def test_without_data_a_city_is_made(l5kit):
    done = l5kit(*QUICK, "--only", "mask", "--only", "city")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Rates on a made city of one scene" in done.stdout
    assert "One pass on one thread, of too little work to mean much" in done.stdout
    assert "There is nothing to compare with" in done.stdout
    assert "making a city" in done.stdout


def test_a_row_without_its_map_is_one_line_on_stderr(l5kit, city, tmp_path):
    alone = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "alone" / "sample.zarr")
    done = l5kit(*QUICK, "--data", alone, "--only", "mask", "--only", "agent-semantic")
    assert done.exit_code == 0
    assert done.stderr.startswith("left out: AgentDataset py_semantic: there is no semantic map and no meta.json near")
    assert done.stderr.count("\n") == 1
    assert "agents mask of a scene" in done.stdout


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_and_numbers_stay_whole(l5kit, city, width, monkeypatch):
    monkeypatch.setattr("l5kit.cli.output._WIDTH_WITHOUT_TERMINAL", width)
    done = l5kit(*QUICK, "--data", city, "--only", "mask", "--only", "frames", "--only", "agent-semantic")
    tables = [line for line in done.stdout.splitlines() if line[:1] in "┌│└┏┃┡"]
    assert len(tables) > 10
    assert max(map(len, tables)) <= width
    for unit in ("rows/s", "frames/s", "samples/s"):
        assert len(re.findall(rf"│ +[\d,.]+( M)? {unit} │", done.stdout)) == 1


def test_an_unknown_row_is_an_error_that_names_the_nearest(l5kit, city):
    done = l5kit(*QUICK, "--data", city, "--only", "agentstub")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "there is no row 'agentstub' (did you mean 'agent-stub'?)" in done.stderr


def test_missing_data_is_an_error(l5kit, tmp_path):
    done = l5kit(*QUICK, "--data", tmp_path / "nothing")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no dataset at")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--memory", "--startup"], id="two kinds of figures"),
        pytest.param(["--memory", "--only", "mask"], id="memory of a row"),
        pytest.param(["--startup", "--markdown", "x.md"], id="a table of rates without rates"),
        pytest.param(["--reference", "reference.json"], id="a reference for a made city"),
        pytest.param(["--passes", "0"], id="no passes"),
        pytest.param(["--batch-size", "0"], id="empty batches"),
    ],
)
def test_options_that_do_not_go_together(l5kit, arguments):
    done = l5kit("bench", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_script_may_tell_the_score(l5kit, city, tmp_path):
    (tmp_path / "mine.py").write_text("def score():\n    return 4321\n")
    done = l5kit(*QUICK, "--data", city, "--only", "mask", "--score-script", tmp_path / "mine.py")
    assert "4,321 (4,321 before, 4,321 after)" in done.stdout


@pytest.mark.skipif(not has_memory_figures(), reason="only Linux tells the memory of a process")
@pytest.mark.long
def test_memory(l5kit, city, tmp_path):
    done = l5kit("bench", "--quick", "--memory", "--data", city, "--json", tmp_path / "memory.json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Resident memory" in done.stdout
    assert "Processes that draw from the same" in done.stdout
    content = json.loads((tmp_path / "memory.json").read_text())
    assert list(content["resident_mb"]) == ["20", "40"]
    assert [len(shared["processes"]) for shared in content["processes"]] == [1, 2]


def test_startup(l5kit, city, monkeypatch):
    """The processes are started in another test, since kernels take a quarter of a minute to compile."""
    steps = ("import", "open", "rasterizer", "dataset", "sample", "sample again", "batch", "batch again")
    monkeypatch.setattr("l5kit_bench.startup._start", lambda *_: dict.fromkeys(steps, 0.25))
    done = l5kit("bench", "--startup", "--data", city)
    assert (done.exit_code, done.stderr) == (0, "")
    (line,) = [line for line in done.stdout.splitlines() if "all up to the first sample" in line]
    assert line.count("1,250.0 ms") == 2


def test_without_a_checkout_it_says_where_to_find_the_benchmarks(l5kit, tmp_path, monkeypatch):
    from l5kit.cli import bench

    assert bench.find_bench(bench._CHECKOUT).__module__ == "l5kit_bench.command"
    monkeypatch.setattr(bench, "bench", bench.find_bench(tmp_path))
    done = l5kit(*QUICK, "--data", "city", "--only", "mask")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: l5kit bench needs a checkout of l5kit, but ")
    assert "git clone https://github.com/l5kit/l5kit" in done.stderr
