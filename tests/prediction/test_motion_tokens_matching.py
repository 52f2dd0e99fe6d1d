"""Motion tokens: poses on the way, matching by rolling, and what tokens are differences to; all computed by hand."""

import math

import numpy as np
import pytest
import torch

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import InvalidArgumentError
from l5kit.prediction.vectorized.motion_tokens_fitting import fit_vocabulary, true_differences
from l5kit.prediction.vectorized.motion_tokens_matching import Motions, MotionTokeniser, TokenTimes, read_motions
from l5kit.prediction.vectorized.motion_tokens_vocabulary import cluster_moves, make_vocabulary
from l5kit.prediction.vectorized.plane_poses import compose, poses_along_move, relative_to

QUARTER = math.pi / 2


def tokeniser_of(*tokens, base="none"):
    tokeniser = MotionTokeniser(len(tokens), base=base)
    tokeniser.set_vocabulary(torch.tensor([tokens] * 3), torch.tensor([len(tokens)] * 3))
    return tokeniser


def motions_of(*poses, known=None, last_move=(0.0, 0.0, 0.0), has_last=False):
    known = [True] * len(poses) if known is None else known
    return Motions(
        torch.tensor(poses), torch.tensor(known), torch.tensor(0), torch.tensor(last_move), torch.tensor(has_last)
    )


def along_x(*places, **options):
    return motions_of(*[(x, 0.0, 0.0) for x in places], **options)


def test_a_move_seen_from_its_start_leads_back_to_its_end():
    start, end = torch.tensor([3.0, 4.0, QUARTER]), torch.tensor([3.0, 6.0, math.pi])
    move = relative_to(start, end)
    np.testing.assert_allclose(move, [2.0, 0.0, QUARTER], atol=1e-6)
    np.testing.assert_allclose(compose(start, move), end, atol=1e-6)


@pytest.mark.parametrize(("ratio", "part"), [(1.0, 0.5), (0.0, 0.25), (2.0, 0.75)])
def test_the_way_of_a_move_is_part_of_a_circle(ratio, part):
    poses = poses_along_move(torch.tensor([2.0, 2.0, QUARTER]), torch.tensor(ratio), 2)  # a quarter of a circle of 2 m
    angle = part * QUARTER
    np.testing.assert_allclose(poses[0], [2 * math.sin(angle), 2 * (1 - math.cos(angle)), angle], atol=1e-6)
    np.testing.assert_allclose(poses[1], [2.0, 2.0, QUARTER], atol=1e-6)
    straight = poses_along_move(torch.tensor([4.0, 0.0, 0.0]), torch.tensor(ratio), 2)
    np.testing.assert_allclose(straight, [[4 * part, 0, 0], [4, 0, 0]], atol=1e-6)


def test_each_token_begins_where_the_one_before_has_ended():
    found = tokeniser_of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))(along_x(0.0, 0.6, 1.2, 1.8), now=-1)
    assert found.tokens.tolist() == [0, 1, 0, 1]  # each step alone would be the second token
    assert found.poses[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0]
    assert found.has_token.tolist() == [False, True, True, True]


def test_tokens_are_seen_from_where_the_agent_looks():
    tokeniser = tokeniser_of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, QUARTER))
    found = tokeniser(motions_of((0.0, 0.0, 0.0), (1.0, 0.0, QUARTER), (1.0, 1.0, QUARTER)), now=-1)
    assert found.tokens.tolist() == [0, 2, 1]
    np.testing.assert_allclose(found.poses[2], [1.0, 1.0, QUARTER], atol=1e-6)


def test_a_radian_is_worth_the_lever_of_the_class():
    tokeniser = tokeniser_of((0.5, 0.0, 0.0), (0.0, 0.0, 0.5))
    difference = torch.tensor([[0.3, 0.0, 0.35]] * 2)  # 2 m for a vehicle, 0.3 m for a pedestrian
    assert tokeniser.nearest_tokens(difference, torch.tensor([0, 2])).tolist() == [1, 0]


