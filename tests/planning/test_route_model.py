"""The route planner: shapes, what it does not depend on, what its losses are, and that it learns."""

import pytest
import torch

from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_inputs import network_inputs
from l5kit.planning.network_plans import read_plans
from l5kit.planning.vectorized.route_features import NUM_POSITION_FEATURES, RouteInputs, position_features
from l5kit.planning.vectorized.route_model import RoutePlannerModel
from support.routes import route_batch

POOLINGS = pytest.mark.parametrize("pooling", ["max", "attention"])
NUM_STEPS = 5


def inputs(**changes):
    return RouteInputs(**{"past_step_time_s": 0.1, "num_lane_points": 6, "num_route_points": 26, **changes})


def make_model(seed=0, *, of=None, **changes):
    torch.manual_seed(seed)
    criterion = torch.nn.SmoothL1Loss(reduction="none", beta=0.1)
    options = {"num_steps": NUM_STEPS, "step_time_s": 0.2, "dim_features": 32, "criterion": criterion, **changes}
    return RoutePlannerModel(of or inputs(), **options)


def make_batch(num_samples=6, seed=0, **sizes):
    return route_batch(num_samples, num_steps=NUM_STEPS, generator=torch.Generator().manual_seed(seed), **sizes)


def predict(model, batch):
    with torch.no_grad():
        return model.eval()(network_inputs(batch))


def assert_same(first, second):
    assert first.keys() == second.keys()
    for key, value in first.items():
        torch.testing.assert_close(value, second[key], rtol=1e-5, atol=1e-5)


@POOLINGS
@pytest.mark.parametrize("decoder", ["kinematic", "poses"])
@pytest.mark.parametrize(("num_agents", "num_lanes"), [(4, 3), (0, 3), (4, 0)])
def test_shapes_and_plans(pooling, decoder, num_agents, num_lanes):
    model = make_model(pooling=pooling, decoder=decoder, num_modes=2)
    outputs = predict(model, make_batch(num_agents=num_agents, num_lanes=num_lanes))
    assert {key: tuple(value.shape) for key, value in outputs.items()} == {
        "positions": (6, NUM_STEPS, 2),
        "yaws": (6, NUM_STEPS, 1),
        "positions_all": (6, 2, NUM_STEPS, 2),
        "yaws_all": (6, 2, NUM_STEPS, 1),
        "mode_logits": (6, 2),
    }
    plans = read_plans(outputs, 6)
    likeliest = outputs["mode_logits"].argmax(dim=1)
    chosen = outputs["positions_all"][torch.arange(6), likeliest]
    torch.testing.assert_close(torch.from_numpy(plans.positions_m), chosen.double())


def damaged(batch, generator):
    """The same batch with other numbers in all that is not there."""
    masks = {
        "all_other_agents_history_availability": [
            f"all_other_agents_history_{name}" for name in ("positions", "yaws", "extents")
        ],
        "all_other_agents_route_availability": ["all_other_agents_route_places"],
        "route_availability": [
            f"route_{name}" for name in ("polyline", "limits", "bend_speeds", "lights", "in_junction", "widths")
        ],
        "goal_availability": ["goal_position"],
        "agent_route_availability": ["agent_route_place", "route_gaps"],
        "history_availabilities": ["history_positions", "history_yaws"],
    }
    absent = [(key, ~batch[mask]) for mask, keys in masks.items() for key in keys]
    points = ~batch["lanes_mid_availabilities"]
    lanes, agents = points.all(dim=-1), ~batch["all_other_agents_history_availability"][:, :, 0]
    xy = points.unsqueeze(-1) & torch.tensor([True, True, False])  # the first point of a lane has its light
    absent += [("lanes_mid", xy), ("lanes_mid", lanes), ("lane_limits", lanes), ("lane_on_route", lanes)]
    absent += [
        (f"all_other_agents_{name}", agents)
        for name in ("types", "route_places", "route_availability", "history_positions")
    ]
    other = dict(batch)
    for key, gone in absent:
        value = other[key]
        gone = gone.reshape(gone.shape + (1,) * (value.ndim - gone.ndim)).expand_as(value)
        if value.dtype is torch.bool:
            other[key] = value ^ gone
        elif value.dtype is torch.int64:
            other[key] = torch.where(gone, torch.randint(0, 17, value.shape, generator=generator), value)
        else:
            wild = 1e3 * torch.randn(value.shape, generator=generator)
            wild = torch.where(torch.rand(value.shape, generator=generator) < 0.1, torch.nan, wild)
            other[key] = torch.where(gone, wild, value)
    return other


