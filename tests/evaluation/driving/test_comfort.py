"""Comfort: filters compared with SciPy, polynomials that they preserve, and the bounds of the score."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import savgol_filter

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.comfort import (
    COMFORT_BOUNDS,
    comfort,
    find_comfort_signals,
    is_comfortable,
    smoothing_matrix,
)
from l5kit.evaluation.driving.ego_states import EgoStates
from support.driving import BODY, STEP_S, stacked, straight_drive
from support.tolerances import FLOAT64_LONG


def drive_of(*, along=0.0, across=0.0, yaws_rad=0.0, num_frames=20):
    """One scene of given accelerations and headings, a number or (F,) each."""
    shape = (1, num_frames)
    accelerations = np.stack([np.broadcast_to(along, shape), np.broadcast_to(across, shape)], axis=-1)
    return EgoStates(
        timestamps_s=STEP_S * np.arange(num_frames)[None],
        is_there=np.ones(shape, bool),
        positions_m=np.zeros((*shape, 2)),
        yaws_rad=np.broadcast_to(yaws_rad, shape).astype(float),
        speeds_mps=np.zeros(shape),
        accelerations_mps2=accelerations.astype(float),
        body=BODY,
    )


TIMES_S = STEP_S * np.arange(20)


def test_no_bit_of_a_signal_depends_on_the_other_scenes():
    generator = np.random.default_rng(3)
    drives = [drive_of(along=generator.normal(size=41), yaws_rad=generator.normal(size=41), num_frames=41)]
    drives += [drive_of(along=generator.normal(size=41), num_frames=41) for _ in range(16)]
    together = find_comfort_signals(stacked(*drives))
    for scene, drive in enumerate(drives):
        alone = find_comfort_signals(drive)
        for name in COMFORT_BOUNDS:
            assert_array_equal(getattr(together, name)[scene], getattr(alone, name)[0], err_msg=name)


@pytest.mark.parametrize(
    ("num_samples", "window", "order", "derivative"),
    [(30, 8, 2, 0), (30, 15, 2, 1), (30, 5, 2, 1), (30, 5, 3, 2), (8, 8, 2, 0), (9, 8, 2, 1), (15, 15, 2, 1)],
)
def test_the_filter_is_that_of_scipy(num_samples, window, order, derivative):
    signal = np.random.default_rng(window).normal(size=num_samples)
    found = smoothing_matrix(num_samples, window, order=order, derivative=derivative) @ signal
    assert_allclose(found, savgol_filter(signal, window, order, deriv=derivative), atol=FLOAT64_LONG)


def test_windows_shrink_to_the_signal():
    assert_array_equal(smoothing_matrix(6, 15, order=2), smoothing_matrix(6, 6, order=2))
    with pytest.raises(InvalidArgumentError, match="more than 2 samples"):
        smoothing_matrix(2, 15, order=2)


def test_jerk_is_the_slope_of_the_acceleration():
    signals = find_comfort_signals(drive_of(along=-3.0 * TIMES_S, across=4.0 * TIMES_S))
    middle = slice(8, 12)
    part = 0.05  # the window of 8 shifts the middle by half a frame, but not both ends
    assert_allclose(signals.jerks_along_mps3[0, middle], -3.0, rtol=part)
    assert_allclose(signals.jerks_across_mps3[0, middle], 4.0, rtol=part)
    assert_allclose(signals.jerks_mps3[0, middle], 5.0, rtol=part)


def test_turning_is_the_slope_of_the_heading_also_over_its_seam():
    turning = find_comfort_signals(drive_of(yaws_rad=np.angle(np.exp(1j * (3.0 + 0.5 * TIMES_S)))))
    assert_allclose(turning.yaw_rates_radps, 0.5, atol=FLOAT64_LONG)
    assert_allclose(turning.yaw_accelerations_radps2, 0.0, atol=1e-7)
    bending = find_comfort_signals(drive_of(yaws_rad=0.4 * TIMES_S**2))
    assert_allclose(bending.yaw_accelerations_radps2, 0.8, atol=1e-7)


@pytest.mark.parametrize(
    ("signals", "score"),
    [
        pytest.param({}, 1.0, id="stands"),
        pytest.param({"along": 2.3}, 1.0, id="accelerates"),
        pytest.param({"along": 2.5}, 0.0, id="accelerates hard"),
        pytest.param({"along": -4.0}, 1.0, id="brakes"),
        pytest.param({"along": -4.1}, 0.0, id="brakes hard"),
        pytest.param({"across": 4.8}, 1.0, id="bends"),
        pytest.param({"across": -4.95}, 0.0, id="bends fast to the right"),
        pytest.param({"along": 2.0 - 4.0 * TIMES_S, "num_frames": 17}, 0.0, id="ends in braking hard"),
        pytest.param({"yaws_rad": 0.9 * TIMES_S}, 1.0, id="turns"),
        pytest.param({"yaws_rad": -1.0 * TIMES_S}, 0.0, id="turns fast"),
        pytest.param({"yaws_rad": 0.2 * TIMES_S**2}, 1.0, id="turns faster and faster"),
        pytest.param({"yaws_rad": 1.0 * (TIMES_S - 0.2) ** 2 * (TIMES_S < 0.4)}, 0.0, id="jumps"),
    ],
)
def test_score(signals, score):
    if "num_frames" in signals:
        signals = {**signals, "along": signals["along"][: signals["num_frames"]]}
    assert comfort(drive_of(**signals)) == score


def test_every_bound_is_looked_at():
    signals = find_comfort_signals(drive_of())
    for name, (least, most) in COMFORT_BOUNDS.items():
        for value, expected in ((least, True), (least - 0.01, False), (most, True), (most + 0.01, False)):
            values = {field: np.zeros((1, 20)) for field in vars(signals)} | {name: np.full((1, 20), value)}
            assert is_comfortable(type(signals)(**values)).all() == expected, (name, value)


def test_scenes_of_fewer_than_17_frames_have_no_score():
    scores = comfort(stacked(drive_of(num_frames=16), drive_of(num_frames=17), straight_drive(2)))
    assert_array_equal(scores, [np.nan, 1.0, np.nan])


def test_a_batch_has_the_signals_of_its_scenes():
    rng = np.random.default_rng(0)
    drives = [drive_of(along=rng.normal(size=n), yaws_rad=rng.normal(size=n), num_frames=n) for n in (20, 5, 31, 20)]
    batch = find_comfort_signals(stacked(*drives))
    for scene, drive in enumerate(drives):
        alone, num_frames = find_comfort_signals(drive), drive.is_there.shape[1]
        for name, values in vars(alone).items():
            assert_allclose(getattr(batch, name)[scene, :num_frames], values[0], rtol=1e-9, atol=FLOAT64_LONG)
            assert np.isnan(getattr(batch, name)[scene, num_frames:]).all()
