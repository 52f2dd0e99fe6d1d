"""The vector planning model that is trained by driving."""

import math

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import baseline_displacements, fit_motion
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.common import build_matrix
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from support.models import copied, set_weights, vector_batch
from support.tolerances import FLOAT32, FLOAT32_LONG, NETWORK

FUTURES = ("target_positions", "target_yaws", "target_availabilities") + tuple(
    f"all_other_agents_future_{name}" for name in ("positions", "yaws", "availability")
)


def make(
    *,
    no_boundaries=False,
    detach=True,
    warmup=1,
    discount=0.8,
    limit_yaw=True,
    history=(1, 3),
    criterion=None,
    **options,
):
    return VectorizedUnrollModel(
        *history,
        12,
        [1.0, 1.0, 1.0],
        criterion or nn.L1Loss(reduction="none"),
        0.0,
        False,
        False,
        no_boundaries,
        detach,
        warmup,
        discount,
        limit_yaw,
        **options,
    )


NUMBERS = {
    "detached": (
        {},
        3.821995,
        35.013207,
        42.850504,
        [1.831725, -0.01306, 3.903901, -0.233061],
        -1.751894,
        [-0.101755, -0.191323],
    ),
    "no boundaries": (
        {"no_boundaries": True},
        3.630929,
        31.937572,
        39.054472,
        [1.572265, -0.01405],
        -1.681793,
        [-0.102392],
    ),
    "through time": (
        {"no_boundaries": True, "detach": False, "warmup": 0, "discount": 1.0, "limit_yaw": False},
        8.050197,
        21.639689,
        41.817818,
        [1.572265, -0.01405, 3.337481, -0.673399],
        -5.399050,
        [-0.355571],
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_1_5(case):
    options, loss, total, size, first, yaws, first_yaws = NUMBERS[case]
    model, batch = set_weights(make(**options)), vector_batch()
    assert model.train()(copied(batch))["loss"].item() == pytest.approx(loss, rel=NETWORK)
    outputs = model.eval()(batch)
    assert outputs["positions"].sum().item() == pytest.approx(total, rel=NETWORK)
    assert outputs["positions"].abs().sum().item() == pytest.approx(size, rel=NETWORK)
    assert outputs["positions"].flatten()[: len(first)].tolist() == pytest.approx(first, rel=NETWORK)
    assert outputs["yaws"].sum().item() == pytest.approx(yaws, rel=NETWORK)
    assert outputs["yaws"].flatten()[: len(first_yaws)].tolist() == pytest.approx(first_yaws, rel=NETWORK)


def test_attention_of_1_5():
    attention = set_weights(make()).eval()(vector_batch())["attention_weights"]
    expected = [0.124798, 0.099203, 0.106265, 0, 0.091733, 0.089060]
    assert attention[0, 0, :6].tolist() == pytest.approx(expected, abs=2e-6)
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(2, 4))


def test_p3_state_dict_is_that_of_one_step_whatever_the_targets():
    state = make().state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    expected = {name: tuple(value.shape) for name, value in one_step_model().state_dict().items()}
    assert shapes == expected
    assert list(state) == list(expected)
    assert shapes["xy_scale"] == (1, 2)
    assert shapes["global_head.output_embed.layers.2.weight"] == (3, 1024)
    assert sum(parameter.numel() for parameter in make().parameters()) == 2_175_491


def one_step_model():
    return VectorizedModel(1, 3, 3, [1.0] * 3, None, 0.0, False, False, False)


class Driver(VectorizedUnrollModel):
    """A model whose steps are given: x and y in metres, and a turn, for each item of the batch."""

    def __init__(self, actions, **options):
        defaults = {
            "detach_unroll": False,
            "warmup_num_frames": 0,
            "discount_factor": 1.0,
            "limit_predicted_yaw": False,
        }
        criterion = nn.L1Loss(reduction="none")
        arguments = (3, 3, 12, [1.0, 1.0, 1.0], criterion, 0.0, False, False, False)
        super().__init__(*arguments, **(defaults | options))
        self.actions = actions  # (steps, B, 3)
        self.seen = []

    def model_call(self, agents_polys, static_polys, agents_avail, static_avail, type_embedding, lane_bdry_len):
        action = self.actions[len(self.seen)]
        self.seen.append((agents_polys, static_polys, agents_avail))
        num_elements = agents_polys.shape[1] + static_polys.shape[1]
        outputs = torch.cat((action[:, :2] / self.xy_scale[0], action[:, 2:]), dim=1)
        return outputs.unsqueeze(1), torch.ones(len(action), 1, num_elements) / num_elements


def same_actions(x, y, yaw, steps=4):
    return torch.tensor([x, y, yaw]).expand(steps, 2, 3)


def test_steps_straight_ahead():
    outputs = Driver(same_actions(2.0, 0.0, 0.0)).eval()(vector_batch())
    torch.testing.assert_close(outputs["positions"][0], torch.tensor([[2.0, 0], [4, 0], [6, 0], [8, 0]]))
    assert not outputs["yaws"].any()


@pytest.mark.parametrize(("step_m", "turn"), [(2.0, 0.0), (1.5, 0.2), (0.0, 0.0)])
def test_a_driver_that_changes_nothing_goes_on_as_before(step_m, turn):
    """At a constant speed and turn rate, so that its way is a line or a circle."""
    batch, angles = vector_batch(), torch.arange(0, -4, -1) * turn
    middles = torch.arange(-0.5, -3, -1) * turn  # headings of the chords between the past poses
    chords = step_m * torch.stack((torch.cos(middles), torch.sin(middles)), dim=-1)
    past = torch.cat((torch.zeros(1, 2), -chords.cumsum(dim=0)))
    batch["agent_trajectory_polyline"][:] = torch.cat((past, angles[:, None]), dim=-1)
    outputs = Driver(same_actions(0.0, 0.0, 0.0), velocity_residual=True).eval()(batch)
    ahead = torch.arange(0.5, 4, 1) * turn
    way = (step_m * torch.stack((torch.cos(ahead), torch.sin(ahead)), dim=-1)).cumsum(dim=0)
    torch.testing.assert_close(outputs["positions"], way.expand(2, 4, 2), atol=FLOAT32_LONG, rtol=0)
    torch.testing.assert_close(outputs["yaws"][0, :, 0], torch.arange(1, 5) * turn, atol=FLOAT32, rtol=0)


@pytest.mark.parametrize("baseline", ["ctrv", "ctra"])
def test_a_driver_that_changes_nothing_goes_the_way_of_its_baseline(baseline):
    batch = vector_batch()
    past, known = batch["agent_trajectory_polyline"], batch["agent_polyline_availability"]
    past[:] = torch.tensor([[0.0, 0.0, 0.0], [-1.0, 0.02, -0.05], [-1.8, 0.08, -0.1], [-2.4, 0.15, -0.14]])
    known[:] = True
    driver = Driver(same_actions(0.0, 0.0, 0.0), motion_residual=baseline, past_step_time_s=0.2, step_time_s=0.1)
    displacements = baseline_displacements(
        baseline, past[..., :2], past[..., 2], known > 0, num_steps=4, step_time_s=0.1, past_step_time_s=0.2
    )
    outputs = driver.eval()(batch)
    torch.testing.assert_close(outputs["positions"], displacements, atol=FLOAT32, rtol=0)
    turn = fit_motion(past[..., :2], past[..., 2], known > 0, 0.2, True).yaw_rate_rad_s[0].item() * 0.1
    assert outputs["yaws"][0, :, 0].tolist() == pytest.approx([turn * step for step in range(1, 5)], abs=FLOAT32)


def test_changes_of_a_baseline_last():
    """One centimetre more in the first step is one more in each later one."""
    batch = vector_batch()
    batch["agent_trajectory_polyline"][:] = torch.tensor([[0.0, 0, 0], [-1, 0, 0], [-1.8, 0, 0], [-2.4, 0, 0]])
    batch["agent_polyline_availability"][:] = True
    changes = torch.zeros(4, 2, 3)
    plain = Driver(changes, motion_residual="ctra").eval()(batch)["positions"]
    changed = changes.clone()
    changed[0, :, 0] = 1.0
    faster = Driver(changed, motion_residual="ctra").eval()(batch)["positions"]
    more = (faster - plain)[0, :, 0]
    torch.testing.assert_close(more / more[0], torch.arange(1.0, 5.0), atol=1e-4, rtol=0)
    assert more[0] > 0


def test_a_braking_baseline_stands_at_last():
    batch = vector_batch()
    batch["agent_trajectory_polyline"][:] = torch.tensor([[0.0, 0, 0], [-0.1, 0, 0], [-0.3, 0, 0], [-0.6, 0, 0]])
    batch["agent_polyline_availability"][:] = True
    positions = Driver(same_actions(0.0, 0.0, 0.0), motion_residual="ctra").eval()(batch)["positions"]
    torch.testing.assert_close(positions[:, 2], positions[:, 3], atol=FLOAT32, rtol=0)


def test_a_driver_without_a_past_starts_from_a_stand():
    batch = vector_batch()
    batch["agent_trajectory_polyline"][:, 0] = 0
    batch["agent_polyline_availability"][:, 1:] = False
    outputs = Driver(same_actions(0.0, 0.0, 0.0), velocity_residual=True).eval()(batch)
    assert not outputs["positions"].any()


def test_changes_of_steps_are_learned_in_small_units():
    batch = vector_batch()
    batch["agent_trajectory_polyline"][:] = 0
    driver = Driver(torch.ones(4, 2, 3), velocity_residual=True)
    driver.model_call = lambda *_: (torch.ones(2, 1, 3), torch.ones(2, 1, 1))
    first = driver.eval()(batch)
    assert first["positions"][0, 0].tolist() == pytest.approx([0.04, 0.01])
    assert first["yaws"][0, 0, 0].item() == pytest.approx(0.01)


def test_steps_around_a_square():
    quarter = math.pi / 2
    outputs = Driver(same_actions(1.0, 0.0, quarter)).eval()(vector_batch())
    corners = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    torch.testing.assert_close(outputs["positions"][1], corners, atol=FLOAT32_LONG, rtol=0)
    torch.testing.assert_close(outputs["yaws"][1, :, 0], torch.arange(1, 5) * quarter)


def test_the_world_moves_against_the_driver():
    driver, batch = Driver(same_actions(1.0, 2.0, 0.5)).eval(), vector_batch()
    positions = driver(batch)["positions"]
    elements = torch.cat((batch["lanes_mid"], batch["crosswalks"], batch["lanes"]), dim=1)[..., :2]
    available = torch.cat([batch[f"{key}_availabilities"] for key in ("lanes_mid", "crosswalks", "lanes")], dim=1)
    for step in range(1, 4):
        yaw = torch.full((2,), 0.5 * step)
        t0_from_ts, _ = build_matrix(positions[:, step - 1], yaw)
        seen = driver.seen[step][1][..., :2]
        back = torch.einsum("bij,bnpj->bnpi", t0_from_ts[:, :2, :2], seen) + t0_from_ts[:, None, None, :2, 2]
        torch.testing.assert_close(back[available], elements[available], atol=NETWORK, rtol=NETWORK)


def test_the_past_of_the_driver_is_where_it_has_been():
    driver, batch = Driver(same_actions(1.0, 0.0, 0.0)).eval(), vector_batch()
    driver(batch)
    last = driver.seen[3][0][:, 0]  # (B, Hn, 3), newest first, three metres ahead of the start
    assert last[0, :, 0].tolist()[:3] == pytest.approx([0.0, -1.0, -2.0], abs=FLOAT32)
    torch.testing.assert_close(last[:, 3, 0], batch["agent_trajectory_polyline"][:, 0, 0] - 3.0)


def test_other_agents_follow_the_log():
    driver, batch = Driver(same_actions(0.0, 0.0, 0.0)).eval(), vector_batch()
    driver(batch)
    newest = batch["other_agents_polyline"][..., :2]
    future = batch["all_other_agents_future_positions"]
    available = batch["all_other_agents_future_availability"]
    polys, _, polys_available = driver.seen[2]
    assert torch.equal(polys_available[:, 1:, 0], available[:, :, 1])
    now, before = available[..., 1], available[..., 0]
    torch.testing.assert_close(polys[:, 1:, 0, :2][now], future[:, :, 1][now])
    torch.testing.assert_close(polys[:, 1:, 1, :2][before], future[:, :, 0][before])
    past = batch["other_agents_polyline_availability"][..., 0]
    torch.testing.assert_close(polys[:, 1:, 2, :2][past], newest[:, :, 0][past])


def test_only_as_much_history_as_configured_is_seen():
    driver = Driver(same_actions(0.0, 0.0, 0.0))
    driver.history_num_frames_ego, driver.history_num_frames_agents = 0, 2
    driver.eval()(vector_batch())
    for polys, _, available in driver.seen:
        assert not available[:, 0, 1:].any()
        assert not available[:, 1:, 3:].any()
        assert not polys[:, 0, 1:].any()
        assert available[:, 0, 0].all()


def test_a_driver_that_follows_the_log_has_no_loss():
    batch = vector_batch()
    yaws = torch.tensor([0.1, 0.3, 0.2, -0.1]).expand(2, 4)
    positions = torch.tensor([[1.0, 0.1], [2.0, 0.4], [3.0, 0.5], [4.0, 0.2]]).expand(2, 4, 2)
    batch["target_positions"], batch["target_yaws"] = positions.clone(), yaws.unsqueeze(-1).clone()
    frames, inverses = build_matrix(positions, yaws)
    previous = torch.cat((torch.eye(3).expand(2, 1, 3, 3), inverses[:, :-1]), dim=1)
    steps = previous @ frames  # from the frame of each step to that of the next
    turns = torch.diff(torch.cat((torch.zeros(2, 1), yaws), dim=1), dim=1)
    actions = torch.cat((steps[..., :2, 2], turns.unsqueeze(-1)), dim=-1).transpose(0, 1)
    assert Driver(actions)(batch)["loss"].item() == pytest.approx(0.0, abs=FLOAT32)
    torch.testing.assert_close(Driver(actions).eval()(batch)["positions"], positions)


def test_the_loss_counts_steps_after_the_warm_up_with_a_discount():
    batch = vector_batch()
    batch["target_positions"], batch["target_yaws"] = torch.zeros(2, 4, 2), torch.zeros(2, 4, 1)
    batch["target_availabilities"] = torch.tensor([[True] * 4, [True, True, True, False]])
    actions = torch.zeros(4, 2, 3)
    actions[:, :, 2] = 1.0  # turns on the spot: the error of the yaw is 1, 2, 3, 4
    driver = Driver(actions, warmup_num_frames=1, discount_factor=0.5)
    counted = 2 * (2 + 0.5 * 3) + 0.25 * 4
    assert driver(batch)["loss"].item() == pytest.approx(counted / (2 * 4 * 3))
    available_only = Driver(actions, warmup_num_frames=1, discount_factor=0.5, average_available_only=True)
    assert available_only(batch)["loss"].item() == pytest.approx(counted / (5 * 3))


@pytest.mark.parametrize(("detach", "warmup", "flows"), [(False, 0, True), (True, 0, False), (False, 3, False)])
def test_gradients_flow_back_through_the_steps_unless_cut(detach, warmup, flows):
    actions = torch.rand(4, 2, 3, requires_grad=True)
    driver = Driver(actions, detach_unroll=detach, warmup_num_frames=warmup)
    driver.eval()(vector_batch())["positions"][:, -1].sum().backward()
    assert actions.grad[-1].abs().sum() > 0
    assert (actions.grad[0].abs().sum() > 0) == flows


def test_gradients_of_the_drive_are_right():
    """The whole drive, against numerical differentiation."""
    batch = {key: value.double() if value.is_floating_point() else value for key, value in vector_batch().items()}
    torch.manual_seed(0)
    actions = torch.rand(4, 2, 3, dtype=torch.float64, requires_grad=True)

    def drive(actions):
        driver = Driver(actions).double()
        driver.train()
        loss = driver(batch)["loss"]
        driver.seen.clear()
        outputs = driver.eval()(batch)
        return loss, outputs["positions"], outputs["yaws"]

    assert torch.autograd.gradcheck(drive, (actions,))


def test_gradients_reach_the_weights_through_time():
    """Cutting the steps changes the gradient, not the loss."""
    losses, gradients = [], []
    for detach in (False, True):
        model = set_weights(make(detach=detach, warmup=0))
        loss = model(vector_batch())["loss"]
        loss.backward()
        losses.append(loss.item())
        gradients.append(model.global_head.output_embed.layers[2].weight.grad)
    assert losses[0] == losses[1]
    assert not torch.allclose(*gradients, rtol=1e-2)


def test_changed_turns_are_limited():
    batch = vector_batch()
    batch["agent_trajectory_polyline"][..., 2] = torch.tensor([0.0, -1.0, -2.0, -3.0])
    outputs = Driver(same_actions(0.0, 0.0, 0.0), velocity_residual=True, limit_predicted_yaw=True).eval()(batch)
    assert outputs["yaws"][0, :, 0].tolist() == pytest.approx([0.3, 0.6, 0.9, 1.2])


def test_turns_are_limited():
    model = set_weights(make())
    with torch.no_grad():
        model.global_head.output_embed.layers[2].bias[2] = 50.0
    outputs = model.eval()(vector_batch())
    assert outputs["yaws"][0, :, 0].tolist() == pytest.approx([0.3, 0.6, 0.9, 1.2])


def test_p5_the_difference_of_yaws_is_not_wrapped():
    batch = vector_batch()
    batch["target_positions"], batch["target_yaws"] = torch.zeros(2, 4, 2), torch.full((2, 4, 1), 2 * math.pi)
    batch["target_availabilities"] = torch.ones(2, 4, dtype=torch.bool)
    assert Driver(same_actions(0.0, 0.0, 0.0))(batch)["loss"].item() == pytest.approx(2 * math.pi / 3)


def test_p4_a_drive_without_futures():
    """Other agents vanish after the first step, as those do whose future is not available."""
    batch = vector_batch()
    without = {key: value for key, value in batch.items() if key not in FUTURES}
    unavailable = copied(batch)
    unavailable["all_other_agents_future_availability"][:] = False
    model = set_weights(make(num_unroll_steps=4)).eval()
    ours, theirs = model(without), set_weights(make()).eval()(unavailable)
    torch.testing.assert_close(ours["positions"], theirs["positions"])
    torch.testing.assert_close(ours["attention_weights"], theirs["attention_weights"])
    first_step = set_weights(make()).eval()(batch)["positions"][:, 0]
    torch.testing.assert_close(ours["positions"][:, 0], first_step)


@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_p4_a_drive_of_another_length_than_the_log(num_steps):
    model, batch = set_weights(make(num_unroll_steps=num_steps)).eval(), vector_batch()
    outputs = model(batch)
    assert outputs["positions"].shape == (2, num_steps, 2)
    common = min(num_steps, 4)
    expected = set_weights(make()).eval()(batch)["positions"][:, :common]
    torch.testing.assert_close(outputs["positions"][:, :common], expected)
    assert model.train()(batch)["loss"].item() == pytest.approx(3.821995, rel=NETWORK)  # training needs the log


def test_p4_without_targets_and_a_number_of_steps():
    batch = {key: value for key, value in vector_batch().items() if key not in FUTURES}
    with pytest.raises(InvalidArgumentError, match="num_unroll_steps"):
        make().eval()(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup": -1}, "warmup_num_frames is -1"),
        ({"num_unroll_steps": 0}, "num_unroll_steps is 0"),
        ({"velocity_residual": True, "history": (0, 3)}, "history_num_frames_ego is 0"),
        ({"motion_residual": "ctra", "history": (0, 3)}, "history_num_frames_ego is 0"),
        ({"motion_residual": "ctr"}, "motion_residual is 'ctr'; give 'ctrv', 'ctra' or None"),
        ({"motion_residual": "ctra", "velocity_residual": True}, "choose one of them"),
        ({"step_time_s": 0.0}, "step_time_s 0.0"),
    ],
)
def test_arguments_that_make_no_drive(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make(**options)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_the_unroll_is_written_as_torchscript():
    """Slow tests of all models run what is written here; this one only looks whether it can be."""
    scripted = torch.jit.script(make())
    assert list(scripted.state_dict()) == list(make().state_dict())


def test_update_of_the_transforms():
    eye, zeros, ones = torch.eye(3).expand(2, 3, 3), torch.zeros(2, 1), torch.ones(2, 1)
    step, turn = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[math.pi / 2], [0.0]])
    state = (eye, eye, zeros, zeros)
    for _ in range(2):
        state = make().update_transformation_matrices(step, turn, *state, zeros, ones)
    t0_from_ts, ts_from_t0, yaw_t0_from_ts, yaw_ts_from_t0 = state
    torch.testing.assert_close(t0_from_ts[:, :2, 2], torch.tensor([[1.0, 1.0], [0.0, 4.0]]))
    torch.testing.assert_close(t0_from_ts @ ts_from_t0, eye, atol=FLOAT32, rtol=0)
    torch.testing.assert_close(yaw_t0_from_ts, 2 * turn)
    torch.testing.assert_close(yaw_ts_from_t0, -2 * turn)
