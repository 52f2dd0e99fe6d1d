"""The motion token model: what its logits depend on, how it is rolled out, and that it learns."""

import gc
import math

import numpy as np
import pytest
import torch

from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.prediction.vectorized.motion_tokens_fitting import fit_vocabulary
from l5kit.prediction.vectorized.motion_tokens_layers import RelativeAttention
from l5kit.prediction.vectorized.motion_tokens_matching import TokenTimes
from l5kit.prediction.vectorized.motion_tokens_model import MotionTokenModel
from l5kit.prediction.vectorized.motion_tokens_sampling import choose_tokens, draw_uniforms
from support.models import with_lanes_reversed

TIMES = TokenTimes(num_steps=2, num_past_steps=2, num_past_tokens=2, num_future_tokens=3)
SAME = 1e-4


def make_batch(num_samples=3, num_agents=4, seed=0):
    """Samples of agents on circles, some of them slowing down or speeding up, and of a few lanes."""
    rng = np.random.default_rng(seed)
    shape = (num_samples, num_agents)
    time_s = 0.1 * np.arange(-5, 7)
    speed, change = rng.uniform(0, 10, (*shape, 1)), rng.uniform(-3, 3, (*shape, 1))
    way = speed * time_s + change * time_s**2 / 2
    start, bend = rng.uniform(-math.pi, math.pi, (*shape, 1)), rng.uniform(-0.1, 0.1, (*shape, 1))
    yaws = start + bend * way
    positions = rng.uniform(-20, 20, (*shape, 1, 2)) + np.stack(
        [(np.sin(yaws) - np.sin(start)) / bend, (np.cos(start) - np.cos(yaws)) / bend], axis=-1
    )
    poses = torch.tensor(np.concatenate([positions, yaws[..., None]], axis=-1), dtype=torch.float32)
    past, future = poses[:, :, :6].flip(2), poses[:, :, 6:]
    points = torch.tensor(rng.uniform(-30, 30, (num_samples, 9, 1, 3)) + 3 * np.arange(7)[:, None], dtype=torch.float32)
    points[..., 2] = torch.tensor(rng.integers(0, 5, (num_samples, 9, 1)))
    known = torch.ones(num_samples, 9, 7, dtype=torch.bool)
    batch = {
        "all_other_agents_types": torch.tensor(rng.choice([3, 12, 14], shape)),
        "all_other_agents_track_ids": torch.arange(-1, num_agents - 1).expand(shape).clone(),
        "all_other_agents_history_extents": torch.tensor([4.5, 1.9]).expand(*shape, 6, 2).clone(),
        "scene_index": torch.arange(num_samples),
        "timestamp": torch.full((num_samples,), 10**17),
    }
    for when, part in (("history", past), ("future", future)):
        batch[f"all_other_agents_{when}_positions"] = part[..., :2].clone()
        batch[f"all_other_agents_{when}_yaws"] = part[..., 2:].clone()
        batch[f"all_other_agents_{when}_availability"] = torch.ones(part.shape[:3], dtype=torch.bool)
    for name, first, last in (("lanes_mid", 0, 4), ("crosswalks", 4, 5), ("lanes", 5, 9)):
        batch[name], batch[f"{name}_availabilities"] = points[:, first:last], known[:, first:last]
    return batch


def make_model(batch=None, *, base="ctra", num_tokens=24, **options):
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = MotionTokenModel(
            TIMES, num_tokens=num_tokens, base=base, dim=32, num_layers=2, num_heads=4, dropout=0.0, **options
        )
        torch.nn.init.normal_(model.token_own, std=0.5)
    fit_vocabulary(model.tokeniser, [make_batch(20)] if batch is None else [batch], TIMES)
    return model


def logits_of(model, batch):
    with torch.no_grad():
        return model.next_token_logits(batch)[0]


def finite(logits):
    return logits[torch.isfinite(logits)]


