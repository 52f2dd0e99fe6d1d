"""Perturbed starts of the AV."""

import math
import pickle
import warnings

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import rotation33_as_yaw, yaw_as_rotation33
from l5kit.kinematic import AckermanPerturbation, Perturbation
from l5kit.random import GaussianRandomGenerator, LambdaRandomGenerator, ReplayRandomGenerator
from support.logs import make_frames, without_face_intervals
from support.tolerances import FLOAT32, FLOAT32_LONG, FLOAT64

OFFSETS = (1.0, 0.5, 0.1)
"""Lateral m, longitudinal m, yaw rad."""


def frames_at(positions, *, z=7.0, tilt=0.0, has_lights=True):
    """Return frames that look along x, pitched by ``tilt``."""
    times_ns = np.arange(len(positions)) + 1
    frames, *_ = make_frames(len(positions), positions_m=[(x, y, z) for x, y in positions], timestamps_ns=times_ns)
    cos, sin = math.cos(tilt), math.sin(tilt)
    frames["ego_rotation"] = [[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]
    return frames if has_lights else without_face_intervals(frames)


def make_straight(spacing=1.0, num_future=6, **options):
    """Return history (newest first) and future of a drive along x that is at 0 now."""
    history = frames_at([(0, 0), (-spacing, 0)], **options)
    return history, frames_at([(spacing * step, 0) for step in range(1, num_future + 1)], **options)


def always(offsets=OFFSETS, **options):
    return AckermanPerturbation(LambdaRandomGenerator(lambda: np.array(offsets)), perturb_prob=1.0, **options)


def get_yaws(frames):
    return [rotation33_as_yaw(rotation) for rotation in frames["ego_rotation"]]


@pytest.fixture(autouse=True)
def _global_seed():
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


@pytest.mark.parametrize("has_lights", [True, False], ids=["four arrays", "three arrays"])
def test_known_answer(has_lights):
    history, future = make_straight(has_lights=has_lights)
    new_history, new_future = always().perturb(history, future)
    assert new_history.dtype == new_future.dtype == history.dtype
    assert ("traffic_light_faces_index_interval" in history.dtype.names) == has_lights
    np.testing.assert_allclose(new_history[0]["ego_translation"], [0.5, 1.0, 7.0])
    assert rotation33_as_yaw(new_history[0]["ego_rotation"]) == pytest.approx(0.1)
    assert new_history[1] == history[1]
    np.testing.assert_allclose(
        new_future["ego_translation"][:, 0], [1.429004, 2.337956, 3.245090, 4.153150, 5.064972, 5.979628], atol=FLOAT32
    )
    np.testing.assert_allclose(
        new_future["ego_translation"][:, 1], [1.019940, 0.968001, 0.844216, 0.662039, 0.461374, 0.259474], atol=FLOAT32
    )
    np.testing.assert_allclose(
        get_yaws(new_future), [0.021460, -0.057080, -0.135619, -0.197994, -0.216617, -0.217255], atol=FLOAT32
    )
    np.testing.assert_array_equal(new_future["ego_translation"][:, 2], 7.0)
    np.testing.assert_array_equal(new_future["timestamp"], future["timestamp"])


@pytest.mark.parametrize(
    ("spacing", "expected_xy", "expected_yaw"),
    [
        pytest.param(0.01, (0.5, 0.0), 0.0, id="standing"),
        pytest.param(1.0, (0.5, 1.0), 0.1, id="driving"),
    ],
)
def test_standing_cars_are_only_moved_along_their_heading(spacing, expected_xy, expected_yaw):
    history, _ = always(min_displacement=1).perturb(*make_straight(spacing))
    np.testing.assert_allclose(history[0]["ego_translation"][:2], expected_xy, atol=FLOAT64)
    assert rotation33_as_yaw(history[0]["ego_rotation"]) == pytest.approx(expected_yaw, abs=FLOAT64)


def test_offsets_are_applied_along_the_heading():
    """The same drive along y: longitudinal is +y, lateral (left) is -x."""
    history, future = make_straight()
    for frames in (history, future):
        frames["ego_translation"][:, :2] = frames["ego_translation"][:, 1::-1]
        frames["ego_rotation"] = yaw_as_rotation33(math.pi / 2)
    new_history, new_future = always().perturb(history, future)
    np.testing.assert_allclose(new_history[0]["ego_translation"][:2], [-1.0, 0.5], atol=FLOAT32)
    straight = always().perturb(*make_straight())[1]["ego_translation"]
    np.testing.assert_allclose(new_future["ego_translation"][:, 1], straight[:, 0], atol=FLOAT32_LONG)
    np.testing.assert_allclose(new_future["ego_translation"][:, 0], -straight[:, 1], atol=FLOAT32_LONG)


def test_moved_frames_lose_roll_and_pitch():
    history, future = always().perturb(*make_straight(tilt=0.2))
    for rotation in (history[0]["ego_rotation"], *future["ego_rotation"]):
        np.testing.assert_array_equal(rotation[2], [0, 0, 1])
    assert history[1]["ego_rotation"][2, 0] == pytest.approx(-math.sin(0.2))


def test_f7_path_is_rounded_to_float32():
    history, future = make_straight()
    for frames in (history, future):
        frames["ego_translation"][:, 0] += 1000.00001
    new_history, _ = always((0.0, 0.0, 0.0)).perturb(history, future)
    assert new_history[0]["ego_translation"][0] == np.float32(1000.00001)


@pytest.mark.parametrize("origin_m", [(900.0, -2_000.0), (20_000.0, 3.0), (5e5, 4e6), (-3e7, 2e7)])
def test_perturbations_are_the_same_anywhere_in_the_world(origin_m):
    history, future = make_straight(spacing=0.83)
    expected = always().perturb(history, future)
    for frames in (history, future):
        frames["ego_translation"][:, :2] += origin_m
    for frames, frames_near_0 in zip(always().perturb(history, future), expected, strict=True):
        moved_m = frames["ego_translation"][:, :2] - origin_m
        np.testing.assert_allclose(moved_m, frames_near_0["ego_translation"][:, :2], atol=1e-3)  # float32 at 2 km
        np.testing.assert_allclose(get_yaws(frames), get_yaws(frames_near_0), atol=1e-3)


@pytest.mark.parametrize("perturb_prob", [0.0, 1.0], ids=["left alone", "perturbed"])
def test_f2_arguments_are_not_changed_and_results_are_copies(perturb_prob):
    history, future = make_straight()
    before = history.copy(), future.copy()
    history.setflags(write=False)
    future.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        perturbation = AckermanPerturbation(LambdaRandomGenerator(lambda: OFFSETS), perturb_prob)
    results = perturbation.perturb(history, future)
    for result, argument, copy in zip(results, (history, future), before, strict=True):
        np.testing.assert_array_equal(argument, copy)
        assert not np.shares_memory(result, argument)
        assert result.flags.writeable
        assert (result == argument).all() == (perturb_prob == 0.0)


@pytest.mark.parametrize("num_future", [1, 6])
def test_cars_that_drive_the_least_displacement_are_moved_to_the_side(num_future):
    driven = make_straight(0.5, num_future)
    for least_m, expected_xy in ((0.5 * num_future, (0.5, 1.0)), (np.nextafter(0.5 * num_future, 9), (0.5, 0.0))):
        history, _ = always(min_displacement=least_m).perturb(*driven)
        np.testing.assert_allclose(history[0]["ego_translation"][:2], expected_xy, atol=FLOAT64)


@pytest.mark.parametrize(("draw", "is_moved"), [(0.0, True), (np.nextafter(0.5, 0), True), (0.5, False)])
def test_a_draw_of_the_probability_itself_leaves_a_sample_alone(draw, is_moved, monkeypatch):
    """A draw is at least 0 and below 1, so that a probability of 0 never moves and one of 1 always does."""
    monkeypatch.setattr(np.random, "rand", lambda: draw)
    perturbation = AckermanPerturbation(LambdaRandomGenerator(lambda: OFFSETS), 0.5)
    history, future = make_straight(num_future=2)
    assert bool(perturbation.perturb(history, future)[0][0] != history[0]) == is_moved
    with pytest.warns(RuntimeWarning, match="perturb_prob is 0"):
        never = AckermanPerturbation(LambdaRandomGenerator(lambda: OFFSETS), 0.0)
    assert never.perturb(history, future)[0][0] == history[0]


def test_probability_decides_with_the_global_draws_of_1x():
    draws = np.random.RandomState(0).rand(20)
    calls = []
    perturbation = AckermanPerturbation(LambdaRandomGenerator(lambda: calls.append(1) or OFFSETS), 0.5)
    history, future = make_straight(num_future=2)
    moved = [bool(perturbation.perturb(history, future)[0][0] != history[0]) for _ in range(20)]
    np.testing.assert_array_equal(moved, draws < 0.5)
    assert 0 < len(calls) == sum(moved) < 20


def test_f5_own_generator_leaves_the_global_state_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    perturbation = AckermanPerturbation(LambdaRandomGenerator(lambda: OFFSETS), 0.5, rng=np.random.default_rng(3))
    history, future = make_straight(num_future=2)
    moved = [bool(perturbation.perturb(history, future)[0][0] != history[0]) for _ in range(12)]
    np.testing.assert_array_equal(moved, np.random.default_rng(3).random(12) < 0.5)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_f5_reseeded_workers_draw_decisions_and_offsets_of_their_own():
    def run(seed):
        np.random.seed(0)  # noqa: NPY002 - forked workers start with the same global state
        generator = GaussianRandomGenerator(np.zeros(3), np.array([0.5, 1.5, 0.5]))
        perturbation = AckermanPerturbation(generator, 0.5)
        perturbation.reseed(seed)
        history, future = make_straight(num_future=2)
        return np.stack([perturbation.perturb(history, future)[0][0]["ego_translation"] for _ in range(16)])

    first, second, again = run(100), run(101), run(100)
    np.testing.assert_array_equal(first, again)
    moved = [(positions[:, :2] != 0).any(axis=1) for positions in (first, second)]
    assert (moved[0] != moved[1]).any()
    both = moved[0] & moved[1]
    assert both.any()
    assert (first[both] != second[both]).any(axis=1).all()


def test_reseeding_accepts_a_plain_function_as_offset_generator():
    perturbation = AckermanPerturbation(lambda: OFFSETS, 1.0)
    perturbation.reseed(1)
    np.testing.assert_allclose(perturbation.perturb(*make_straight())[0][0]["ego_translation"][:2], [0.5, 1.0])


def test_f6_without_future_nothing_is_perturbed():
    history, future = make_straight(num_future=0)
    new_history, new_future = always().perturb(history, future)
    np.testing.assert_array_equal(new_history, history)
    assert new_future.shape == (0,)
    assert not np.shares_memory(new_history, history)


@pytest.mark.parametrize("num_future", [0, 3])
def test_empty_history_is_an_error(num_future):
    _, future = make_straight(num_future=num_future)
    with pytest.raises(InvalidArgumentError, match="history_frames is empty"):
        always().perturb(frames_at([]), future)


def test_one_future_frame_is_enough():
    _, future = always().perturb(*make_straight(num_future=1))
    assert np.isfinite(future["ego_translation"]).all()


def test_replayed_offsets_are_used_one_by_one():
    perturbation = AckermanPerturbation(ReplayRandomGenerator([(4, 1, 0.33), (0, 2, 0)]), 1.0)
    starts = [perturbation.perturb(*make_straight())[0][0]["ego_translation"][:2] for _ in range(2)]
    np.testing.assert_allclose(starts, [(1, 4), (2, 0)])


def test_attributes_and_base_class():
    generator = GaussianRandomGenerator(np.zeros(3), np.ones(3))
    perturbation = AckermanPerturbation(generator, 0.25, 2.0)
    assert isinstance(perturbation, Perturbation)
    assert perturbation.random_offset_generator is generator
    assert (perturbation.perturb_prob, perturbation.min_displacement) == (0.25, 2.0)
    assert pickle.loads(pickle.dumps(perturbation)).perturb_prob == 0.25


def test_a_perturbation_written_for_1x_needs_only_perturb():
    class Identity(Perturbation):
        def perturb(self, history_frames, future_frames):
            return history_frames, future_frames

    Identity().reseed(3)
    with pytest.raises(TypeError):
        Perturbation()


def test_probability_zero_warns():
    with pytest.warns(RuntimeWarning, match="perturb_prob is 0"):
        AckermanPerturbation(LambdaRandomGenerator(lambda: OFFSETS), perturb_prob=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: AckermanPerturbation(lambda: OFFSETS, 1.5), "perturb_prob is 1.5", id="over one"),
        pytest.param(lambda: AckermanPerturbation(lambda: OFFSETS, math.nan), "perturb_prob is nan", id="not a number"),
        pytest.param(
            lambda: always((1.0, 2.0)).perturb(*make_straight()), r"returned shape \(2,\)", id="two offsets only"
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()
