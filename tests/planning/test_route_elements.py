"""The route among the elements of vector models: positions along it, what it changes, and how it moves in an unroll."""

import math

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.common import transform_xy
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.planning.vectorized.route_elements import RouteElements, collect_route, positions_on_route
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from support.models import copied, no_dropout, routed_batch, set_weights, vector_batch
from support.tolerances import FLOAT32_LONG, NETWORK

ONES = [1.0, 1.0, 1.0]


def make(kind, *, use_route=True):
    criterion = nn.L1Loss(reduction="none")
    if kind == "SafePathNet":
        model = SafePathNetModel(3, 3, 4, ONES, criterion, False, False, False, 2, 3, use_route=use_route)
    elif kind == "unroll":
        arguments = (3, 3, 12, ONES, criterion, 0.0, False, False, False, False, 0, 1.0)
        model = VectorizedUnrollModel(*arguments, use_route=use_route, dim_features=64)
    else:
        arguments = (3, 3, 12, ONES, criterion, 0.0, False, False, False)
        model = VectorizedModel(*arguments, use_route=use_route, dim_features=64)
    return set_weights(no_dropout(model))


KINDS = pytest.mark.parametrize("kind", ["open loop", "unroll", "SafePathNet"])


def planned(model, batch):
    with torch.no_grad():
        outputs = model.eval()(batch)
    return outputs["agent_positions"] if "agent_positions" in outputs else outputs["positions"]


def route_of_points(points, num_known=None, *, num_agents):
    """A route of one sample, in a lane 2 m wide to the left and 1 m to the right, for cars of 4 m by 2 m."""
    points = torch.tensor(points, dtype=torch.float64)
    size = len(points)
    known = torch.arange(size) < (size if num_known is None else num_known)
    xy = torch.stack((points, torch.zeros_like(points)))
    return RouteElements(
        torch.nn.functional.pad(xy, [0, 1])[None],
        torch.stack((known, torch.zeros_like(known)))[None],
        torch.zeros(1, size, 11),
        torch.tensor([2.0, 1.0], dtype=torch.float64).expand(1, size, 2),
        torch.tensor([4.0, 2.0], dtype=torch.float64).expand(1, num_agents, 2),
        torch.zeros(1, num_agents, 6),
        torch.zeros(1, num_agents, dtype=torch.bool),
    )


# x, y, yaw and velocity -> along, left, speeds along and across, turn, whether it reaches into the lane
PLACES = {
    "the target": ((1, 0.5, 0.0), (5, 0), (0, 0.5, 5, 0, 0, 1)),
    "ahead of it": ((7, 0, math.pi / 2), (0, 3), (6, 0, 0, 3, math.pi / 2, 1)),
    "behind the start": ((-4, -1, 0.0), (1, 1), (-5, -1, 1, 1, 0, 1)),
    "just beside the lane on the left": ((3, 3, 0.0), (0, 0), (2, 3, 0, 0, 0, 0)),
    "just in it": ((3, 2.99, 0.0), (0, 0), (2, 2.99, 0, 0, 0, 1)),
    "just beside it on the right": ((3, -2, 0.0), (0, 0), (2, -2, 0, 0, 0, 0)),
    "in it, as it lies across": ((3, -2.9, math.pi / 2), (0, 0), (2, -2.9, 0, 0, math.pi / 2, 1)),
    "after the turn to the left": ((9, 6, 0.0), (2, 1), (15, 1, 1, -2, -math.pi / 2, 1)),
    "behind the end": ((10, 30, math.pi / 2), (0, 4), (39, 0, 4, 0, 0, 1)),
}


def test_places_of_cars_that_can_be_worked_out_by_hand():
    poses, velocities, expected = (
        torch.tensor(each, dtype=torch.float64)[None] for each in zip(*PLACES.values(), strict=True)
    )
    # unavailable points are ignored, whatever their values
    route = route_of_points([[0, 0], [4, 0], [10, 0], [10, 8], [9, 6]], 4, num_agents=len(PLACES))
    is_there = torch.ones(1, len(PLACES), dtype=torch.bool)
    is_there[0, 3] = False
    positions, has_position = positions_on_route(route, poses, velocities, is_there)
    torch.testing.assert_close(positions, expected, rtol=0, atol=1e-9)
    assert torch.equal(has_position, is_there)
    # one point is no way
    _, has_position = positions_on_route(
        route_of_points([[0, 0], [4, 0]], 1, num_agents=len(PLACES)), poses, velocities, is_there
    )
    assert not has_position.any()


def test_places_have_gradients():
    route = route_of_points([[0, 0], [4, 1], [9, 3], [0, 0]], 3, num_agents=2)
    poses = torch.tensor([[[1.0, 0.4, 0.1], [6.0, -1.0, 0.4]]], dtype=torch.float64, requires_grad=True)
    velocities = torch.tensor([[[4.0, 0.2], [1.0, -2.0]]], dtype=torch.float64, requires_grad=True)
    is_there = torch.ones(1, 2, dtype=torch.bool)
    assert torch.autograd.gradcheck(
        lambda *states: positions_on_route(route, *states, is_there)[0], (poses, velocities)
    )