@POOLINGS
@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_there_changes_nothing(pooling, seed):
    model = make_model(seed, of=inputs(num_past=2), pooling=pooling)
    batch = make_batch(seed=seed)
    batch["history_availabilities"][:3, 2] = False
    other = damaged(batch, torch.Generator().manual_seed(seed + 10))
    assert any((batch[key] != other[key]).any() for key in batch)
    assert_same(predict(model, batch), predict(model, other))


@POOLINGS
def test_the_order_of_agents_and_lanes_does_not_matter(pooling):
    model, batch = make_model(pooling=pooling), make_batch()
    turned = {
        key: value.flip(1) if key.startswith(("all_other_agents", "lane")) else value for key, value in batch.items()
    }
    assert_same(predict(model, batch), predict(model, turned))


@POOLINGS
@pytest.mark.parametrize("key", ["route_limits", "all_other_agents_route_places", "lane_limits", "route_gaps"])
def test_what_is_there_changes_the_plan(pooling, key):
    model, batch = make_model(pooling=pooling), make_batch()
    other = {**batch, key: batch[key] + 3.0}
    assert not torch.equal(predict(model, batch)["positions"], predict(model, other)["positions"])


@pytest.mark.parametrize(
    ("changes", "prefix"),
    [
        ({"disable_other_agents": True}, "all_other_agents"),
        ({"disable_map": True}, "lane"),
        ({"of": inputs(agents_along_route=False)}, "all_other_agents_route"),
        ({"of": inputs(with_route=False)}, "route"),
    ],
)
def test_what_is_left_out_is_not_looked_at(changes, prefix):
    model, batch = make_model(**changes), make_batch()
    other = {key: value.flip(0) if key.startswith(prefix) else value for key, value in batch.items()}
    assert_same(predict(model, batch), predict(model, other))


def test_the_past_is_seen_only_where_it_is_asked_for():
    batch = make_batch()
    other = {**batch, "history_yaws": batch["history_yaws"] + 1.0}
    for num_past, is_seen in ((0, False), (2, True)):
        model = make_model(of=inputs(num_past=num_past))
        same = torch.equal(predict(model, batch)["positions"], predict(model, other)["positions"])
        assert same != is_seen


def test_the_speed_is_that_of_the_last_step_and_nothing_ahead():
    model, batch = make_model(decoder="poses"), make_batch()
    batch["speed"] = torch.full((6,), 30.0)
    features = model.inputs.features_of(batch)
    step_m = batch["history_positions"][:, 0, 0] - batch["history_positions"][:, 1, 0]
    torch.testing.assert_close(features.speeds_mps, 10.0 * step_m)
    batch["history_availabilities"][:, 1:] = False
    assert not model.inputs.features_of(batch).speeds_mps.any()


def test_a_batch_without_a_route_is_refused():
    batch = make_batch()
    with pytest.raises(InvalidArgumentError, match=r"model_params\.route: true"):
        make_model()({key: value for key, value in batch.items() if not key.startswith("route")})
    with pytest.raises(InvalidArgumentError, match="26 points; the network was made for 10"):
        make_model(of=inputs(num_route_points=10))(batch)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_steps": 0},
        {"num_modes": 0},
        {"weights_scaling": (1.0,)},
        {"loss_decay_s": 0.0},
        {"dim_features": 12, "pooling": "attention"},
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes):
    with pytest.raises(InvalidArgumentError):
        make_model(**changes)