def test_after_a_gap_and_now_tokens_begin_at_the_truth():
    tokeniser = tokeniser_of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    gap = tokeniser(along_x(0.0, 0.6, 9.0, 5.0, 5.9, known=[True, True, False, True, True]), now=-1)
    assert gap.has_token.tolist() == [False, True, False, False, True]
    assert gap.poses[3:, 0].tolist() == [5.0, 6.0]
    now = tokeniser(along_x(0.0, 0.6, 1.2, last_move=(0.6, 0.0, 0.0), has_last=True), now=1)
    np.testing.assert_allclose(now.poses[:, 0], [0.0, 0.6, 1.6], atol=1e-6)
    np.testing.assert_allclose(now.moves[1], [0.6, 0.0, 0.0], atol=1e-6)
    assert now.tokens.tolist() == [0, 1, 1]


def test_what_is_followed_with_noise_leads_back():
    tokeniser = tokeniser_of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    found = tokeniser(along_x(*[0.5 * step for step in range(40)]), now=-1, noise_m=1.0)
    assert (found.tokens != found.nearest).any()
    assert (found.poses[:, 0] - 0.5 * torch.arange(40)).abs().max() < 5


@pytest.mark.parametrize(
    ("base", "wanted"),
    [
        ("none", (0.0, 0.0, 0.0)),
        ("constant_velocity", (0.0, -2.0, 0.0)),  # 2 m ahead before the quarter turn to the left
        ("ctrv", (2.0, 0.0, QUARTER)),
        ("ctra", (1.0, 0.0, QUARTER / 2)),  # 3 m, 2 m, then 1 m
    ],
)
def test_how_the_last_move_goes_on(base, wanted):
    last, before = torch.tensor([2.0, 0.0, QUARTER]), torch.tensor([3.0, 0.0, 0.0])
    found = MotionTokeniser(1, base=base).base_moves(last, before, torch.tensor(True))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("last_m", "before_m", "known", "wanted_m"),
    [
        (1.0, 3.0, True, 0.0),
        (0.0, 1.0, True, 0.0),
        (2.0, 0.5, True, 3.5),
        (1.0, 0.0, True, 2.0),
        (2.0, 9.0, False, 2.0),
    ],
)
def test_nobody_is_taken_backwards(last_m, before_m, known, wanted_m):
    moves = torch.tensor([[last_m, 0.0, 0.0], [before_m, 0.0, 0.0]])
    found = MotionTokeniser(1, base="ctra").base_moves(moves[0], moves[1], torch.tensor(known))
    np.testing.assert_allclose(found, [wanted_m, 0.0, 0.0], atol=1e-6)


def test_differences_need_a_move_before():
    tokeniser = tokeniser_of((0.0, 0.0, 0.0), (0.5, 0.0, 0.0), base="ctrv")
    found = tokeniser(along_x(0.0, 1.0, 2.0, 3.6), now=-1)
    assert found.has_token.tolist() == [False, False, True, True]
    assert found.tokens.tolist() == [0, 0, 0, 1]
    assert found.poses[:, 0].tolist() == [0.0, 1.0, 2.0, 3.5]


@pytest.mark.parametrize("base", ["none", "constant_velocity", "ctrv", "ctra"])
def test_tokens_that_are_the_differences_lead_to_the_truth(base):
    generator = torch.Generator().manual_seed(1)
    moves = torch.rand(12, 3, generator=generator) * torch.tensor([2.0, 0.2, 0.3]) + torch.tensor([1.0, 0.0, 0.0])
    poses = [torch.zeros(3)]
    for move in moves:
        poses.append(compose(poses[-1], move))
    motions = motions_of(*[tuple(pose.tolist()) for pose in poses])
    differences, classes = true_differences(MotionTokeniser(1, base=base), motions)
    assert len(differences) == len(classes) == (12 if base == "none" else 11)
    tokeniser = tokeniser_of(*map(tuple, differences.tolist()), base=base)
    found = tokeniser(motions, now=-1)
    np.testing.assert_allclose(found.poses, motions.poses, atol=1e-4)


