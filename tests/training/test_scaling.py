"""Steps of several batches, averaged weights, compiled networks, several loggers, the best weights, and minutes."""

import csv
import json
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training import curves, train
from l5kit.training.best import TopFile, TopWeights
from l5kit.training.lightning_module import WeightAverage
from l5kit.training.lightning_parts import MLFlowLogger, WandbLogger
from l5kit.training.state_file import ResumePoint, StateFiles, read_resume_point
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


class Watcher(pl.Callback):
    """Notes gradients and weights of each step."""

    def __init__(self):
        self.gradients = []
        self.weights = []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.gradients.append([parameter.grad.clone() for parameter in pl_module.parameters()])
        if not self.weights:
            self.weights.append(weights_of(pl_module))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == len(self.weights):
            self.weights.append(weights_of(pl_module))


def weights_of(pl_module):
    return {name: value.detach().clone() for name, value in pl_module.model.state_dict().items()}


def run(city, folder, *, batch_size=8, resume=False, **train_params):
    cfg = small_config("vector_planner")
    cfg["train_data_loader"]["batch_size"] = batch_size
    cfg["train_params"] = {"max_num_steps": 3, "accelerator": "cpu", "log_every_n_steps": 1, **train_params}
    watcher = Watcher()
    return train(cfg, folder, data_folder=city, callbacks=(watcher,), resume=resume), watcher


def curve(folder, name):
    (table,) = folder.glob("curves/*/metrics.csv")
    with table.open(newline="") as file:
        return [(int(row["step"]), float(row[name])) for row in csv.DictReader(file) if row[name]]


def test_two_batches_of_four_are_one_of_eight(city, tmp_path):
    _, whole = run(city, tmp_path / "whole")
    result, halves = run(city, tmp_path / "halves", batch_size=4, accumulate_grad_batches=2, eval_every_n_steps=2)
    assert len(halves.gradients) == len(whole.gradients) == result.num_steps == 3
    for one, other in zip(halves.gradients[0], whole.gradients[0], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    losses = [curve(tmp_path / name, "train/loss") for name in ("halves", "whole")]
    assert [step for step, _ in losses[0]] == [0, 1, 2]
    assert [loss for _, loss in losses[0]] == pytest.approx([loss for _, loss in losses[1]], rel=1e-4)
    assert [step for step, _ in curve(tmp_path / "halves", "lr-Adam")] == [0, 1, 2]
    assert [step for step, _ in curve(tmp_path / "halves", "val/ade_m/0.4s")] == [1, 2]


def test_an_average_is_that_of_its_weights_and_leaves_buffers():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False))
    weight, buffer = model[0].weight, model[1].running_mean
    nn.init.constant_(weight, 1.0)
    average = WeightAverage(model, 0.2)
    for step, (value, mean) in enumerate([(12.0, 5.0), (7.0, 6.0)], start=1):
        nn.init.constant_(weight, value)
        buffer.fill_(mean)
        average.update(step)
    # 1 * 2/11 + 12 * 9/11 = 10 after the first step; then the decay is 0.2, as 3/12 is more
    with average.swapped_in():
        assert (weight.item(), buffer.item()) == (pytest.approx(7.6), 6.0)
    assert weight.item() == 7.0
    other = WeightAverage(model, 0.2)
    other.load_state_dict(average.state_dict())
    assert other.state_dict()["0.weight"].item() == pytest.approx(7.6)


def test_averaged_weights_are_those_that_are_evaluated_and_saved(city, tmp_path):
    folder = tmp_path / "out"
    result, watcher = run(city, folder, ema_decay=0.25)
    expected = watcher.weights[0]
    for step, weights in enumerate(watcher.weights[1:], start=1):
        decay = min(0.25, (1 + step) / (10 + step))
        expected = {name: decay * expected[name] + (1 - decay) * weights[name] for name in expected}
    for path in (result.weights, result.best_weights):
        found = read_checkpoint(path).state_dict
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-7)
    last = StateFiles().load_checkpoint(folder / "last.ckpt")["state_dict"]
    assert all(torch.equal(last[f"model.{name}"], value) for name, value in watcher.weights[3].items())
    plain, _ = run(city, tmp_path / "plain")
    assert result.scores["val/ade_m/0.4s"] != pytest.approx(plain.scores["val/ade_m/0.4s"], rel=1e-3)


@pytest.mark.slow
def test_a_compiled_network_learns_the_same_and_keeps_its_names(city, tmp_path):
    plain, _ = run(city, tmp_path / "plain", max_num_steps=2)
    compiled, _ = run(city, tmp_path / "compiled", max_num_steps=1, compile=True, compile_backend="eager")
    calls = torch._dynamo.utils.counters["frames"]["ok"]
    assert calls > 0
    resumed, _ = run(city, tmp_path / "compiled", max_num_steps=2, compile=True, compile_backend="eager", resume=True)
    assert resumed.num_steps == 2
    assert resumed.scores == pytest.approx(plain.scores, rel=1e-3)
    assert read_checkpoint(compiled.weights).state_dict.keys() == read_checkpoint(plain.weights).state_dict.keys()
    with pytest.raises(ConfigError, match=r"compile_backend: expected one of .*inductor.*, got 'indutcor'"):
        run(city, tmp_path / "other", compile=True, compile_backend="indutcor")


