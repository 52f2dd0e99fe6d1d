"""Networks that predict differences to a kinematic baseline."""

import math

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.horizon_scores import baseline_positions
from l5kit.kinematic.baselines import BASELINES
from l5kit.planning.kinematic_residual import KinematicResidual
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from support.models import copied, raster_batch, signal, vector_batch
from support.tolerances import FLOAT32_LONG

NUM_STEPS = 4
KEYS = {
    False: ("target_positions", "positions", "positions_all"),
    True: ("all_other_agents_future_positions", "agent_positions", "all_agent_positions"),
}
ignore_jit = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")


class Parrot(nn.Module):
    """Predicts the last training targets in two modes; before training, the current positions."""

    def __init__(self, of_all_agents):
        super().__init__()
        self.target_key, self.likeliest_key, self.all_key = KEYS[of_all_agents]
        self.learned = None

    def forward(self, batch):
        if self.training:
            self.learned = batch[self.target_key]
            return {"loss": self.learned.sum()}
        return {self.likeliest_key: self.learned, self.all_key: torch.stack((self.learned, self.learned), dim=-3)}


def make_batch():
    """A batch with the pasts of the agent of interest, at the origin, and of other agents."""
    positions = signal((2, 4, 2), 20, 5)
    positions[:, 0] = 0
    yaws = signal((2, 4, 1), 3, 7)
    return vector_batch() | {
        "history_positions": positions,
        "history_yaws": yaws,
        "history_availabilities": torch.ones(2, 4),
    }


def wrap(model, *, of_all_agents=False, baseline="constant_velocity", unit_m=None):
    times = {"step_time_s": 0.2, "past_step_time_s": 0.1}
    return KinematicResidual(model, NUM_STEPS, baseline=baseline, **times, of_all_agents=of_all_agents, unit_m=unit_m)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("of_all_agents", [False, True])
def test_what_is_learned_is_what_is_predicted(of_all_agents, baseline):
    batch = make_batch()
    target_key, likeliest_key, all_key = KEYS[of_all_agents]
    wrapped = wrap(Parrot(of_all_agents), of_all_agents=of_all_agents, baseline=baseline)
    before = copied(batch)
    wrapped.train()(batch)
    outputs = wrapped.eval()(batch)
    torch.testing.assert_close(outputs[likeliest_key], before[target_key], rtol=FLOAT32_LONG, atol=FLOAT32_LONG)
    torch.testing.assert_close(
        outputs[all_key][:, ..., 1, :, :], before[target_key], rtol=FLOAT32_LONG, atol=FLOAT32_LONG
    )
    assert all(torch.equal(batch[key], value) for key, value in before.items())


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_network_that_learned_nothing_does_as_the_baseline(baseline):
    batch = make_batch()
    model = Parrot(of_all_agents=False)
    model.learned = torch.zeros(2, NUM_STEPS, 2)
    positions = wrap(model, baseline=baseline).eval()(batch)["positions"]
    times = {"step_time_s": 0.2, "past_step_time_s": 0.1}
    expected = baseline_positions(batch, baseline, num_steps=NUM_STEPS, **times)
    torch.testing.assert_close(positions, expected)


def test_units_grow_with_time_and_with_the_way():
    batch = make_batch()
    batch["history_positions"][0] = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]])  # 10 m/s
    batch["history_positions"][1] = 0
    model = Parrot(of_all_agents=False)
    model.learned = torch.ones(2, NUM_STEPS, 2)
    positions = wrap(model).eval()(batch)["positions"]
    fast, standing = positions[0, :, 1], positions[1, :, 1]  # to the left, where constant velocity does not lead
    assert standing.tolist() == pytest.approx([0.125, 0.25, 0.375, 0.5])
    assert fast.tolist() == pytest.approx([0.325, 0.65, 0.975, 1.3])  # 0.5 m and a tenth of 8 m at the last step


def test_a_unit_of_its_own_is_that_of_everybody():
    batch = make_batch()
    batch["history_positions"][0] = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]])  # 10 m/s
    batch["history_positions"][1] = 0
    model = Parrot(of_all_agents=False)
    model.learned = torch.ones(2, NUM_STEPS, 2)
    positions = wrap(model, unit_m=2.0).eval()(batch)["positions"]
    assert positions[0, :, 1].tolist() == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert positions[1, :, 1].tolist() == pytest.approx([0.5, 1.0, 1.5, 2.0])


@pytest.mark.parametrize("unit_m", [0.0, -1.0, math.nan])
def test_units_are_above_0(unit_m):
    with pytest.raises(InvalidArgumentError, match="unit_m"):
        wrap(Parrot(of_all_agents=False), unit_m=unit_m)


def test_a_new_network_is_near_the_baseline():
    torch.manual_seed(0)
    batch = make_batch() | raster_batch()
    model = RasterizedPlanningModel("simple_cnn", 5, 3 * NUM_STEPS, [1.0] * 3, None, False)
    positions = wrap(model, baseline="ctra", unit_m=1.0).eval()(batch)["positions"]
    expected = baseline_positions(batch, "ctra", num_steps=NUM_STEPS, step_time_s=0.2, past_step_time_s=0.1)
    assert (positions - expected).abs().max() < 0.05


def test_agents_that_safepathnet_leaves_out():
    model = SafePathNetModel(3, 3, NUM_STEPS, [1.0] * 3, None, False, False, False, 2, 2, 0.25, position_scale_m=5.0)
    outputs = wrap(model, of_all_agents=True).eval()(make_batch())
    assert outputs["agent_positions"].shape == (2, 2, NUM_STEPS, 2)
    assert outputs["all_agent_positions"].shape == (2, 2, 2, NUM_STEPS, 2)


@pytest.mark.slow
@ignore_jit
@pytest.mark.parametrize("of_all_agents", [False, True])
def test_scripted(of_all_agents):
    if of_all_agents:
        model, batch = SafePathNetModel(3, 3, NUM_STEPS, [1.0] * 3, None, False, False, False, 2, 3, 0.25), make_batch()
    else:
        model = RasterizedPlanningModel("simple_cnn", 5, 3 * NUM_STEPS, [1.0] * 3, None, False)
        batch = raster_batch() | {key: value for key, value in make_batch().items() if key.startswith("history")}
    wrapped = wrap(model, of_all_agents=of_all_agents, baseline="ctra").eval()
    batch = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    expected = wrapped(batch)
    outputs = torch.jit.script(wrapped)(batch)
    for key, value in expected.items():
        torch.testing.assert_close(outputs[key], value)


def test_loss_reaches_the_network():
    model = RasterizedPlanningModel("simple_cnn", 5, 3 * NUM_STEPS, [1.0] * 3, nn.L1Loss(reduction="none"), False)
    batch = raster_batch() | {key: make_batch()[key] for key in ("history_positions", "history_availabilities")}
    loss = wrap(model).train()(batch)["loss"]
    loss.backward()
    assert math.isfinite(loss.item())
    assert model.model[-1].weight.grad.abs().max() > 0