def turned(batch, *, by=1.0, shift=(30.0, -7.0)):
    """The same scenes seen from elsewhere."""
    matrix = torch.tensor([[math.cos(by), -math.sin(by)], [math.sin(by), math.cos(by)]])
    moved = dict(batch)
    for key, value in batch.items():
        if key.endswith("positions"):
            moved[key] = value @ matrix.T + torch.tensor(shift)
        elif key.endswith("yaws"):
            moved[key] = value + by
        elif key in ("lanes_mid", "crosswalks", "lanes"):
            moved[key] = torch.cat((value[..., :2] @ matrix.T + torch.tensor(shift), value[..., 2:]), dim=-1)
    return moved


@pytest.fixture(scope="module")
def model():
    return make_model().eval()


@pytest.fixture(scope="module")
def batch():
    return make_batch()


def test_predictions_have_the_form_of_those_of_safepathnet(model, batch):
    past_only = {key: value for key, value in batch.items() if "future" not in key}
    found = model(past_only)
    assert found["agent_positions"].shape == (3, 4, 6, 2)
    assert found["agent_yaws"].shape == (3, 4, 6, 1)
    assert found["all_agent_positions"].shape == (3, 4, 6, 6, 2)
    assert found["all_agent_yaws"].shape == (3, 4, 6, 6, 1)
    best = found["agent_traj_logits"].argmax(dim=-1)
    rows = torch.arange(3)[:, None], torch.arange(4)
    assert torch.equal(found["agent_positions"], found["all_agent_positions"][(*rows, best)])
    assert torch.equal(found["agent_yaws"], found["all_agent_yaws"][(*rows, best)])


def test_losses_reach_all_weights(batch):
    model = make_model().train()
    losses = model(batch)
    losses["loss"].backward()
    assert 0 < losses["loss"].item() < 2 * math.log(24)
    assert 0 <= losses["accuracy"].item() <= 1
    assert 0 < losses["quantisation_m"].item() < 0.3
    dead = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert dead == []
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_logits_are_of_what_was_before(model, batch):
    before, changed = logits_of(model, batch), {**batch}
    changed["all_other_agents_future_positions"] = batch["all_other_agents_future_positions"].clone()
    changed["all_other_agents_future_positions"][:, 0, 3] += 2.0  # the end of the second future token
    after = logits_of(model, changed)
    assert torch.equal(before[:, :, :4], after[:, :, :4])
    assert (finite(before[:, :, 4]) - finite(after[:, :, 4])).abs().max() > 1e-3
    others = (before[:, 1:, 4] - after[:, 1:, 4]).nan_to_num().abs().amax()
    assert others > 1e-5  # agents that see it know its token


def test_where_scenes_are_seen_from_does_not_matter(model, batch):
    moved = turned(batch)
    np.testing.assert_allclose(finite(logits_of(model, moved)), finite(logits_of(model, batch)), atol=SAME)
    poses, moved_poses = (model.roll_out(each, temperature=0.0, num_rollouts=1).poses for each in (batch, moved))
    cos, sin = math.cos(1.0), math.sin(1.0)
    expected = torch.stack(
        (cos * poses[..., 0] - sin * poses[..., 1] + 30, sin * poses[..., 0] + cos * poses[..., 1] - 7)
    )
    np.testing.assert_allclose(moved_poses[..., :2].movedim(-1, 0), expected, atol=1e-3)


def test_what_is_not_there_does_not_matter(model, batch):
    padded = dict(batch)
    for key, value in batch.items():
        if key.startswith("all_other_agents"):
            filler = torch.full_like(value[:, :2], 5) * (0 if "availability" in key else 1)
            padded[key] = torch.cat((value, filler.to(value.dtype)), dim=1)
        elif key.startswith(("lanes", "crosswalks")):
            filler = torch.full_like(value[:, :1], 3) * (0 if "availabilities" in key else 1)
            padded[key] = torch.cat((value, filler.to(value.dtype)), dim=1)
    np.testing.assert_allclose(finite(logits_of(model, padded)[:, :4]), finite(logits_of(model, batch)), atol=SAME)
    nothing = {**padded, **{key: value[:, :0] for key, value in batch.items() if key.startswith(("lanes", "cross"))}}
    assert finite(logits_of(model, nothing)).isfinite().all()
    learned = make_model().train()
    np.testing.assert_allclose(learned(padded)["loss"].item(), learned(batch)["loss"].item(), atol=SAME)


