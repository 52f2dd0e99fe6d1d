"""``l5kit artifact``, and ``--artifact`` of trainings, with MLflow in a folder."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from l5kit.data.digests.digest import dataset_digest
from support.artifacts import files_below, make_training

pytest.importorskip("mlflow")
pytestmark = pytest.mark.process  # MLflow asks `uname` what machine this is

PLACE = ("--project", "driving", "--store", "mlflow")


@pytest.fixture(autouse=True)
def _tracking_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())


def logged(l5kit, city, *options):
    done = l5kit("artifact", "log", city, "--name", "l5-data", *PLACE, "--json", *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_dataset_is_logged_listed_fetched_and_used(l5kit, city, tmp_path):
    facts = logged(l5kit, city, "--alias", "train", "--alias", "best", "--description", "A town")
    assert (facts["version"], facts["aliases"]) == ("v0", ["best", "latest", "train"])
    assert (facts["num_scenes"], facts["digest"]) == (3, dataset_digest(city))
    assert json.loads(l5kit("artifact", "list", *PLACE, "--json").stdout) == [facts]
    table = l5kit("artifact", "list", *PLACE, "--name", "l5-data").stdout
    assert "l5-data:v0" in table
    assert "A town" in table

    out = tmp_path / "out"
    got = json.loads(l5kit("artifact", "get", "l5-data:train", *PLACE, "--out", out, "--json").stdout)
    assert got == {**facts, "folder": str(out)}
    assert files_below(out) == files_below(city)
    assert l5kit("artifact", "use", "l5-data", *PLACE, "--folder", out).stdout == f"{out}\n"
    cached = Path(l5kit("artifact", "use", "l5-data", *PLACE).stdout.strip())
    assert files_below(cached) == files_below(city)

    (out / "meta.json").unlink()
    done = l5kit("artifact", "use", "l5-data", *PLACE, "--folder", out)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "1 missing (meta.json)" in done.stderr


def test_the_folder_itself_can_be_the_reference(l5kit, city):
    facts = logged(l5kit, city, "--by-reference")
    assert (facts["is_reference"], facts["location"]) == (True, city.as_uri())
    done = l5kit("artifact", "log", city, "--name", "l5-data", *PLACE, "--by-reference", "--reference", "s3://a/b")
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


def test_what_was_trained_is_linked_with_its_data(l5kit, city, tmp_path):
    logged(l5kit, city)
    folder = make_training(tmp_path / "planner")
    done = l5kit("artifact", "link", folder, "l5-data:v0", *PLACE, "--data", city)
    assert done.exit_code == 0
    assert "/runs/" in done.stdout
    done = l5kit("artifact", "link", folder, "l5-data:v0", *PLACE, "--data", city / "scenes" / "sample.zarr")
    assert done.exit_code == 1
    assert "name the version that was trained on" in done.stderr


def test_a_project_without_datasets(l5kit):
    done = l5kit("artifact", "list", *PLACE, "--name", "l5-data")
    assert (done.exit_code, done.stdout) == (0, "No datasets in driving named l5-data\n")
    assert json.loads(l5kit("artifact", "list", *PLACE, "--json").stdout) == []


def test_a_folder_that_is_no_training(l5kit, city, tmp_path):
    logged(l5kit, city)
    done = l5kit("artifact", "link", tmp_path, "l5-data:v0", *PLACE)
    assert done.exit_code == 1
    assert "is not a folder of l5kit train or l5kit train-rl: there is no config.yaml" in done.stderr


@dataclass
class Trained:
    """The parts of a training result that commands use."""

    folder: Path
    weights: str = "planner.safetensors"
    driver: str = "driver.zip"
    num_steps: int = 5
    minutes: float = 0.5
    steps_per_s: float = 1.0
    environment_share: float = 0.5
    scores: dict = None
    before: dict = None
    after: dict = None
    best_weights: Path | None = None

    def __post_init__(self):
        self.scores, self.before, self.after = {}, {}, {}


KEYS = [f"--set={part}_data_loader.key=scenes/sample.zarr" for part in ("train", "val")]


@pytest.mark.parametrize(
    ("command", "function"),
    [
        pytest.param(("train", "raster_planner", *KEYS), "l5kit.training.run.train", id="train"),
        pytest.param(("train-rl",), "l5kit.reinforcement.run.train_driver", id="train-rl"),
    ],
)
def test_a_training_says_what_it_uses(l5kit, city, tmp_path, monkeypatch, command, function):
    pytest.importorskip("torch")
    logged(l5kit, city)
    calls = []

    def train(*_, **__):
        calls.append(1)
        return Trained(
            make_training(tmp_path / f"run-{len(calls)}", **({"data": {"digest": "0"}} if calls[1:] else {}))
        )

    monkeypatch.setattr(function, train)
    call = (*command, "--data", city, "--out", tmp_path / "out", "--artifact")
    done = l5kit(*call, "mlflow:driving/l5-data:v0")
    assert done.exit_code == 0, done.output
    assert "linked with l5-data:v0: " in done.stderr

    done = l5kit(*call, "mlflow:driving/l5-data:v9")
    assert (done.exit_code, calls) == (1, [1])
    assert "there is no l5-data:v9" in done.stderr

    done = l5kit(*call, "mlflow:driving/l5-data:v0")
    assert (done.exit_code, len(calls)) == (1, 2)
    assert "the training is complete" in done.stderr
    assert "l5kit artifact link" in done.stderr


@pytest.mark.parametrize("command", ["log", "list", "get", "use", "link"])
def test_help_of_each_command_shows_an_example(l5kit, command):
    done = l5kit("artifact", command, "--help")
    assert done.exit_code == 0
    assert "l5kit artifact" in done.stdout.partition("Examples:")[2]


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["log", "city"], ["get", "l5-data", *PLACE], ["list", "--project", "x", "--store", "y"]]
)
def test_a_wrong_call_ends_with_2(l5kit, arguments):
    done = l5kit("artifact", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "--help shows how to call it" in done.stderr