def test_several_loggers_go_on_together(city, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, both = tmp_path / "out", {"logger": ["csv", "tensorboard"], "checkpoint_every_n_steps": 1}
    run(city, folder, max_num_steps=2, **both)
    run(city, folder, max_num_steps=4, resume=True, **both)
    assert [step for step, _ in curve(folder, "train/loss")] == [0, 1, 2, 3]
    (written,) = (folder / "curves").iterdir()
    assert [event.step for event in EventAccumulator(str(written)).Reload().Scalars("train/loss")] == [0, 1, 2, 3]


def test_services_go_on_with_their_runs(tmp_path, monkeypatch):
    class Service:
        """Fake of a service, which creates a run unless it is given one."""

        def __init__(self, *_, id=None, run_id=None, **__):  # noqa: A002 - as W&B calls it
            self.run_id = id or run_id or "made"

    for name in ("OnceWandbLogger", "OnceMLFlowLogger"):
        monkeypatch.setattr(curves, name, Service)
    monkeypatch.setattr(curves, "find_spec", lambda name: True)
    made = {kind: curves.make_logger(kind, tmp_path, name="a").run_id for kind in ("wandb", "mlflow")}
    assert made["mlflow"] == "made"
    for kind, run_id in made.items():
        assert curves.make_logger(kind, tmp_path, name="a", resumed=ResumePoint()).run_id == run_id
    assert curves.make_logger("wandb", tmp_path / "other", name="a").run_id != made["wandb"]


class KilledError(Exception):
    """Stands for the end of a process."""


class Killing(pl.Callback):
    """Ends a training at a step."""

    def __init__(self, step):
        self.step = step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.step:
            raise KilledError


@pytest.mark.slow
def test_services_are_told_each_point_once(city, tmp_path, monkeypatch):
    told = {"wandb": [], "mlflow": []}

    def service(kind):
        base = {"wandb": WandbLogger, "mlflow": MLFlowLogger}[kind]
        monkeypatch.setattr(base, "__init__", lambda self, **_: None)
        monkeypatch.setattr(base, "name", kind)
        monkeypatch.setattr(base, "version", "0")
        monkeypatch.setattr(base, "experiment", SimpleNamespace(finish=lambda: None))
        monkeypatch.setattr(base, "save_dir", str(tmp_path))
        monkeypatch.setattr(base, "run_id", "a", raising=False)
        for method in ("finalize", "after_save_checkpoint", "log_graph", "log_hyperparams", "save"):
            monkeypatch.setattr(base, method, lambda *_, **__: None)
        monkeypatch.setattr(base, "log_metrics", lambda self, metrics, step: told[kind].append((step, dict(metrics))))

    for kind in told:
        service(kind)
    monkeypatch.setattr(curves, "find_spec", lambda name: True)

    def run(folder, killed_at=None, **options):
        params = {"logger": ["csv", "wandb", "mlflow"], "checkpoint_every_n_steps": 2, "eval_every_n_steps": 1}
        cfg = small_config("vector_planner")
        cfg["train_params"] = {"max_num_steps": 5, "accelerator": "cpu", "log_every_n_steps": 1, **params}
        train(cfg, folder, data_folder=city, callbacks=(Killing(killed_at),), **options)
        return {kind: points_of(kind) for kind in told}

    def points_of(kind):
        points = [(step, name, value) for step, values in told[kind] for name, value in values.items()]
        told[kind].clear()
        return sorted(point for point in points if point[1] not in ("epoch", "samples_per_s", "loader_share"))

    whole = run(tmp_path / "whole")
    assert {name for _, name, _ in whole["wandb"]} >= {"train/loss", "val/ade_m/0.4s", "lr-Adam"}
    for killed_at in (3, 4):
        with pytest.raises(KilledError):
            run(tmp_path / f"killed-{killed_at}", killed_at)
        before = {kind: points_of(kind) for kind in told}
        after = run(tmp_path / f"killed-{killed_at}", resume=True)
        for kind, points in whole.items():
            assert before[kind]
            assert sorted(before[kind] + after[kind]) == points


@pytest.mark.long
@pytest.mark.process
def test_mlflow_has_each_point_once(city, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "runs").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    params = {"logger": "mlflow", "checkpoint_every_n_steps": 2, "eval_every_n_steps": 1}
    cfg = small_config("vector_planner")
    cfg["train_params"] = {"max_num_steps": 5, "accelerator": "cpu", "log_every_n_steps": 1, **params}
    with pytest.raises(KilledError):
        train(cfg, tmp_path / "out", data_folder=city, callbacks=(Killing(3),))
    train(cfg, tmp_path / "out", data_folder=city, resume=True)
    run = json.loads((tmp_path / "out" / "curves" / "runs.json").read_text())["mlflow"]
    for name in ("train/loss", "val/ade_m/0.4s"):
        assert [point.step for point in MlflowClient(uri).get_metric_history(run, name)] == [0, 1, 2, 3, 4]


def test_minutes_of_a_training_add_up(city, tmp_path):
    folder = tmp_path / "out"
    first, _ = run(city, folder, max_num_steps=1)
    assert 0 < read_resume_point(folder / "last.ckpt").minutes <= first.minutes
    state = StateFiles().load_checkpoint(folder / "last.ckpt")
    state["callbacks"]["CheckpointWriter"]["minutes"] = 500.0
    StateFiles().save_checkpoint(state, folder / "last.ckpt")
    second, _ = run(city, folder, max_num_steps=2, resume=True)
    assert second.minutes > 500.0
    assert json.loads((folder / "result.json").read_text())["minutes"] == round(second.minutes, 2)
    assert read_resume_point(folder / "last.ckpt").minutes > 500.0


def test_the_best_weights_are_evaluated_again_where_their_scores_are_of_other_samples(city, tmp_path):
    cfg = small_config("vector_planner")
    cfg["train_params"] = {"max_num_steps": 3, "accelerator": "cpu", "eval_every_n_steps": 1, "save_top_k": 2}
    folder = tmp_path / "out"
    train(cfg, folder, data_folder=city)
    before = {path.name: read_checkpoint(path) for path in folder.glob("*_top_*")}
    cfg["val_data_loader"]["max_num_batches"] = 1
    train(cfg, folder, data_folder=city, resume=True)
    after = {path.name: read_checkpoint(path) for path in folder.glob("*_top_*")}
    assert len(after) == len(before) == 2
    assert not after.keys() & before.keys()
    weights = {file.facts["step"]: file.state_dict for file in before.values()}
    for name, file in after.items():
        assert name == f"vector_planner_top_{file.facts['step']}_steps_{file.facts['score']:.4f}.safetensors"
        assert file.facts["evaluation"] not in {other.facts["evaluation"] for other in before.values()}
    shared = [file for file in after.values() if file.facts["step"] in weights]
    assert shared
    for file in shared:
        known = weights[file.facts["step"]]
        assert all(torch.equal(value, known[key]) for key, value in file.state_dict.items())


def test_a_file_goes_only_when_a_better_one_is_whole(tmp_path):
    top = TopWeights(tmp_path, "net", 2)
    for step, score in enumerate((3.0, 2.0, 2.5), start=1):
        file = top.file_for(score, step, "d")
        before = {path.name for path in tmp_path.iterdir()}
        (tmp_path / file.name).touch()
        assert len(before) == min(step - 1, 2)
        top.keep(file, is_main=True)
    assert [file.step for file in top.files] == [2, 3]
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in top.files}
    assert top.file_for(2.5, 4, "d") is None  # of equal scores the first stays
    again = top.file_for(2.25, 3, "d")  # a step that is trained again
    (tmp_path / again.name).touch()
    top.keep(again, is_main=True)
    assert top.files == (TopFile(2.0, 2, "net_top_2_steps_2.0000.safetensors", "d"), again)
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in top.files}


