"""Fits of a car's path to goal poses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic import ackerman_steering_model as model
from l5kit.kinematic import fit_ackerman_model_approximate, fit_ackerman_model_exact
from support.tolerances import FLOAT32, FLOAT32_LONG, FLOAT64, NETWORK

MAX_STEER = math.radians(45) * 0.1
TOLERANCE = FLOAT32
"""Of the known answers, which are printed with six decimals."""


def fit_straight(num_steps=6, *, start=(0.5, 1.0, 0.1, 1.0), **options):
    """Fit a start next to a straight road along x; the goal speeds have no weight."""
    ones, zeros = np.ones(num_steps), np.zeros(num_steps)
    goals = (np.arange(1.0, num_steps + 1), zeros, zeros, ones)
    return fit_ackerman_model_exact(*start, *goals, ones, ones, ones, zeros, **options)


def make_exact_fit(num_steps, seed=0):
    rng = np.random.default_rng(seed)
    return model._ExactFit(
        start=rng.normal(size=(4, num_steps)),
        goals=rng.normal(size=(4, num_steps)),
        goal_weights=rng.uniform(0.1, 2, (4, num_steps)),
        control_weights=rng.uniform(0.1, 2, 2 * num_steps),
    )


def make_approximate_fit(num_steps, seed=0):
    rng = np.random.default_rng(seed)
    return model._ApproximateFit(
        goals=rng.normal(size=(4, num_steps)),
        goal_weights=rng.uniform(0.1, 2, (4, num_steps)),
        motion_weights=rng.uniform(0.1, 2, (4, num_steps)),
    )


def central_differences(function, point, step=1e-6):
    columns = [
        (function(point + step * unit) - function(point - step * unit)) / (2 * step) for unit in np.eye(len(point))
    ]
    return np.stack(columns, axis=1)


def drive(x, y, r, v, acc, steer):
    """Return the states of the model in a loop."""
    states = []
    for each_acc, each_steer in zip(acc, steer, strict=True):
        r += each_steer
        v += each_acc
        x += v * math.cos(r)
        y += v * math.sin(r)
        states.append((x, y, r, v))
    return np.array(states).T


def test_exact_fit_gives_the_known_answer():
    x, y, r, v, acc, steer = fit_straight()
    np.testing.assert_allclose(x, [1.429004, 2.337956, 3.245090, 4.153150, 5.064972, 5.979628], atol=TOLERANCE)
    np.testing.assert_allclose(y, [1.019940, 0.968001, 0.844216, 0.662039, 0.461374, 0.259474], atol=TOLERANCE)
    np.testing.assert_allclose(r, [0.021460, -0.057080, -0.135619, -0.197994, -0.216617, -0.217255], atol=TOLERANCE)
    np.testing.assert_allclose(v, [0.929218, 0.910434, 0.915541, 0.926154, 0.933642, 0.936674], atol=TOLERANCE)
    np.testing.assert_allclose(
        steer, [-0.078540, -0.078540, -0.078540, -0.062374, -0.018623, -0.000638], atol=TOLERANCE
    )
    np.testing.assert_allclose(acc, np.diff(v, prepend=1.0), atol=FLOAT64)
    assert all(each.shape == (6,) and each.dtype == np.float64 for each in (x, y, r, v, acc, steer))


def test_approximate_fit_gives_the_known_answer():
    ones = np.ones(6)
    goals = (np.arange(1.0, 7.0), np.array([0, 0.1, 0.3, 0.2, 0.5, 0.6]), np.zeros(6), ones)
    x, y, r, v = fit_ackerman_model_approximate(*goals, *[ones] * 8)
    np.testing.assert_allclose(y, [0.040177, 0.125794, 0.242380, 0.290961, 0.452031, 0.548656], atol=TOLERANCE)
    np.testing.assert_allclose(r, [0.045379, 0.050536, 0.040179, 0.061617, 0.045212, 0.022606], atol=TOLERANCE)
    np.testing.assert_allclose(v, [1.001691, 1.001980, 1.001518, 1.002924, 1.001884, 1.000942], atol=TOLERANCE)
    np.testing.assert_allclose(x, goals[0], atol=1e-3)


def test_exact_fit_takes_start_values_as_arrays():
    as_arrays = fit_straight(start=[np.full(6, value) for value in (0.5, 1.0, 0.1, 1.0)])
    for given_array, given_scalar in zip(as_arrays, fit_straight(), strict=True):
        np.testing.assert_array_equal(given_array, given_scalar)


def test_exact_fit_of_a_path_the_car_can_drive_follows_it():
    """With weightless controls a path inside the bounds is reached, also where headings pass pi."""
    steer, acc = np.array([0.05, 0.05, -0.02, 0.0, 0.03]), np.array([0.1, 0.0, -0.1, 0.05, 0.0])
    goals = drive(3.0, -2.0, 3.1, 1.0, acc, steer)
    goals[2] = np.mod(goals[2] + math.pi, 2 * math.pi) - math.pi
    ones = np.ones(5)
    x, y, r, v, fitted_acc, fitted_steer = fit_ackerman_model_exact(
        3.0, -2.0, 3.1, 1.0, *goals, ones, ones, ones, ones, ws=0.0, wa=0.0
    )
    np.testing.assert_allclose([x, y, v], goals[[0, 1, 3]], atol=FLOAT32_LONG)
    np.testing.assert_allclose(r, drive(3.0, -2.0, 3.1, 1.0, acc, steer)[2], atol=FLOAT32_LONG)
    np.testing.assert_allclose(fitted_acc, acc, atol=NETWORK)
    np.testing.assert_allclose(fitted_steer, steer, atol=NETWORK)


@pytest.mark.parametrize("num_steps", [1, 2, 12])
def test_exact_fit_obeys_model_and_bounds(num_steps):
    start = (0.0, 4.0, 1.0, 1.0)
    bounds = {"min_acc": -0.1, "max_acc": 0.05, "min_steer": -0.04, "max_steer": 0.02}
    *states, acc, steer = fit_straight(num_steps, start=start, ws=0.1, wa=0.1, **bounds)
    np.testing.assert_allclose(states, drive(*start, acc, steer), atol=FLOAT64)
    assert acc.min() >= -0.1
    assert acc.max() <= 0.05
    assert steer.min() >= -0.04
    assert steer.max() <= 0.02
    assert steer.min() == pytest.approx(-0.04, abs=1e-3)


@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_f9_exact_jacobian_equals_finite_differences(num_steps):
    fit = make_exact_fit(num_steps)
    controls = np.random.default_rng(1).normal(scale=0.1, size=2 * num_steps)
    jacobian = fit.jacobian(controls)
    assert jacobian.shape == (6 * num_steps, 2 * num_steps)
    np.testing.assert_allclose(jacobian, central_differences(fit.residuals, controls), atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(arrays(np.float64, 6, elements=st.floats(-0.3, 0.3)))
def test_f9_exact_jacobian_equals_sums_in_a_loop(controls):
    fit = make_exact_fit(3)
    _, _, r, v = fit.roll_out(controls)
    jacobian = fit.jacobian(controls).reshape(6, 3, 2, 3)
    for row in range(3):
        for column in range(3):
            steps = range(column, row + 1)
            expected = [
                [-sum(v[k] * math.sin(r[k]) for k in steps), sum(math.cos(r[k]) for k in steps)],
                [sum(v[k] * math.cos(r[k]) for k in steps), sum(math.sin(r[k]) for k in steps)],
            ]
            expected = np.array(expected) * fit.goal_weights[:2, row, None]
            np.testing.assert_allclose(jacobian[:2, row, :, column], expected, atol=FLOAT64)


@pytest.mark.parametrize("num_steps", [1, 2, 5])
def test_approximate_jacobian_equals_finite_differences(num_steps):
    fit = make_approximate_fit(num_steps)
    states = np.random.default_rng(1).normal(scale=0.5, size=4 * num_steps)
    numeric = central_differences(lambda point: fit.residuals(point.reshape(4, num_steps)), states)
    np.testing.assert_allclose(fit.jacobian(states.reshape(4, num_steps)), numeric, atol=1e-7)


def test_approximate_fit_of_a_path_the_car_can_drive_keeps_it():
    t = np.arange(5.0)
    goals = (t * math.cos(0.3), t * math.sin(0.3), np.full(5, 0.3), np.ones(5))
    for fitted, goal in zip(fit_ackerman_model_approximate(*goals, *[1.0] * 8), goals, strict=True):
        np.testing.assert_allclose(fitted, goal, atol=FLOAT64)


def test_approximate_fit_leaves_states_without_weights_where_they_are():
    """Without any weight every step solves 0 = 0; the smallest solution moves nothing."""
    goals = np.random.default_rng(0).normal(size=(4, 4))
    np.testing.assert_array_equal(fit_ackerman_model_approximate(*goals, *[0.0] * 8), goals)


def test_approximate_fit_does_not_use_the_last_motion_weights():
    goals, weights = np.random.default_rng(0).normal(size=(4, 4)), np.ones((8, 4))
    other = weights.copy()
    other[:4, -1] = 100.0
    np.testing.assert_array_equal(
        fit_ackerman_model_approximate(*goals, *weights), fit_ackerman_model_approximate(*goals, *other)
    )


def test_fits_leave_their_arguments():
    read_only = np.arange(1.0, 5.0)
    read_only.setflags(write=False)
    fit_ackerman_model_exact(*[read_only] * 12)
    fit_ackerman_model_approximate(*[read_only] * 12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: fit_straight(0), r"gx has shape \(0,\)", id="no goals"),
        pytest.param(
            lambda: fit_straight(start=(np.zeros(5), 0.0, 0.0, 1.0)), r"x0 has shape \(5,\)", id="start of other length"
        ),
        pytest.param(lambda: fit_straight(start=(math.nan, 0, 0, 1)), "x0 holds values that", id="not finite"),
        pytest.param(lambda: fit_straight(min_acc=0.1), "min_acc is 0.1", id="acceleration must be positive"),
        pytest.param(lambda: fit_straight(max_steer=-0.01), "max_steer is -0.01", id="steering must be negative"),
        pytest.param(
            lambda: fit_ackerman_model_approximate(np.zeros((2, 2)), *[1.0] * 11), r"gx has shape \(2, 2\)", id="2-D"
        ),
        pytest.param(
            lambda: fit_ackerman_model_approximate(np.zeros(2), np.zeros(3), *[1.0] * 10), "gy has shape", id="lengths"
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()
