"""Models of users: trained, resumed, loaded and described; errors of their outputs are reported."""

import sys

import pytest
import torch

import l5kit
from l5kit.errors import ConfigError
from l5kit.openloop.setup import OpenLoopOptions, set_up
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training import train
from l5kit.workflows.checkpoint_description import describe_checkpoint, mismatch_with_config
from l5kit.workflows.drivers import load_driver
from l5kit.workflows.trained_network import configuration_of
from l5kit.workflows.workflow import TrainingConfig
from support.models import one_thread
from support.networks import save_network
from support.workflows import small_config

__all__ = ["one_thread"]
pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

NAME = "own_models_of_test"
CODE = """
import torch

class Planner(torch.nn.Module):
    def __init__(self, future_num_frames, fault=""):
        super().__init__()
        self.fault, self.num_steps = fault, future_num_frames
        self.ahead = torch.nn.Parameter(torch.zeros(future_num_frames, 2))
        if fault == "constructor":
            raise OSError("no weights here")

    def forward(self, batch):
        num = len(batch["history_positions"])
        positions = self.ahead.expand(num, -1, -1)
        if self.training:
            if self.fault == "loss":
                return {"lost": positions.sum()}
            if self.fault == "nan":
                return {"loss": positions.sum() / 0}
            if self.fault == "constant":
                return {"loss": torch.tensor(1.0)}
            return {"loss": (positions - batch["target_positions"]).abs().mean()}
        if self.fault == "future":
            batch["target_positions"]
        if self.fault == "shape":
            positions = positions[:, 1:]
        if self.fault == "type":
            positions = positions.int()
        outputs = {"positions": positions, "yaws": torch.zeros(num, self.num_steps, 1)}
        return {"positions": positions} if self.fault == "key" else outputs

class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, outputs, targets):
        return self.weight * (outputs - targets).abs()
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def config_of(*, fault="", **train_params):
    model = {"class_path": f"{NAME}.Planner", "init_args": {"fault": fault}}
    return small_config("vector_planner", model_params={"model": model}, train_params=train_params)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("constructor", r".*Planner cannot be made: OSError: no weights here, at .*own_models_of_test\.py:\d"),
        ("loss", "expected a dict of losses with 'loss', got .'lost'"),
        ("nan", "'loss' is nan on the first and the last sample"),
        ("constant", "'loss' does not depend on weights"),
        ("future", "fails in eval mode: KeyError: 'target_positions'.*nothing of the future"),
        ("shape", r"'positions' must be \(B, T, 2\), here \(2, 4, 2\), got \(2, 3, 2\)"),
        ("type", "'positions' must be a floating-point tensor, got torch.int32"),
        ("key", "lacks yaws; it gives positions"),
    ],
)
def test_a_wrong_model_is_told_before_anything_is_written(fault, says, city, tmp_path):
    with pytest.raises(ConfigError, match=f"^model_params.model.*{says}"):
        train(config_of(fault=fault), tmp_path / "out", data_folder=city)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_training_of_a_model_goes_on_to_the_bit_and_its_file_is_told_without_importing_it(city, tmp_path):
    short = config_of(max_num_steps=2, checkpoint_every_n_steps=2, accelerator="cpu")
    whole = config_of(max_num_steps=4, checkpoint_every_n_steps=2, accelerator="cpu")
    one = train(whole, tmp_path / "whole", data_folder=city)
    train(short, tmp_path / "two", data_folder=city)
    other = train(whole, tmp_path / "two", data_folder=city, resume=True)
    weights = read_checkpoint(one.weights).state_dict
    assert torch.equal(weights["model.ahead"], read_checkpoint(other.weights).state_dict["model.ahead"])

    predicted = l5kit.load_model(one.weights, device="cpu").predict({"history_positions": torch.zeros(3, 2, 2)})
    assert (predicted["positions"] == weights["model.ahead"].numpy()).all()

    del sys.modules[NAME]
    description = describe_checkpoint(one.weights)
    assert (description.model_class, description.architecture) == (f"{NAME}.Planner", None)
    TrainingConfig.from_cfg(whole)
    with pytest.raises(ConfigError, match="which is not imported to look at a file"):
        mismatch_with_config(description, whole)
    assert NAME not in sys.modules


def test_workflows_that_are_their_networks_take_no_model():
    cfg = small_config("urban_driver", model_params={"model": "a.B"})
    with pytest.raises(ConfigError, match="use workflow vector_planner, which has the same samples"):
        TrainingConfig.from_cfg(cfg)


@pytest.mark.parametrize(
    "model_params",
    [
        {"criterion": {"class_path": f"{NAME}.Weighted"}},
        {"model": f"{NAME}.Planner", "loss": {"class_path": f"{NAME}_losses.Weighted"}},
    ],
)
def test_predictions_run_no_code_of_a_loss(model_params, city, tmp_path):
    losses = tmp_path / f"{NAME}_losses.py"
    losses.write_text(CODE)
    file = save_network("vector_planner", city, tmp_path, model_params=model_params)
    # now the module of the loss ends whoever imports it
    of_loss = losses if "loss" in model_params else tmp_path / f"{NAME}.py"
    sys.modules.pop(of_loss.stem)
    of_loss.write_text("raise SystemExit(0)\n")
    driver = load_driver(file, whom="ego", data_folder=city)
    setup = set_up(file, configuration_of(file), data_folder=city, options=OpenLoopOptions(max_samples=2))
    kept = read_checkpoint(file).state_dict
    for network in (driver.model, setup.model):
        loaded = network.state_dict()
        assert loaded
        assert all(torch.equal(value, kept[name]) for name, value in loaded.items())
    assert len(kept) - len(loaded) == 1
    with pytest.raises(ConfigError, match="cannot be imported"):
        l5kit.load_model(file)