def test_motions_are_read_at_the_ends_of_tokens():
    step = torch.arange(7.0)
    batch = {
        "all_other_agents_types": torch.tensor([[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"], 3]]),
        "all_other_agents_history_positions": torch.stack((-step, 0 * step), dim=-1).expand(1, 2, 7, 2),
        "all_other_agents_history_yaws": torch.zeros(1, 2, 7, 1),
        "all_other_agents_history_availability": torch.ones(1, 2, 7, dtype=torch.bool),
        "all_other_agents_future_positions": torch.stack((step[:6] + 1, 0 * step[:6]), dim=-1).expand(1, 2, 6, 2),
        "all_other_agents_future_yaws": torch.zeros(1, 2, 6, 1),
        "all_other_agents_future_availability": torch.ones(1, 2, 6, dtype=torch.bool),
    }
    batch["all_other_agents_history_availability"] = torch.tensor([[[1, 1, 0, 0, 0, 0, 1], [1, 0, 0, 1, 0, 0, 0]]]) > 0
    times = TokenTimes(num_steps=2, num_past_steps=3, num_past_tokens=2, num_future_tokens=3)
    found = read_motions(batch, times, MotionTokeniser(1).class_of_label, with_future=True)
    assert found.poses[0, 0, :, 0].tolist() == [-6, 0, 0, 2, 4, 6]  # the second is not known
    assert found.is_known[0].tolist() == [[True, False, True, True, True, True], [False, True, True, True, True, True]]
    assert found.classes.tolist() == [[2, 0]]
    assert found.last_move[0, :, 0].tolist() == [3.0, 3.0]  # one step long three times, and three steps long
    assert found.has_last_move.all()
    with pytest.raises(InvalidArgumentError, match="6 past steps"):
        read_motions(batch, TokenTimes(2, 4, 2, 3), MotionTokeniser(1).class_of_label, with_future=True)
    with pytest.raises(InvalidArgumentError, match="6 future steps"):
        read_motions(batch, TokenTimes(2, 3, 2, 4), MotionTokeniser(1).class_of_label, with_future=True)
    tokeniser = MotionTokeniser(4)
    fit_vocabulary(tokeniser, [batch], times)
    assert tokeniser.is_fitted
    np.testing.assert_allclose(tokeniser.vocabulary[0, :3], [[0, 0, 0], [2, 0, 0], [3, 0, 0]], atol=1e-6)


def test_few_moves_are_tokens_themselves():
    moves = np.array([[3.0, 0, 0], [1.0, 0, 0], [0, 0, 0], [1.0, 0, 0]])
    assert cluster_moves(moves, 5, lever_m=2.0).tolist() == [[0, 0, 0], [1, 0, 0], [3, 0, 0]]
    assert cluster_moves(moves, 1, lever_m=2.0).tolist() == [[0, 0, 0]]


def test_many_moves_are_clustered_evenly():
    rng = np.random.default_rng(0)
    moves = np.column_stack([rng.uniform(0, 8, 5000), np.zeros(5000), np.zeros(5000)])
    moves[:3000, 0] *= 0.01  # mostly standing
    tokens = cluster_moves(moves, 41, lever_m=2.0)
    assert len(tokens) == 41
    errors_m = np.abs(moves[:, None, 0] - tokens[:, 0]).min(axis=1)
    assert errors_m.max() < 0.25  # the mean distance of tokens is 0.2 m
    np.testing.assert_array_equal(tokens, cluster_moves(moves, 41, lever_m=2.0))


def test_a_class_without_moves_has_those_of_all():
    tokens, sizes = make_vocabulary(np.array([[1.0, 0, 0], [2.0, 0, 0]]), np.array([0, 0]), 4)
    assert sizes.tolist() == [3, 3, 3]
    assert tokens.shape == (3, 4, 3)
    assert tokens[1].tolist() == tokens[0].tolist()
    with pytest.raises(InvalidArgumentError, match="there are no moves"):
        make_vocabulary(np.zeros((0, 3)), np.zeros(0, np.int64), 4)


def test_labels_have_classes():
    classes = MotionTokeniser(1).class_of_label
    names = ("CAR", "CYCLIST", "MOTORCYCLE", "PEDESTRIAN", "BUS", "UNKNOWN")
    assert [classes[PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]] for name in names] == [0, 1, 1, 2, 0, 0]


@pytest.mark.parametrize(("shape", "sizes"), [((3, 5, 3), [1, 1, 1]), ((2, 4, 3), [1, 1]), ((3, 4, 3), [1, 0, 1])])
def test_tokens_of_another_shape_are_refused(shape, sizes):
    with pytest.raises(InvalidArgumentError, match="tokens have shape"):
        MotionTokeniser(4).set_vocabulary(torch.zeros(shape), torch.tensor(sizes))
