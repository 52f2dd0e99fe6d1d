"""Closed-loop validators and their aggregators."""

import warnings

import numpy as np
import pytest
import torch

from l5kit.cle.metrics import DisplacementErrorL2Metric, SimulatedVsRecordedEgoSpeedMetric
from l5kit.cle.validators import (
    DurationMode,
    FailedFrame,
    RangeValidator,
    ValidationCountingAggregator,
    ValidationFailedFramesAggregator,
    ValidatorOutput,
)
from support.scored_scenes import SceneStandIn

TOTAL, CONTINUOUS = DurationMode.TOTAL, DurationMode.CONTINUOUS
NAME = DisplacementErrorL2Metric.metric_name


def failed_frames(values, duration_s=0.0, mode=TOTAL, *, num_frames=None, minimum=None, maximum=None, **options):
    values = torch.as_tensor(values, dtype=torch.float32)
    scene = SceneStandIn.along_x(np.zeros(len(values) if num_frames is None else num_frames))
    validator = RangeValidator("v", DisplacementErrorL2Metric, minimum, maximum, duration_s, mode, **options)
    output = validator.validate({NAME: values}, scene)
    assert output.is_valid_scene == (output.failed_frames == [])
    assert all(type(frame) is int for frame in output.failed_frames)
    return output.failed_frames


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"minimum": 1}, [0], id="below"),
        pytest.param({"maximum": 1}, [2, 3], id="above"),
        pytest.param({"minimum": 1, "maximum": 2}, [0, 3], id="outside"),
        pytest.param({"minimum": 0, "maximum": 3}, [], id="the bounds are in order"),
    ],
)
def test_frames_outside_the_range_fail(bounds, expected):
    assert failed_frames([0, 1, 2, 3], **bounds) == expected


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        pytest.param({}, "validator 'v' has no bound", id="no bound"),
        pytest.param({"minimum": 1, "maximum": 1}, "min_value 1 of validator 'v'", id="an empty range"),
        pytest.param({"minimum": 2, "maximum": 1}, "must be below", id="backwards"),
        pytest.param({"maximum": np.nan}, "max_value of validator 'v' is nan", id="a bound that is no number"),
        pytest.param({"maximum": 1, "duration_s": np.nan}, "violation_duration_s of validator 'v' is nan", id="time"),
        pytest.param({"maximum": 1, "mode": "continuous"}, "duration_mode of validator 'v' is 'continuous'", id="mode"),
    ],
)
def test_ranges_that_are_none_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        failed_frames([0], **bounds)


VIOLATED = [1, 1, 0, 1, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("mode", "duration_s", "expected"),
    [
        pytest.param(TOTAL, 0.25, [4, 5, 8, 9], id="over the scene"),
        pytest.param(CONTINUOUS, 0.25, [5], id="of the one that goes on"),
        pytest.param(TOTAL, 0.65, [], id="over the scene, not long enough"),
        pytest.param(CONTINUOUS, 0.35, [], id="of the one that goes on, not long enough"),
        pytest.param(TOTAL, -1.0, [0, 1, 3, 4, 5, 8, 9], id="negative is none"),
    ],
)
def test_durations_of_violations(mode, duration_s, expected):
    """The first frame, at time 0, has no duration; the others last a tenth of a second each."""
    assert failed_frames(VIOLATED, duration_s, mode, maximum=0) == expected


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_durations_are_compared_as_float32(kind):
    """0.3 s of violations, as float32 adds them up, are not longer than 0.3."""
    assert failed_frames([1] * 6, kind(0.3), maximum=0) == [4, 5]


@pytest.mark.parametrize(
    ("duration_s", "expected"),
    [(0.5, [*range(6, 19)]), (1.8, [18]), (2.3, [])],
)
def test_c3_speed_counts_from_the_second_frame_as_in_1_5(duration_s, expected):
    """The example of the specification, whose times are products in float32: 1.8 s are a little more in them."""
    scene = SceneStandIn.along_x(np.zeros(20))
    scene.simulated_ego_states[:, 6] = torch.arange(20) * 0.1
    validator = RangeValidator("v", DisplacementErrorL2Metric, -5, None, duration_s, CONTINUOUS)
    assert validator.validate({NAME: torch.full((19,), -8.0)}, scene).failed_frames == expected


def test_c3_values_of_steps_count_with_their_own_time_if_asked_for():
    frames = failed_frames(np.full(19, -8.0), 0.55, CONTINUOUS, num_frames=20, minimum=-5, aligned_to_steps=True)
    assert frames == [*range(5, 19)]


@pytest.mark.parametrize(("start", "first"), [(0, 25), (1, 24), (40, None)])
def test_durations_of_whole_steps_are_decided_by_float32_as_in_1_5(start, first):
    """The number of violating frames until 2.3 s are exceeded, of a violation that lasts, for some starts."""
    values = np.zeros(100)
    values[start:] = 1
    for mode in DurationMode:
        frames = failed_frames(values, 2.3, mode, maximum=0)
        count = frames[0] - start + 1
        assert count == first if first else count in (23, 24, 25)


