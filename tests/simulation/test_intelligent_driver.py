"""Drivers behind leaders, against cases computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.intelligent_driver import (
    AGENT_DRIVER,
    AV_DRIVER,
    Following,
    IntelligentDriverParams,
    intelligent_driver_accelerations,
    intelligent_driver_step,
)
from support.tolerances import FLOAT64

STEP_S = 0.1


def seen(speed, gap=math.inf, leader_speed=0.0, wanted_speed=10.0):
    values = np.broadcast_arrays(speed, gap, leader_speed, wanted_speed)
    return Following(*(np.atleast_1d(np.array(value, dtype=np.float64)) for value in values))


def random_following(num_drivers):
    rng = np.random.default_rng(0)
    gaps_m = np.where(rng.random(num_drivers) < 0.2, np.inf, rng.uniform(-2, 80, num_drivers))
    return Following(
        rng.uniform(0, 20, num_drivers), gaps_m, rng.uniform(-2, 20, num_drivers), rng.uniform(3, 30, num_drivers)
    )


def test_the_published_parameters():
    assert IntelligentDriverParams(1.0, 1.5, 1.0, 2.0, 4.0) == AGENT_DRIVER
    assert IntelligentDriverParams(1.0, 1.5, 1.0, 3.0, 4.0) == AV_DRIVER


@pytest.mark.parametrize(
    ("drivers", "params", "expected_mps2"),
    [
        pytest.param(seen(0.0), AGENT_DRIVER, 1.0, id="free road, standing"),
        pytest.param(seen(5.0), AGENT_DRIVER, 1 - 1 / 16, id="free road, half as fast as wanted"),
        pytest.param(seen(10.0), AGENT_DRIVER, 0.0, id="free road, as fast as wanted"),
        pytest.param(seen(11.0), AGENT_DRIVER, 1 - 1.1**4, id="free road, too fast"),
        pytest.param(seen(20.0), AGENT_DRIVER, -2.0, id="free road, twice as fast as wanted"),
        pytest.param(seen(20.0), AV_DRIVER, -3.0, id="the AV brakes harder"),
        pytest.param(seen(0.0, 1.0), AGENT_DRIVER, 0.0, id="standing at s0 behind a leader"),
        pytest.param(seen(0.0, 2.0), AGENT_DRIVER, 0.75, id="standing at 2 s0"),
        pytest.param(seen(0.0, 0.3), AGENT_DRIVER, 0.0, id="standing closer than s0 counts as s0"),
        pytest.param(seen(0.0, -5.0), AGENT_DRIVER, 0.0, id="overlapping counts as s0"),
        # s* = 1 + 7.5 = 8.5 m, and 1 - 1/16 = (8.5 / s)^2
        pytest.param(seen(5.0, 8.5 / math.sqrt(15 / 16), 5.0), AGENT_DRIVER, 0.0, id="equilibrium gap"),
        # s* = 1 + 6 + 4 (4 - 2) / (2 sqrt 3): braking counts for the AV with b = 3
        pytest.param(seen(4.0, 20.0, 2.0), AV_DRIVER, 1 - 0.4**4 - ((7 + 4 / math.sqrt(3)) / 20) ** 2, id="closing in"),
        # 3 + 2 (2 - 8) / (2 sqrt 2) is below 0, so that s* is s0
        pytest.param(seen(2.0, 2.0, 8.0), AGENT_DRIVER, 1 - 0.2**4 - (1 / 2) ** 2, id="leader drives away"),
        pytest.param(seen(10.0, 20.0, 25.0, 20.0), AGENT_DRIVER, 1 - 0.5**4 - (1 / 20) ** 2, id="and much faster"),
        pytest.param(seen(10.0, 5.0), AGENT_DRIVER, -2.0, id="hardest braking"),
        pytest.param(
            seen(5.0), IntelligentDriverParams(max_acceleration_mps2=1.5, exponent=2.0), 1.5 * 0.75, id="own parameters"
        ),
    ],
)
def test_known_accelerations(drivers, params, expected_mps2):
    found = intelligent_driver_accelerations(drivers, params)
    np.testing.assert_allclose(found, [expected_mps2], rtol=FLOAT64, atol=FLOAT64)


@pytest.mark.parametrize(
    ("drivers", "expected_mps", "expected_m"),
    [
        pytest.param(seen(0.0), 0.1, 0.005, id="starts"),
        pytest.param(seen(10.0), 10.0, 1.0, id="goes on"),
        pytest.param(seen(10.0, 5.0), 9.8, 0.99, id="brakes"),
        pytest.param(seen(0.1, 0.1, 0.0, 0.01), 0.0, 0.0025, id="stops after half a step"),
        pytest.param(seen(0.0, 1.0), 0.0, 0.0, id="stands"),
    ],
)
def test_known_steps(drivers, expected_mps, expected_m):
    speeds_mps, ways_m = intelligent_driver_step(drivers, STEP_S)
    np.testing.assert_allclose(speeds_mps, [expected_mps], atol=FLOAT64)
    np.testing.assert_allclose(ways_m, [expected_m], atol=FLOAT64)


@pytest.mark.parametrize("params", [AGENT_DRIVER, AV_DRIVER], ids=["agent", "av"])
@pytest.mark.parametrize("wanted_mps", [5.0, 10.0, 20.0])
def test_an_approach_to_a_standing_leader_stops_before_it(params, wanted_mps):
    gap_m, speed_mps, slowest = 300.0, 0.0, 0.0
    for _ in range(3000):
        drivers = seen(speed_mps, gap_m, 0.0, wanted_mps)
        slowest = min(slowest, intelligent_driver_accelerations(drivers, params)[0])
        (speed_mps,), (way_m,) = intelligent_driver_step(drivers, STEP_S, params)
        gap_m -= way_m
        assert gap_m > params.standing_gap_m - 0.01
    assert speed_mps < 0.02
    assert gap_m == pytest.approx(params.standing_gap_m, abs=0.5)
    assert slowest >= -params.max_braking_mps2


def test_following_settles_at_the_equilibrium_gap():
    gap_m, speed_mps = 60.0, 9.0
    for _ in range(3000):
        (speed_mps,), (way_m,) = intelligent_driver_step(seen(speed_mps, gap_m, 5.0), STEP_S)
        gap_m += 5.0 * STEP_S - way_m
    assert speed_mps == pytest.approx(5.0, abs=1e-6)
    assert gap_m == pytest.approx(8.5 / math.sqrt(15 / 16), abs=1e-5)


sizes = st.floats(0, 1e6)


@given(sizes, st.floats(-1e6, math.inf, allow_nan=False), st.floats(-100, 100), st.floats(1e-3, 100))
def test_accelerations_keep_to_their_limits_and_speeds_are_never_negative(speed, gap, leader_speed, wanted_speed):
    drivers = seen(speed, gap, leader_speed, wanted_speed)
    assert -2.0 <= intelligent_driver_accelerations(drivers)[0] <= 1.0
    (speed_after,), (way_m,) = intelligent_driver_step(drivers, STEP_S)
    assert speed_after >= 0
    assert 0 <= way_m <= (speed + 1.0 * STEP_S) * STEP_S


def test_a_batch_gives_the_bits_of_its_drivers():
    drivers = random_following(101)
    together = [intelligent_driver_accelerations(drivers), *intelligent_driver_step(drivers, STEP_S)]
    for size in (1, 7, 100):
        parts = [
            Following(*(array[start : start + size] for array in vars(drivers).values()))
            for start in range(0, 101, size)
        ]
        rows = [(intelligent_driver_accelerations(part), *intelligent_driver_step(part, STEP_S)) for part in parts]
        for whole, pieces in zip(together, zip(*rows, strict=True), strict=True):
            assert whole.tobytes() == np.concatenate(pieces).tobytes()


def test_arguments_are_not_changed():
    drivers = random_following(9)
    before = [array.tobytes() for array in vars(drivers).values()]
    intelligent_driver_step(drivers, STEP_S)
    assert [array.tobytes() for array in vars(drivers).values()] == before


def test_no_drivers():
    nobody = random_following(0)
    assert intelligent_driver_accelerations(nobody).shape == (0,)
    assert [array.shape for array in intelligent_driver_step(nobody, STEP_S)] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"speed": [0.0, -1.0]}, "speeds_mps of vehicle 1 is -1.0; it must be at least 0"),
        ({"speed": [0.0, math.nan]}, "speeds_mps of vehicle 1 is nan"),
        ({"speed": 1.0, "gap": math.nan}, "gaps_m of vehicle 0 is nan; it must be a finite number"),
        ({"speed": 1.0, "gap": -math.inf}, "gaps_m of vehicle 0 is -inf"),
        ({"speed": 1.0, "leader_speed": math.inf}, "leader_speeds_mps of vehicle 0 is inf"),
        ({"speed": 1.0, "wanted_speed": 0.0}, "wanted_speeds_mps of vehicle 0 is 0.0; it must be above 0"),
    ],
)
def test_wrong_values(values, words):
    with pytest.raises(InvalidArgumentError, match=words):
        seen(**values)


def test_wrong_shapes_and_types():
    ones = np.ones(2)
    with pytest.raises(InvalidArgumentError, match=r"gaps_m is float64 of shape \(1,\); pass float64 of shape \(2,\)"):
        Following(ones, ones[:1], ones, ones)
    with pytest.raises(InvalidArgumentError, match="gaps_m is float32"):
        Following(ones, ones.astype(np.float32), ones, ones)


@pytest.mark.parametrize("step_s", [0.0, -1.0, math.nan, math.inf])
def test_wrong_step_times(step_s):
    with pytest.raises(InvalidArgumentError, match="step_time_s is"):
        intelligent_driver_step(seen(1.0), step_s)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"standing_gap_m": 0.0}, "standing_gap_m is 0.0; it must be finite and above 0"),
        ({"headway_s": -1.0}, "headway_s is -1.0; it must be finite and at least 0"),
        ({"max_braking_mps2": math.inf}, "max_braking_mps2 is inf"),
    ],
)
def test_wrong_parameters(change, words):
    with pytest.raises(InvalidArgumentError, match=words):
        IntelligentDriverParams(**change)