def test_gaps_are_those_between_bumpers():
    # a car ahead, one that crosses, one behind, and one without a position
    positions = torch.tensor(
        [
            [[12.0, 0.5, 3.0, 0.0, 0.0, 1.0], [20.0, -6.0, 0.0, 4.0, torch.pi / 2, 0.0]]
            + [[-9.0, 0.0, 8.0, 0.0, 0.0, 1.0], [5.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
        ]
    )
    sizes_m = torch.tensor([[[4.0, 2.0]] * 4])
    has_position, own_mps = torch.tensor([[True, True, True, False]]), torch.tensor([[[6.0]]])
    gaps = position_features(positions, has_position, sizes_m, own_mps, torch.tensor([[[6.0, 2.0]]]))[0, :, -5:]
    # metres between bumpers, time to collision in 1/s, braking, headway, metres between sides
    ahead = [7.0 / 10, 3.0 / 7.0, 9.0 / 2 / 7.0 / 3, 7.0 / 6.0 / 2, -1.5 / 2]
    crosses = [1.0, 6.0 / 16.0, 36.0 / 2 / 16.0 / 3, 16.0 / 6.0 / 2, 3.0 / 2]
    behind = [4.0 / 10, 2.0 / 4.0, 4.0 / 2 / 4.0 / 3, 4.0 / 6.0 / 2, -1.0]
    torch.testing.assert_close(gaps, torch.tensor([ahead, crosses, behind, [0.0] * 5]))


@pytest.mark.parametrize(("leaves", "led_by"), [([], 1), ([1], 2), ([1, 2], None)])
def test_the_leader_is_the_nearest_in_the_lane_ahead(leaves, led_by):
    batch = make_batch(1, num_agents=4)
    batch["all_other_agents_history_availability"][:] = True
    batch["all_other_agents_route_availability"][:] = True
    batch["all_other_agents_route_places"][0, :, 0] = torch.tensor([5.0, 12.0, 20.0, -4.0])
    batch["all_other_agents_route_places"][0, :, 5] = torch.tensor([0.0, 1.0, 1.0, 1.0])
    batch["all_other_agents_history_availability"][0, leaves, 0] = False
    features = inputs().features_of(batch)
    of_leader = features.target[0, -NUM_POSITION_FEATURES:]
    expected = torch.zeros_like(of_leader) if led_by is None else features.agents[0, led_by, -NUM_POSITION_FEATURES:]
    torch.testing.assert_close(of_leader, expected)
    assert not inputs().features_of(batch, with_agents=False).target[0, -NUM_POSITION_FEATURES:].any()


def test_the_loss_is_that_of_the_nearest_mode():
    model = make_model(num_modes=3, modes_weight=0.5, weights_scaling=(1.0, 2.0, 5.0), loss_decay_s=0.4)
    batch = make_batch(2)
    batch["target_availabilities"] = torch.tensor([[True, True, False, False, False], [False] * 5])
    batch["target_yaws"] += 2 * torch.pi  # the same headings
    losses = model.train()(batch)
    outputs = predict(model, batch)
    truth = torch.cat((batch["target_positions"], batch["target_yaws"] - 2 * torch.pi), dim=-1)[0, :2]
    modes = torch.cat((outputs["positions_all"], outputs["yaws_all"]), dim=-1)[0, :, :2]
    errors = torch.nn.functional.smooth_l1_loss(modes, truth.expand_as(modes), beta=0.1, reduction="none")
    of_steps = torch.exp(-0.5 * torch.arange(1.0, 6.0))  # steps of 0.2 s
    of_steps = (of_steps / of_steps.mean())[:2, None]
    costs = (errors * of_steps * torch.tensor([1.0, 2.0, 5.0])).mean(dim=(1, 2))
    surprise = -outputs["mode_logits"][0].log_softmax(dim=0)[costs.argmin()]
    torch.testing.assert_close(losses["loss/trajectories"], costs.min())
    torch.testing.assert_close(losses["loss/modes"], surprise)
    torch.testing.assert_close(losses["loss"], costs.min() + 0.5 * surprise)


def test_without_a_known_step_nothing_is_learned():
    model, batch = make_model(), make_batch()
    batch["target_availabilities"][:] = False
    loss = model.train()(batch)["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())


@POOLINGS
def test_it_learns_a_small_batch_by_heart(pooling):
    batch = make_batch(8)
    times_s = 0.2 * torch.arange(1.0, NUM_STEPS + 1)
    speeds = 10.0 * -batch["history_positions"][:, 1, :1]
    accelerations = torch.linspace(-2.0, 2.0, 8)[:, None].clamp(min=-speeds)
    ways = speeds * times_s + 0.5 * accelerations * times_s**2
    batch["target_positions"] = torch.stack((ways, torch.zeros_like(ways)), dim=-1)
    batch["target_yaws"] = torch.zeros(8, NUM_STEPS, 1)
    model = make_model(pooling=pooling, dim_features=64).train()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(80):
        losses.append(model(batch)["loss/trajectories"])
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]


@POOLINGS
def test_weights_come_back(pooling):
    first, second, batch = make_model(0, pooling=pooling), make_model(1, pooling=pooling), make_batch()
    assert not torch.equal(predict(first, batch)["positions"], predict(second, batch)["positions"])
    second.load_state_dict(first.state_dict())
    assert_same(predict(first, batch), predict(second, batch))