def test_distances_to_all_pieces_of_the_map_do_not_lie_beside_the_layers(batch):
    model, held = make_model(num_pieces=3).eval(), []

    def look(_, inputs):
        features, road = inputs[0], inputs[2]
        shape = (features.shape[0], features.shape[1] * features.shape[2], road.shape[1])
        held.append(sum(type(each) is torch.Tensor and each.shape == shape for each in gc.get_objects()))

    model.decoder.layers[0].register_forward_pre_hook(look)
    logits_of(model, batch)
    assert held == [0]


def test_the_order_of_lanes_does_not_matter(model, batch):
    torch.testing.assert_close(logits_of(model, with_lanes_reversed(batch)), logits_of(model, batch))


def test_map_and_other_agents_can_be_left_out(batch):
    blind = make_model(disable_map=True, disable_other_agents=True).eval()
    alone = {key: value[:, 1:2] if key.startswith("all_other_agents") else value for key, value in batch.items()}
    alone["lanes_mid"] = alone["lanes_mid"] + 5.0
    np.testing.assert_allclose(finite(logits_of(blind, alone)[:, 0]), finite(logits_of(blind, batch)[:, 1]), atol=SAME)


def test_tokens_of_no_class_are_never_likely(batch):
    model = make_model(batch, num_tokens=300).eval()  # more than there are moves
    sizes = model.tokeniser.vocabulary_sizes[model.tokeniser.class_of_label[batch["all_other_agents_types"]]]
    assert (sizes < 300).all()
    assert torch.equal(torch.isfinite(logits_of(model, batch)).sum(dim=-1), sizes[..., None].expand(3, 4, 5))


@pytest.mark.parametrize("base", ["none", "ctra"])
def test_rolled_out_step_by_step_is_what_teacher_forcing_says(base, batch):
    model = make_model(base=base).eval()
    found = model.roll_out(batch, num_rollouts=2, temperature=1.0)
    for number in range(2):
        poses = found.poses[:, number]
        taught = {**batch, "all_other_agents_future_positions": poses[..., :2]}
        taught["all_other_agents_future_yaws"] = poses[..., 2:]
        with torch.no_grad():
            logits, tokens = model.next_token_logits(taught)
        wanted = tokens.nearest[:, :, -3:, None]
        likelihood = logits[:, :, -3:].log_softmax(dim=-1).gather(-1, wanted).sum(dim=(-1, -2))
        np.testing.assert_allclose(likelihood, found.log_likelihoods[:, number], atol=1e-3)


def test_at_temperature_zero_all_are_greedy(model, batch):
    cold = model.roll_out(batch, temperature=0.0).poses
    assert torch.equal(cold, cold[:, :1].expand_as(cold))
    warm = model.roll_out(batch, temperature=1.0).poses
    assert torch.equal(warm[:, 0], cold[:, 0])
    assert not torch.equal(warm[:, 1], warm[:, 2])
    free = model.roll_out(batch, temperature=1.0, first_is_greedy=False).poses
    assert not torch.equal(free[:, 0], cold[:, 0])
    assert torch.equal(free[:, 1:], warm[:, 1:])


