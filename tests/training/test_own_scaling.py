"""Classes of users in larger trainings: steps of several batches, averaged weights, compiled, on several devices."""

import json
import os
import subprocess
import sys

import pytest
import torch

import l5kit
from l5kit.configs.config import save_config_data
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training import train
from l5kit.training.state_file import StateFiles, read_resume_point
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

NAME = "own_scaling_of_test"
CODE = """
import torch
import lightning.pytorch as pl

class Planner(torch.nn.Module):
    def __init__(self, future_num_frames, width=16, dropout=0.25):
        super().__init__()
        self.num_steps = future_num_frames
        nn = torch.nn
        ends = nn.Linear(4, width), nn.Linear(width, 3 * future_num_frames)
        self.layers = nn.Sequential(ends[0], nn.ReLU(), nn.Dropout(dropout), ends[1])
        self.idle = torch.nn.Parameter(torch.ones(2))  # no loss depends on it

    def forward(self, batch):
        past_m = batch["history_positions"][:, :2].flatten(1)
        poses = self.layers(past_m).unflatten(1, (self.num_steps, 3))
        return {"positions": poses[..., :2], "yaws": poses[..., 2:]}

class Error(torch.nn.Module):
    'An error with a weight of its own, which is learned too.'

    def __init__(self, shape=(1,)):
        super().__init__()
        self.log_scale = torch.nn.Parameter(torch.zeros(shape))

    def forward(self, outputs, batch):
        error = (outputs["positions"] - batch["target_positions"]).abs().mean()
        log_scale = self.log_scale.sum()
        return {"loss": error * torch.exp(-log_scale) + log_scale, "loss/error_m": error}

class Sign(torch.optim.Optimizer):
    def __init__(self, weights, lr, momentum=0.5):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                    mean.lerp_(weight.grad, 1 - group["momentum"])
                    weight.sub_(mean.sign(), alpha=group["lr"])
        return loss

class Killing(pl.Callback):
    stop_at = None

    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == self.stop_at:
            raise RuntimeError("killed")
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


NAMES = {
    *(f"model.layers.{number}.{what}" for number in (0, 3) for what in ("weight", "bias")),
    *("model.idle", "loss.log_scale"),
}


def config_of(*, batch_size=8, model=None, **train_params):
    model_params = {"model": {"class_path": f"{NAME}.Planner", **(model or {})}, "loss": f"{NAME}.Error"}
    params = {"max_num_steps": 6, "checkpoint_every_n_steps": 2, "accelerator": "cpu", "log_every_n_steps": 1}
    params |= {"optimizer": f"{NAME}.Sign", "callbacks": [f"{NAME}.Killing"], "learning_rate": 0.01}
    cfg = small_config("vector_planner", model_params=model_params, train_params=params | train_params)
    cfg["train_data_loader"]["batch_size"] = batch_size
    return cfg


LARGER = {
    "all": {
        "accumulate_grad_batches": 2,
        "ema_decay": 0.5,
        "compile": True,
        "compile_backend": "eager",
        "save_top_k": 2,
        "eval_every_n_steps": 1,
        "gradient_clip_norm": 1.0,
    },
    "batches": {"accumulate_grad_batches": 2},
    "averages": {"ema_decay": 0.5},
    "compiled by torch": {"compile": True},
    "compiled and averaged": {"compile": True, "compile_backend": "eager", "ema_decay": 0.5},
}


def files_of(folder):
    return {path.name: read_checkpoint(path).state_dict for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("all", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.long) for name in LARGER if name != "all"),
    ],
)
def test_a_killed_training_goes_on_to_the_bit(name, city, tmp_path, monkeypatch):
    cfg = config_of(**LARGER[name])
    cfg["model_params"] |= {"kinematic_residual": "ctra"}
    train(cfg, tmp_path / "whole", data_folder=city)
    monkeypatch.setattr(sys.modules[NAME].Killing, "stop_at", 5)
    with pytest.raises(RuntimeError, match="killed"):
        train(cfg, tmp_path / "killed", data_folder=city)
    monkeypatch.setattr(sys.modules[NAME].Killing, "stop_at", None)
    assert read_resume_point(tmp_path / "killed" / "last.ckpt").step == 4
    train(cfg, tmp_path / "killed", data_folder=city, resume=True)
    whole, resumed = files_of(tmp_path / "whole"), files_of(tmp_path / "killed")
    assert whole.keys() == resumed.keys()
    for file, weights in whole.items():
        assert all(torch.equal(value, resumed[file][key]) for key, value in weights.items()), file
        assert {key.removeprefix("residual.") for key in weights} == NAMES, file


def test_a_model_is_compiled_as_one_graph_in_each_mode(city, tmp_path):
    cfg = config_of(compile=True, compile_backend="eager", max_num_steps=2, callbacks=[])
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    train(cfg, tmp_path / "out", data_folder=city)
    counted = torch._dynamo.utils.counters
    assert counted["frames"]["ok"] == counted["frames"]["total"] > 1
    assert not counted["graph_break"]


def test_two_batches_of_four_are_one_of_eight(city, tmp_path):
    plain = {"optimizer": "SGD", "callbacks": [], "max_num_steps": 3, "learning_rate": 0.1}
    calm = {"init_args": {"dropout": 0.0}}
    whole = train(config_of(model=calm, **plain), tmp_path / "whole", data_folder=city)
    halves = config_of(model=calm, batch_size=4, accumulate_grad_batches=2, **plain)
    halves = train(halves, tmp_path / "halves", data_folder=city)
    one, other = (read_checkpoint(result.weights).state_dict for result in (whole, halves))
    for key, value in one.items():
        torch.testing.assert_close(other[key], value, rtol=1e-4, atol=1e-5)


def test_files_have_the_averages_of_a_model_and_of_its_loss(city, tmp_path):
    cfg = config_of(max_num_steps=1, ema_decay=0.9, callbacks=[], model={"init_args": {"dropout": 0.0}})
    result = train(cfg, tmp_path / "out", data_folder=city)
    last = StateFiles().load_checkpoint(tmp_path / "out" / "last.ckpt")["state_dict"]
    averaged = read_checkpoint(result.weights).state_dict["loss.log_scale"]
    # from 0, by the sign of the gradient times the rate; the average takes 1 - min(0.9, 2/11) of it
    assert last["model.loss.log_scale"].abs().item() == pytest.approx(0.01)
    assert averaged.item() == pytest.approx(last["model.loss.log_scale"].item() * 9 / 11)


def train_on_two(folder, cfg, city, *options):
    """Train with the command, which starts its second process itself; returns its output."""
    config = folder.with_suffix(".yaml")
    save_config_data(cfg, str(config))
    call = [sys.executable, "-m", "l5kit.cli", "train", config, "--data", city, "--out", folder, "--json", *options]
    paths = os.pathsep.join([str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*map(str, call)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.process
@pytest.mark.long
def test_two_devices_with_parts_of_a_model_train_what_two_with_all_of_it_do(city, tmp_path):
    calm = {"init_args": {"dropout": 0.0}}
    both = {"devices": 2, "accumulate_grad_batches": 2, "callbacks": [], "checkpoint_every_n_steps": 1, "save_top_k": 1}
    whole = train_on_two(tmp_path / "whole", config_of(model=calm, max_num_steps=3, **both), city)
    parts = {**both, "strategy": "fsdp"}
    train_on_two(tmp_path / "parts", config_of(model=calm, max_num_steps=2, **parts), city)
    assert read_resume_point(tmp_path / "parts" / "last.ckpt").step == 2
    told = train_on_two(tmp_path / "parts", config_of(model=calm, max_num_steps=3, **parts), city, "--resume")
    assert told["steps"] == whole["steps"] == 3
    assert told["val/ade_m/0.4s"] == pytest.approx(whole["val/ade_m/0.4s"], rel=1e-3)
    one, other = (files_of(tmp_path / name)["vector_planner.safetensors"] for name in ("whole", "parts"))
    assert one.keys() == other.keys() == NAMES
    for key, value in one.items():
        torch.testing.assert_close(other[key], value, rtol=0, atol=1e-4)
    assert not torch.equal(one["model.layers.3.bias"], torch.zeros_like(one["model.layers.3.bias"]))
    model = l5kit.load_model(tmp_path / "parts", device="cpu")
    positions = model.predict({"history_positions": torch.zeros(3, 2, 2)})["positions"]
    assert positions.shape == (3, 4, 2)


def test_weights_that_cannot_be_parted_are_told_before_anything_is_written(city, tmp_path):
    cfg = config_of(strategy="fsdp", callbacks=[])
    cfg["model_params"]["loss"] = {"class_path": f"{NAME}.Error", "init_args": {"shape": []}}
    says = r"strategy: 'fsdp' cannot shard weights without axes, here loss\.log_scale; give them the shape \(1,\)"
    with pytest.raises(ConfigError, match=says):
        train(cfg, tmp_path / "out", data_folder=city)
    assert list((tmp_path / "out").iterdir()) == []