@KINDS
def test_without_the_key_nothing_changes(kind):
    plain, routed = make(kind, use_route=False), make(kind)
    own = [name for name in routed.state_dict() if name.startswith("route_embedding.")]
    assert list(plain.state_dict()) == [name for name in routed.state_dict() if name not in own]
    assert own
    assert torch.equal(planned(plain, routed_batch()), planned(plain, vector_batch()))
    # nor what is drawn for the other weights of a new network
    drawn = []
    for use_route in (False, True):
        torch.manual_seed(3)
        model = VectorizedModel(1, 1, 12, ONES, None, 0.0, False, False, False, use_route=use_route, dim_features=8)
        drawn.append(model.input_embed.weight)
    assert torch.equal(*drawn)


SEEN = [
    *("route_polyline", "route_availability", "route_limits", "route_bend_speeds", "route_lights"),
    *("route_in_junction", "route_widths", "goal_position", "goal_availability"),
]
OF_PLACES = [
    *("agent_route_place", "agent_route_availability"),
    *("all_other_agents_route_places", "all_other_agents_route_availability"),
]


def changed(batch, key):
    value = batch[key]
    if value.dtype is torch.bool:
        new = ~value
    elif value.dtype is torch.int64:
        new = (value + 1) % 5
    else:
        new = value + 1.0
    return {**batch, key: new}


@KINDS
def test_what_is_seen_of_the_route_changes_the_plan(kind):
    model, batch = make(kind), routed_batch()
    before = planned(model, batch)
    # an unroll finds positions itself, as those of samples hold at its start only
    keys = SEEN if kind == "unroll" else SEEN + OF_PLACES
    assert [key for key in keys if torch.allclose(planned(model, changed(batch, key)), before, atol=1e-6)] == []


@KINDS
def test_without_a_route_the_keys_do_not_matter(kind):
    model, batch = make(kind), routed_batch()
    masks = [key for key in SEEN + OF_PLACES if key.endswith("availability")]
    without = batch | {key: torch.zeros_like(batch[key]) for key in masks}
    before, other = planned(model, without), copied(without)
    for key in set(SEEN + OF_PLACES) - set(masks):
        other = changed(other, key)
    other["route_polyline"] = torch.full_like(other["route_polyline"], torch.nan)
    torch.testing.assert_close(planned(model, other), before)
    assert not torch.allclose(before, planned(model, batch), atol=1e-4)
    if kind == "SafePathNet":  # the other elements add their view of themselves to the output of attention
        plain = make(kind, use_route=False)
        plain.load_state_dict({key: model.state_dict()[key] for key in plain.state_dict()})
        torch.testing.assert_close(planned(plain, vector_batch()), before, rtol=NETWORK, atol=NETWORK)


@KINDS
def test_gradients_reach_all_weights_of_the_route(kind):
    model = make(kind).train()
    model(routed_batch())["loss"].backward()
    idle = [
        name for name, weight in model.named_parameters() if "route_embedding" in name and not weight.grad.abs().sum()
    ]
    assert idle == []


@KINDS
def test_a_batch_without_a_route_is_refused(kind):
    with pytest.raises(InvalidArgumentError, match=r"no 'route_polyline'.*model_params.route"):
        make(kind).eval()(vector_batch())


class Driver(VectorizedUnrollModel):
    """Drives 2 m ahead and 0.1 rad to the left in each step, and keeps what it saw of the route."""

    def model_call(self, *arguments):
        self.seen.append(arguments[-1])
        outputs = torch.tensor([2.0, 0.0, 0.1]).expand(2, 1, 3) / torch.cat((self.xy_scale, torch.ones(1, 1)), dim=1)
        return outputs, torch.ones(2, 1, 14) / 14


def test_the_route_moves_against_the_driver():
    criterion = nn.L1Loss(reduction="none")
    model = Driver(3, 3, 12, ONES, criterion, 0.0, False, False, False, False, 0, 1.0, False, use_route=True)
    model.seen, batch = [], routed_batch()
    outputs = model.eval()(batch)
    start = collect_route(batch)
    torch.testing.assert_close(model.seen[0].polylines, start.polylines)
    for step in range(1, 4):
        # back in the frame of the data, the route is where it was
        seen, angle = model.seen[step], 0.1 * step
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        matrix = torch.eye(3).repeat(2, 1, 1)
        matrix[:, :2, :2], matrix[:, :2, 2] = turn, outputs["positions"][:, step - 1]
        back = transform_xy(seen.polylines[..., :2], matrix[:, None, None]) * seen.available.unsqueeze(-1)
        torch.testing.assert_close(back, start.polylines[..., :2], rtol=0, atol=1e-4)
        # in a bend of 25 m, of which it turns 2 m in 0.08 rad
        distances_m = 25.0 - torch.linalg.norm(outputs["positions"][:1, step - 1] - torch.tensor([0.0, 25.0]), dim=-1)
        torch.testing.assert_close(seen.positions[:1, 0, 1], distances_m, rtol=0, atol=0.03)
        torch.testing.assert_close(seen.positions[:, 0, 0], torch.zeros(2))
        assert seen.positions[0, 0, 4] == pytest.approx(0.02 * step, abs=0.045)
    assert model.seen[3].positions[0, 0, 2] == pytest.approx(20.0, rel=0.02)
    torch.testing.assert_close(model.seen[3].features, start.features, rtol=0, atol=FLOAT32_LONG)


def test_an_unroll_with_a_route_needs_a_past():
    with pytest.raises(InvalidArgumentError, match=r"history_num_frames_ego is 0; .* a residual or a route"):
        VectorizedUnrollModel(0, 3, 12, ONES, None, 0.0, False, False, False, False, 0, 1.0, use_route=True)