def test_tokens_come_as_often_as_the_logits_say():
    logits = torch.tensor([0.0, math.log(3.0), -math.inf, math.log(4.0), -math.inf])
    uniforms = (torch.arange(800, dtype=torch.float64) + 0.5) / 800
    counts = torch.bincount(choose_tokens(logits.expand(800, 5), uniforms, 1.0), minlength=5)
    assert counts.tolist() == [100, 300, 0, 400, 0]
    cold = torch.bincount(choose_tokens(logits.expand(800, 5), uniforms, 0.5), minlength=5)
    np.testing.assert_allclose(cold / 800, torch.tensor([1, 9, 0, 16, 0]) / 26, atol=2e-3)
    assert (choose_tokens(logits.expand(800, 5), uniforms, 0.0) == 3).all()
    assert choose_tokens(logits, torch.tensor(1 - 1e-16, dtype=torch.float64), 1.0) == 3


def test_what_is_drawn_depends_on_no_generator_and_no_neighbour(model, batch):
    state = torch.random.get_rng_state()
    first, again = model(batch), model(batch)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(first[key], again[key]) for key in first)
    alone = model({key: value[1:2] for key, value in batch.items()})
    for key, value in alone.items():
        np.testing.assert_allclose(value, first[key][1:2], atol=1e-3, err_msg=key)
    assert not torch.equal(model.roll_out(batch, seed=1).poses, model.roll_out(batch, seed=0).poses)


def test_draws_are_of_tracks_not_of_rows(batch):
    uniforms = draw_uniforms(batch, 5, num_rollouts=2, num_tokens=3)
    assert uniforms.shape == (3, 2, 4, 3)
    swapped = {**batch, "all_other_agents_track_ids": batch["all_other_agents_track_ids"].flip(1)}
    assert torch.equal(draw_uniforms(swapped, 5, num_rollouts=2, num_tokens=3), uniforms.flip(2))
    assert torch.equal(draw_uniforms(batch, 5, num_rollouts=1, num_tokens=1), uniforms[:, :1, :, :1])


def test_who_is_not_there_stays(model, batch):
    gone = {key: value.clone() for key, value in batch.items()}
    gone["all_other_agents_history_availability"][:, 2] = False
    poses = model.roll_out(gone).poses
    assert (poses[:, :, 2] == 0).all()
    assert (poses[:, :, 1] != 0).any()


def test_without_tokens_nothing_is_predicted(batch):
    with pytest.raises(UnsupportedValueError, match="the motion tokens are not set"):
        MotionTokenModel(TIMES, num_tokens=4, dim=8, num_heads=2).eval()(batch)


@pytest.mark.parametrize("options", [{"num_rollouts": 0}, {"temperature": -1.0}, {"base": "idm"}, {"num_heads": 5}])
def test_what_cannot_be_is_refused(options):
    with pytest.raises(InvalidArgumentError):
        MotionTokenModel(TIMES, **{"num_tokens": 4, "dim": 8, "num_heads": 2, **options})


def test_attention_sees_nothing_where_nothing_is():
    attention = RelativeAttention(8, 2, 4)
    queries, sources, edges = torch.rand(2, 3, 8), torch.rand(2, 5, 8), torch.rand(2, 3, 5, 4)
    seen = attention(queries, sources, edges, torch.zeros(2, 3, 5, dtype=torch.bool))
    assert (seen == 0).all()
    chosen = torch.arange(5).expand(2, 3, 5)
    is_seen = torch.rand(2, 3, 5) > 0.4
    all_of_them = attention(queries, sources, edges, is_seen)
    np.testing.assert_allclose(
        attention(queries, sources, edges, is_seen, chosen).detach(), all_of_them.detach(), atol=1e-6
    )


def test_it_learns_a_handful_of_samples_by_heart(batch):
    model = make_model(batch, num_tokens=64, token_noise_m=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(60):
        losses = model(batch)
        optimizer.zero_grad()
        losses["loss"].backward()
        optimizer.step()
    assert losses["accuracy"].item() > 0.95
    assert losses["loss"].item() < 0.3
    found = model.eval()(batch)
    errors_m = (found["agent_positions"] - batch["all_other_agents_future_positions"]).norm(dim=-1)
    assert errors_m.mean().item() < 0.15
