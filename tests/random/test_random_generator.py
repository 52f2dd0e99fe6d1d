"""Generators that return one sample a call."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.random import (
    GaussianRandomGenerator,
    LambdaRandomGenerator,
    RandomGenerator,
    ReplayRandomGenerator,
    UniformRandomGenerator,
)
from l5kit.random.seeding import derive_rng, mix_seeds, split_seed

MEAN, STD = np.array([0.0, 5.0]), np.array([1.0, 2.0])

SEEDED = {
    "gaussian": lambda: GaussianRandomGenerator(MEAN, STD),
    "gaussian, other seed": lambda: GaussianRandomGenerator(MEAN, STD, random_seed=7),
    "gaussian, fresh entropy": lambda: GaussianRandomGenerator(MEAN, STD, random_seed=None),
    "uniform": lambda: UniformRandomGenerator(MEAN, MEAN + STD),
    "uniform, own seed": lambda: UniformRandomGenerator(MEAN, MEAN + STD, random_seed=7),
}
seeded = pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED.keys())

seeds = st.integers(0, 2**64 - 1)


def draw(generator: RandomGenerator, num_samples: int = 5) -> np.ndarray:
    return np.array([generator() for _ in range(num_samples)])


def test_base_class_is_abstract():
    with pytest.raises(TypeError):
        RandomGenerator()


def test_a_generator_written_for_1x_needs_only_sample():
    class Constant(RandomGenerator):
        def _sample(self):
            return 3.0

    generator = Constant()
    generator.reseed(1)
    assert generator() == 3.0


def test_lambda_returns_what_the_function_returns():
    values = iter([1.5, "two"])
    generator = LambdaRandomGenerator(lambda: next(values))
    generator.reseed(3)
    assert [generator(), generator()] == [1.5, "two"]


def test_replay_returns_arrays_and_ends_with_an_index_error():
    generator = ReplayRandomGenerator([(4, 1, 0.33), (0, 0, 0)])
    first = generator()
    assert isinstance(first, np.ndarray)
    np.testing.assert_array_equal(first, [4, 1, 0.33])
    generator.reseed(0)
    np.testing.assert_array_equal(generator(), [0, 0, 0])
    with pytest.raises(IndexError, match="all 2 values"):
        generator()


def test_replay_hands_out_copies():
    values = np.zeros((1, 3))
    ReplayRandomGenerator(values)()[:] = 9
    np.testing.assert_array_equal(values, np.zeros((1, 3)))


def test_gaussian_draws_of_1x():
    generator = GaussianRandomGenerator(mean=MEAN, std=STD)
    np.testing.assert_allclose(generator(), [0.12573, 4.73579], atol=5e-6)
    np.testing.assert_allclose(generator(), [0.640423, 5.2098], atol=5e-6)
    np.testing.assert_array_equal(generator.mean, MEAN)
    np.testing.assert_array_equal(generator.std, STD)
    assert isinstance(generator.rng, np.random.Generator)


def test_gaussian_without_spread_returns_the_mean():
    np.testing.assert_array_equal(GaussianRandomGenerator([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])(), [1, 2, 3])


def test_uniform_draws_from_the_global_state_by_default():
    generator = UniformRandomGenerator(np.array([0.0, -1.0]), np.array([1.0, 1.0]))
    np.random.seed(5)  # noqa: NPY002
    samples = draw(generator)
    np.random.seed(5)  # noqa: NPY002
    expected = [np.random.uniform([0.0, -1.0], [1.0, 1.0]) for _ in range(5)]  # noqa: NPY002
    np.testing.assert_array_equal(samples, expected)


def test_uniform_with_own_generator_leaves_the_global_state_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    by_seed, by_rng = (
        UniformRandomGenerator(0, 1, random_seed=3),
        UniformRandomGenerator(0, 1, rng=np.random.default_rng(3)),
    )
    np.testing.assert_array_equal(draw(by_seed), draw(by_rng))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_uniform_stays_within_its_bounds():
    samples = draw(UniformRandomGenerator(MEAN, MEAN + STD, random_seed=0), 200)
    assert (samples >= MEAN).all()
    assert (samples < MEAN + STD).all()


@seeded
def test_f5_workers_draw_differently_and_reproducibly(make):
    copies = [make() for _ in range(3)]
    for generator, seed in zip(copies, [11, 12, 11], strict=True):
        generator.reseed(seed)
    first, second, again = (draw(generator) for generator in copies)
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, second).any()


@seeded
def test_f5_reseeding_does_not_depend_on_what_was_drawn_before(make):
    used, fresh = make(), make()
    draw(used, 9)
    used.reseed(4)
    fresh.reseed(4)
    np.testing.assert_array_equal(draw(used), draw(fresh))


def test_f5_reseeded_streams_differ_from_the_default_one_and_by_own_seed():
    default, zero, other = (GaussianRandomGenerator(0.0, 1.0, random_seed=seed) for seed in (0, 0, 1))
    zero.reseed(0)
    other.reseed(0)
    samples = [draw(default), draw(zero), draw(other)]
    assert not np.isclose(samples[0], samples[1]).any()
    assert not np.isclose(samples[1], samples[2]).any()


@seeded
def test_generators_survive_pickling_in_the_middle_of_a_stream(make):
    generator = make()
    generator.reseed(1)
    draw(generator)
    np.testing.assert_array_equal(draw(pickle.loads(pickle.dumps(generator))), draw(generator))


@given(seeds, seeds, st.none() | seeds)
def test_derived_streams_are_equal_only_for_equal_seeds(seed, other, random_seed):
    stream = derive_rng(seed, random_seed=random_seed).random(4)
    np.testing.assert_array_equal(stream, derive_rng(seed, random_seed=random_seed).random(4))
    if seed != other:
        assert not np.array_equal(stream, derive_rng(other, random_seed=random_seed).random(4))


@given(seeds)
def test_split_seeds_are_distinct_and_reproducible(seed):
    parts = split_seed(seed, 3)
    assert parts == split_seed(seed, 3)
    assert len({*parts}) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: GaussianRandomGenerator(0.0, -1.0), "std is -1.0", id="negative deviation"),
        pytest.param(lambda: GaussianRandomGenerator(0.0, 1.0).reseed(-1), "seed is -1", id="negative seed"),
        pytest.param(lambda: mix_seeds(3, -1), "a seed is -1", id="negative seed to mix"),
        pytest.param(lambda: split_seed(-1, 2), "seed is -1", id="negative seed to split"),
        pytest.param(
            lambda: UniformRandomGenerator(0, 1, random_seed=1, rng=np.random.default_rng()),
            "both random_seed",
            id="seed and generator",
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_mixed_seeds_depend_on_every_seed_and_its_place():
    mixed = [mix_seeds(*seeds) for seeds in ((), (0,), (1,), (0, 0), (0, 1), (1, 0), (2**32,), (0, 1, 0), (2**64, 1))]
    assert len(set(mixed)) == len(mixed)
    assert mix_seeds(3, 1, 4) == mix_seeds(3, 1, 4)
    assert all(0 <= seed < 2**63 for seed in mixed)
