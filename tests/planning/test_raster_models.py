"""The planning models that look at rasters."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.model import PlanningModel
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.rasterized.multimodal_model import RasterizedMultiModalPlanningModel
from support.models import copied, raster_batch, set_weights
from support.tolerances import NETWORK

WEIGHTS = [1.0, 1.0, 2.0]


def mse():
    return nn.MSELoss(reduction="none")


def unimodal(**options):
    return set_weights(RasterizedPlanningModel("simple_cnn", 5, 12, WEIGHTS, mse(), False, **options))


def multimodal(num_modes=3, **options):
    model = RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3, num_modes, WEIGHTS, mse(), False, 0.5, **options)
    return set_weights(model)


SIMPLE_CNN_TABLE = {
    "weights_scaling": (3,),
    "model.0.weight": (64, 5, 7, 7),
    "model.1.weight": (64,),
    "model.1.bias": (64,),
    "model.4.weight": (32, 64, 7, 7),
    "model.5.weight": (32,),
    "model.5.bias": (32,),
    "model.9.weight": (36, 1568),
    "model.9.bias": (36,),
}


def test_state_dict_of_the_small_model():
    state = RasterizedPlanningModel("simple_cnn", 5, 36, WEIGHTS, None, False).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == SIMPLE_CNN_TABLE
    assert list(state) == list(SIMPLE_CNN_TABLE)
    assert torch.equal(state["weights_scaling"], torch.tensor(WEIGHTS))


@pytest.mark.parametrize(
    ("model_arch", "num_parameters"), [("resnet50", 23_588_068), ("resnet18", 11_201_252), ("simple_cnn", 172_708)]
)
def test_number_of_parameters(model_arch, num_parameters):
    with torch.device("meta"):
        model = RasterizedPlanningModel(model_arch, 5, 36, WEIGHTS, None, False)
    assert sum(parameter.numel() for parameter in model.parameters()) == num_parameters


def test_number_of_parameters_with_modes():
    model = RasterizedMultiModalPlanningModel("simple_cnn", 5, 12, 3, 4, WEIGHTS, None, False)
    assert sum(parameter.numel() for parameter in model.parameters()) == 348_436
    assert (model.num_modes, model.num_timestamps, model.num_outputs, model.num_targets) == (4, 12, 3, 148)


def test_numbers_of_1_5():
    model, batch = unimodal(), raster_batch()
    assert model.train()(copied(batch))["loss"].item() == pytest.approx(1.226718, rel=NETWORK)
    outputs = model.eval()(batch)
    assert outputs["positions"].sum().item() == pytest.approx(-1.974803, rel=NETWORK)
    assert outputs["positions"].abs().sum().item() == pytest.approx(10.529209, rel=NETWORK)
    assert outputs["positions"][0, 0].tolist() == pytest.approx([0.549612, -1.372210], rel=NETWORK)
    assert outputs["yaws"].sum().item() == pytest.approx(-1.777945, rel=NETWORK)


def test_numbers_of_1_5_with_modes():
    model, batch = multimodal(), raster_batch()
    assert model.train()(copied(batch))["loss"].item() == pytest.approx(2.443674, rel=NETWORK)
    outputs = model.eval()(batch)
    assert outputs["positions"].sum().item() == pytest.approx(-0.364982, rel=NETWORK)
    assert outputs["positions"].abs().sum().item() == pytest.approx(17.336042, rel=NETWORK)
    assert outputs["positions"][0, 0].tolist() == pytest.approx([1.741103, -0.358551], rel=NETWORK)
    assert outputs["positions_all"].sum().item() == pytest.approx(-8.019353, rel=NETWORK)
    assert outputs["yaws_all"].sum().item() == pytest.approx(-6.861872, rel=NETWORK)


class Fixed(nn.Module):
    """A network that always gives the same values."""

    def __init__(self, values):
        super().__init__()
        self.values = torch.tensor([values])

    def forward(self, image):
        return self.values.expand(len(image), -1)


def two_steps(values, *, model=None, **changes):
    """A model of two steps with fixed outputs, and a batch of one sample whose targets are zeros."""
    model = model or RasterizedPlanningModel("simple_cnn", 5, 6, [1.0, 1.0, 1.0], mse(), False)
    model.model = Fixed(values)
    batch = {
        "image": torch.zeros(1, 5, 112, 112),
        "target_positions": torch.zeros(1, 2, 2),
        "target_yaws": torch.zeros(1, 2, 1),
        "target_availabilities": torch.ones(1, 2, dtype=torch.bool),
    }
    return model, batch | changes


def test_outputs_are_read_step_by_step():
    model, batch = two_steps([1.0, 2.0, 0.1, 3.0, 4.0, 0.2])
    outputs = model.eval()(batch)
    assert outputs["positions"].tolist() == [[[1.0, 2.0], [3.0, 4.0]]]
    assert outputs["yaws"].flatten().tolist() == pytest.approx([0.1, 0.2])


@pytest.mark.parametrize(
    ("average_available_only", "loss"),
    [
        pytest.param(False, (1 + 4 + 9) / 6, id="over all, as in 1.5"),
        pytest.param(True, (1 + 4 + 9) / 3, id="over available steps"),
    ],
)
def test_p8_what_the_loss_is_averaged_over(average_available_only, loss):
    model = RasterizedPlanningModel(
        "simple_cnn", 5, 6, [1.0, 1.0, 1.0], mse(), False, average_available_only=average_available_only
    )
    model, batch = two_steps([1.0, 2.0, 3.0, 9.0, 9.0, 9.0], model=model)
    batch["target_availabilities"] = torch.tensor([[True, False]])
    assert model(batch)["loss"].item() == pytest.approx(loss)


def test_p8_a_batch_without_targets_has_loss_0():
    model, batch = unimodal(average_available_only=True), raster_batch()
    batch["target_availabilities"] = torch.zeros(2, 4)
    assert model(batch)["loss"].item() == 0


def test_weights_scaling_weighs_x_y_and_yaw():
    model = RasterizedPlanningModel("simple_cnn", 5, 6, [1.0, 10.0, 100.0], mse(), False)
    model, batch = two_steps([1.0] * 6, model=model)
    assert model(batch)["loss"].item() == pytest.approx(111 / 3)


@pytest.mark.parametrize(
    ("average_available_only", "errors"), [(False, (1 + 4 + 9) / 6), (True, (1 + 4 + 9) / 3)], ids=["1.5", "available"]
)
def test_the_nearest_mode_is_trained(average_available_only, errors):
    model = RasterizedMultiModalPlanningModel(
        "simple_cnn", 5, 2, 3, 2, [1.0] * 3, mse(), False, 0.5, average_available_only=average_available_only
    )
    far, near = [5.0] * 6, [1.0, 2.0, 3.0, 9.0, 9.0, 9.0]
    model, batch = two_steps([*far, *near, 0.0, 0.0], model=model)
    batch["target_availabilities"] = torch.tensor([[True, False]])
    expected = errors + 0.5 * torch.log(torch.tensor(2.0)).item()  # two modes that are thought equally likely
    assert model(batch)["loss"].item() == pytest.approx(expected)


def test_p9_the_probabilities_of_the_modes_are_returned():
    model = RasterizedMultiModalPlanningModel("simple_cnn", 5, 2, 3, 2, [1.0] * 3, mse(), False)
    first, second = [1.0] * 6, [2.0] * 6
    model, batch = two_steps([*first, *second, 0.3, 0.7], model=model)
    outputs = model.eval()(batch)
    assert outputs["mode_logits"].tolist() == [pytest.approx([0.3, 0.7])]
    assert outputs["positions"].tolist() == [[[2.0, 2.0], [2.0, 2.0]]]  # of the likelier mode
    assert outputs["positions_all"][0, 0].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_one_mode_is_the_mode():
    outputs = multimodal(num_modes=1).eval()(raster_batch())
    assert torch.equal(outputs["positions"], outputs["positions_all"][:, 0])


@pytest.mark.parametrize("make", [unimodal, multimodal], ids=["one", "modes"])
def test_rasters_of_bytes_are_the_same_rasters(make):
    model, batch = make().eval(), raster_batch()
    batch["image"] = (batch["image"] * 255).round().to(torch.uint8)
    as_floats = {**batch, "image": batch["image"].float() / 255}
    assert torch.equal(model(batch)["positions"], model(as_floats)["positions"])


@pytest.mark.parametrize("num_targets", [0, 1, 35])
def test_targets_that_are_no_steps(num_targets):
    with pytest.raises(InvalidArgumentError, match=f"num_targets is {num_targets}"):
        RasterizedPlanningModel("simple_cnn", 5, num_targets, WEIGHTS, None, False)


@pytest.mark.parametrize(("steps", "outputs", "modes"), [(0, 3, 3), (4, 2, 3), (4, 3, 0)])
def test_counts_that_make_no_modes(steps, outputs, modes):
    with pytest.raises(InvalidArgumentError, match="at least one step and one mode"):
        RasterizedMultiModalPlanningModel("simple_cnn", 5, steps, outputs, modes, WEIGHTS, None, False)


def test_weights_for_other_than_three_values():
    with pytest.raises(InvalidArgumentError, match="weights_scaling"):
        RasterizedPlanningModel("simple_cnn", 5, 12, [1.0, 1.0], None, False)


@pytest.mark.parametrize("make", [RasterizedPlanningModel, PlanningModel])
def test_an_architecture_that_does_not_exist(make):
    with pytest.raises(NotImplementedError, match=r"resnet101.*resnet18.*simple_cnn"):
        make("resnet101", 5, 12, WEIGHTS, None, False)


@pytest.mark.parametrize("model_arch", [None, 50, ["resnet50"], {}], ids=repr)
def test_an_architecture_that_is_no_text_does_not_exist_either(model_arch):
    with pytest.raises(NotImplementedError, match=r"model_arch .* does not exist"):
        RasterizedPlanningModel(model_arch, 5, 12, WEIGHTS, None, False)


def test_the_name_of_1_4_is_the_raster_planning_model():
    assert PlanningModel is RasterizedPlanningModel
    assert issubclass(RasterizedMultiModalPlanningModel, PlanningModel)


def test_a_resnet_learns_and_predicts():
    torch.manual_seed(0)
    model = RasterizedPlanningModel("resnet18", 5, 12, WEIGHTS, mse(), False)
    batch = raster_batch()
    batch["image"] = batch["image"][:, :, :64, :48]  # any size, and not square
    model(batch)["loss"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.eval()(batch)["positions"].shape == (2, 4, 2)


@pytest.mark.process
def test_n2_planning_needs_no_gym():
    source = (
        "import sys; sys.modules['gym'] = sys.modules['gymnasium'] = sys.modules['torchvision'] = None;"
        "import l5kit.planning.rasterized.model as m;"
        "m.RasterizedPlanningModel('simple_cnn', 5, 12, [1, 1, 1], None, False);"
        "assert 'l5kit.environment' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
