"""Several trainings, one after the other, with one table."""

import csv
import json

import pytest

from l5kit.configs.config import save_config_data
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.training import sweep, sweeping
from support.workflows import small_config

RATE = "train_params.learning_rate"


class Trainer:
    """Stands for trainings: notes them, and fails or is killed at a rate."""

    def __init__(self, monkeypatch):
        self.calls = []
        self.errors = {}
        monkeypatch.setattr(sweeping, "train", self)

    def __call__(self, cfg, folder, *, resume, **_):
        params = {"learning_rate": 0.1, **cfg["train_params"]}
        self.calls.append((params["learning_rate"], params.get("seed"), resume))
        folder.mkdir(exist_ok=True)
        save_config_data(cfg, str(folder / "config.yaml"))
        if params["learning_rate"] in self.errors:
            raise self.errors[params["learning_rate"]]
        result = {"num_steps": 3, "minutes": 1.5, "scores": {"val/ade_m/1s": 10 * params["learning_rate"]}}
        (folder / "result.json").write_text(json.dumps(result))


@pytest.fixture
def trainer(monkeypatch):
    return Trainer(monkeypatch)


def start(folder, values=None, **options):
    cfg = small_config("vector_planner")
    return sweep(cfg, folder, values or {RATE: [0.1, 0.2, 0.3]}, tell=lambda _: None, **options)


def table(folder):
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_that_fails_does_not_lose_the_others_and_is_tried_again(trainer, tmp_path):
    folder = tmp_path / "out"
    trainer.errors = {0.2: MemoryError("no room\nfor it")}
    result = start(folder)
    assert result.num_failed == 1
    rows = table(folder)
    assert [(row["status"], row[RATE], row["minutes"], row["val/ade_m/1s"], row["error"]) for row in rows] == [
        ("done", "0.1", "1.5", "1.0", ""),
        ("failed", "0.2", "", "", "MemoryError: no room"),
        ("done", "0.3", "1.5", "3.0", ""),
    ]
    trainer.errors.clear()
    trainer.calls.clear()
    assert start(folder, resume=True).num_failed == 0
    assert trainer.calls == [(0.2, None, True)]
    assert [row["status"] for row in table(folder)] == ["done"] * 3


def test_a_killed_sweep_goes_on_with_what_has_not_come_to_its_end(trainer, tmp_path):
    folder = tmp_path / "out"
    trainer.errors = {0.2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        start(folder, num_seeds=2)
    assert [(row["status"], row["train_params.seed"]) for row in table(folder)[:4]] == [
        ("done", "0"),
        ("done", "1"),
        ("waiting", "0"),
        ("waiting", "1"),
    ]
    trainer.errors.clear()
    trainer.calls.clear()
    start(folder, num_seeds=2, resume=True)
    assert trainer.calls == [(0.2, 0, True), (0.2, 1, False), (0.3, 0, False), (0.3, 1, False)]


def test_another_sweep_does_not_go_on(trainer, tmp_path):
    folder = tmp_path / "out"
    with pytest.raises(FileNotFoundError, match=r"sweep\.json to resume from"):
        start(folder, resume=True)
    start(folder)
    with pytest.raises(InvalidArgumentError, match="holds files"):
        start(folder)
    with pytest.raises(ConfigError, match="has another configuration or other values"):
        start(folder, {RATE: [0.1, 0.2]}, resume=True)


def test_keys_that_nobody_knows_end_a_sweep_before_it_begins(trainer, tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean train_params\.learning_rate\?"):
        start(tmp_path / "out", {"train_params.lerning_rate": [1.0]})
    assert not (tmp_path / "out").exists()


def test_values_that_are_not_allowed_stand_in_the_table(trainer, tmp_path):
    result = start(tmp_path / "out", {"train_params.num_nodes": [1, 2, 0]}, num_seeds=1)
    errors = [row.error for row in result.rows]
    assert errors[0] == ""
    assert "sweeps are trained on one machine" in errors[1]
    assert "expected a whole number of at least 1, got 0" in errors[2]


def test_seeds_are_swept_or_counted(trainer, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="it is swept, and a number of seeds is given"):
        start(tmp_path / "out", {"train_params.seed": [1, 2]}, num_seeds=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="call it once, without torchrun"):
        start(tmp_path / "out")


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_trainings_on_several_devices_have_processes_of_their_own(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu", "devices": 2})
    told = []
    result = sweep(cfg, tmp_path / "out", {RATE: [1e-3, "fast"]}, data_folder=city, tell=told.append)
    assert [row.status for row in result.rows] == ["done", "failed"]
    assert result.rows[0].result["num_steps"] == 1
    again = sweep(
        cfg, tmp_path / "two", {"train_data_loader.batch_size": [8, 90000]}, data_folder=city, tell=told.append
    )
    assert [row.status for row in again.rows] == ["done", "failed"]
    assert "gives only" in again.rows[1].error
    assert {path.suffix for path in (tmp_path / "two").iterdir()} <= {".json", ".csv", ""}