@pytest.mark.parametrize(
    ("train_params", "message"),
    [
        ({"logger": ["csv", "csv"]}, "repeats a logger"),
        ({"logger": ["csv", "paper"]}, "a list of 'csv'"),
        ({"ema_decay": 1.0}, "a finite number between 0 and 1"),
        ({"ema_decay": 0.9, "strategy": "fsdp"}, "ema_decay: not supported with strategy 'fsdp'"),
        ({"compile": True, "strategy": "fsdp"}, "compile: not supported with strategy 'fsdp'"),
        (
            {"precision": "16-mixed", "strategy": "fsdp"},
            "precision: expected 32-true or bf16-mixed with strategy 'fsdp'",
        ),
        ({"accumulate_grad_batches": 0}, "accumulate_grad_batches: expected a whole number from 1 to 100000, got 0"),
        ({"strategy": "ddq"}, "strategy: expected 'auto' or 'ddp' or 'fsdp'"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_told(train_params, message):
    with pytest.raises(ConfigError, match=message):
        TrainingParams.from_cfg(small_config("vector_planner", train_params=train_params))


def test_the_best_weights_need_evaluations():
    cfg = small_config("vector_planner", train_params={"save_top_k": 1})
    del cfg["val_data_loader"]
    with pytest.raises(ConfigError, match="save_top_k: it needs evaluations"):
        TrainingParams.from_cfg(cfg)


def test_a_machine_that_does_not_know_its_number_is_told(city, tmp_path, monkeypatch):
    for name in ("NODE_RANK", "GROUP_RANK", "RANK", "SLURM_NODEID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="num_nodes is 2, but the rank of this machine is unknown"):
        run(city, tmp_path / "out", num_nodes=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"accumulate_grad_batches": 2}, {"ema_decay": 0.5}], ids=str)
def test_a_training_goes_on_with_the_steps_that_it_had(change, city, tmp_path):
    run(city, tmp_path / "out", max_num_steps=1)
    with pytest.raises(ConfigError, match=f"train_params.{next(iter(change))}: .* differs from None"):
        run(city, tmp_path / "out", max_num_steps=1, resume=True, **change)
