"""The baseline of the competition."""

import pytest
import torch

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import neg_multi_log_likelihood
from l5kit.prediction.rasterized.motion_model import RasterizedMotionModel
from support.tolerances import FLOAT32, FLOAT32_LONG

NUM_STEPS = 5


def batch(size=3):
    torch.manual_seed(0)
    return {
        "image": torch.rand(size, 4, 32, 40),
        "target_positions": torch.randn(size, NUM_STEPS, 2),
        "target_availabilities": (torch.rand(size, NUM_STEPS) > 0.4).float(),
    }


def model(num_modes):
    torch.manual_seed(1)
    network = RasterizedMotionModel("resnet18", 4, NUM_STEPS, num_modes=num_modes, pretrained=False)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # the same in train and eval mode
            module.momentum = 1.0
            module.eval()
    return network


def losses_and_predictions(num_modes, data):
    network = model(num_modes)
    network.training = True
    loss = network(data)["loss"]
    network.eval()
    return loss, network(data)


def test_one_mode_is_trained_by_the_mean_squared_error():
    data = batch()
    loss, predicted = losses_and_predictions(1, data)
    errors = (predicted["positions"] - data["target_positions"]).square() * data["target_availabilities"][..., None]
    assert loss.item() == pytest.approx(errors.mean().item(), rel=FLOAT32_LONG)
    assert predicted["positions"].shape == (3, NUM_STEPS, 2)
    assert torch.equal(predicted["positions_all"][:, 0], predicted["positions"])


def test_one_mode_with_another_criterion():
    data, network = batch(), model(1)
    network.criterion = torch.nn.L1Loss(reduction="none")
    network.training = True
    loss = network(data)["loss"]
    errors = network.eval()(data)["positions"] - data["target_positions"]
    assert loss.item() == pytest.approx((errors.abs() * data["target_availabilities"][..., None]).mean().item())


def test_several_modes_with_another_criterion_have_the_likelihood_of_its_mixture():
    data, network = batch(), model(3)
    network.criterion, network.error_weight = torch.nn.L1Loss(reduction="none"), 1.0
    network.training = True
    loss = network(data)["loss"]
    predicted = network.eval()(data)
    errors = (predicted["positions_all"] - data["target_positions"][:, None]).abs()
    densities = (-(errors * data["target_availabilities"][:, None, :, None]).sum(dim=(-2, -1))).exp()
    likelihoods = (predicted["mode_logits"].softmax(dim=-1) * densities).sum(dim=-1)
    assert loss.item() == pytest.approx(-likelihoods.log().mean().item(), rel=FLOAT32_LONG)


@pytest.mark.parametrize(
    ("num_modes", "criterion", "weight"),
    [(1, None, 1.0), (3, None, 0.5), (1, torch.nn.L1Loss(), 1.0), (3, torch.nn.L1Loss(), 1.0)],
)
def test_only_the_likelihood_of_the_competition_halves_its_errors(num_modes, criterion, weight):
    arguments = {"num_modes": num_modes, "pretrained": False, "criterion": criterion}
    assert RasterizedMotionModel("simple_cnn", 4, 5, **arguments).error_weight == weight


def test_several_modes_are_trained_by_the_likelihood_of_the_competition():
    data = batch()
    loss, predicted = losses_and_predictions(3, data)
    expected = neg_multi_log_likelihood(
        data["target_positions"],
        predicted["positions_all"],
        predicted["mode_logits"].softmax(dim=-1),
        data["target_availabilities"],
    )
    assert loss.item() == pytest.approx(expected.mean().item(), rel=FLOAT32_LONG)
    likeliest = predicted["mode_logits"].argmax(dim=-1)
    for row in range(3):
        assert torch.equal(predicted["positions"][row], predicted["positions_all"][row, likeliest[row]])


@pytest.mark.parametrize("num_modes", [1, 3])
def test_without_targets_the_loss_has_no_part_of_the_positions(num_modes):
    data = batch() | {"target_availabilities": torch.zeros(3, NUM_STEPS, dtype=torch.bool)}
    loss, _ = losses_and_predictions(num_modes, data)
    assert loss.item() == pytest.approx(0.0, abs=FLOAT32)


def test_far_targets_have_finite_gradients():
    data = batch() | {"target_positions": torch.full((3, NUM_STEPS, 2), 1e3)}
    network = model(3).train()
    network(data)["loss"].backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


@pytest.mark.parametrize("counts", [(0, 1), (5, 0)])
def test_there_is_at_least_one_of_each(counts):
    with pytest.raises(InvalidArgumentError, match="at least one"):
        RasterizedMotionModel("resnet18", 4, counts[0], num_modes=counts[1], pretrained=False)