@pytest.mark.parametrize("mode", DurationMode)
def test_c2_frames_for_which_a_metric_has_no_value_are_in_range(mode):
    assert failed_frames([1, 1, 1], 0.15, mode, num_frames=10, maximum=0) == [2]


@pytest.mark.parametrize("mode", DurationMode)
def test_a_metric_with_more_values_than_frames_has_no_duration(mode):
    assert failed_frames([0, 0, 1], num_frames=2, maximum=0) == [2]
    with pytest.raises(ValueError, match="has 3 values, but validator 'v' has times of only 2 simulated frames"):
        failed_frames([0, 0, 1], 0.1, mode, num_frames=2, maximum=0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([[0.0], [2.0], [0.0]], [1], id="one column"),
        pytest.param([[0.0, 2.0], [2.0, 2.0], [0.0, 0.0]], [0, 1], id="two columns"),
    ],
)
def test_c4_values_in_columns_fail_frames(values, expected):
    assert failed_frames(values, maximum=1) == expected
    assert failed_frames(values, 1e-6, TOTAL, maximum=1) == [frame for frame in expected if frame > 0]


def test_c16_nan_is_in_range_and_a_warning_says_so():
    with pytest.warns(RuntimeWarning, match="validator 'v': 2 of 4 values of displacement_error_l2 are NaN"):
        assert failed_frames([np.nan, 5, np.nan, 0], maximum=1) == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert failed_frames([np.inf, -np.inf], maximum=1) == [0]


@pytest.mark.parametrize("mode", DurationMode)
@pytest.mark.parametrize("duration_s", [0.0, 0.1])
def test_a_metric_without_values_is_in_order(mode, duration_s):
    assert failed_frames([], duration_s, mode, maximum=0) == []
    assert failed_frames([], duration_s, mode, maximum=0, num_frames=3) == []


def test_violations_that_go_on_are_added_up():
    mask = torch.zeros(20, dtype=torch.bool)
    mask[:8] = mask[10:] = True
    lasted = RangeValidator.cumsum_with_reset(torch.full((20,), 0.1), mask)
    assert lasted.dtype == torch.float32
    assert (lasted > 0.5).sum() == 8
    assert lasted[8:10].tolist() == [0, 0]


def test_how_violations_add_up_may_be_overridden():
    class Counting(RangeValidator):
        @staticmethod
        def cumsum_with_reset(timestamp_diff, validation_mask):
            return validation_mask * 100.0

    validator = Counting("v", DisplacementErrorL2Metric, max_value=0, violation_duration_s=9, duration_mode=CONTINUOUS)
    assert validator.validate({NAME: torch.tensor([0.0, 1.0])}, SceneStandIn.along_x([0, 0])).failed_frames == [1]


def test_c15_attributes():
    validator = RangeValidator("v", SimulatedVsRecordedEgoSpeedMetric, -1, 2, 0.5, CONTINUOUS)
    assert validator.requires_metric == [validator.metric_name] == ["simulated_minus_recorded_ego_speed"]
    assert validator.validation_duration_s == validator.violation_duration_s == 0.5
    assert (validator.min_value, validator.max_value, validator.duration_mode) == (-1, 2, CONTINUOUS)


RESULTS = {
    3: {"a": ValidatorOutput(True, []), "b": ValidatorOutput(False, [1, 2])},
    0: {"a": ValidatorOutput(True, []), "b": ValidatorOutput(False, [5])},
}


@pytest.mark.parametrize(("counts_frames", "expected"), [(False, 2), (True, 3)])
def test_failed_scenes_or_frames_are_counted(counts_frames, expected):
    aggregator = ValidationCountingAggregator(counts_frames)
    for counts in (aggregator.aggregate(RESULTS), aggregator.aggregate_scenes(RESULTS)):
        assert {name: count.item() for name, count in counts.items()} == {"a": 0, "b": expected}
        assert all(count.dtype == torch.int64 and count.shape == () for count in counts.values())
    assert aggregator.aggregate({}) == {}


def test_failed_frames_are_listed():
    ((name, frames),) = ValidationFailedFramesAggregator().aggregate(RESULTS).items()
    assert name == "b"
    assert frames.dtype == torch.int64
    assert frames.tolist() == [[3, 1], [3, 2], [0, 5]]
    assert ValidationFailedFramesAggregator().aggregate({}) == {}
    assert FailedFrame(scene_id=3, frame_index=1) == (3, 1)
    assert ValidatorOutput(is_valid_scene=False, failed_frames=[1]) == (False, [1])


def test_aggregation_of_scenes_may_be_overridden():
    class First(ValidationCountingAggregator):
        def aggregate_scenes(self, scene_validation_results):
            return {"first": torch.tensor(len(scene_validation_results))}

    assert First().aggregate(RESULTS) == {"first": torch.tensor(2)}
