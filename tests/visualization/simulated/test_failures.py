"""Failures of drives, from columns made by hand."""

import numpy as np
import pytest

from l5kit.evaluation.driving import METRICS
from l5kit.evaluation.driving.metric import Fault, MetricFacts
from l5kit.visualization.simulated.scene_drive import find_failures

VALUES = {metric.name: 0.0 for metric in METRICS}
NOBODY = [None] * 40
TIMES_S = 0.1 * np.arange(40)


def columns(num_frames=40, **given):
    """Columns of a drive in which nothing fails but what is given, by frame."""
    usual = {
        "distance_off_road_m": 0.0,
        "way_along_lanes_m": 5.0,
        "time_to_collision_s": np.nan,
        "speed_excess_mps": 0.0,
        "is_comfortable": 1.0,
        "collisions": 0.0,
        "collision_at_fault": np.nan,
    }
    made = {name: np.full(num_frames, value) for name, value in usual.items()}
    for name, values in given.items():
        for frame, value in values.items():
            made[name][frame] = value
    return made


def failures_of(made, values=VALUES, metrics=METRICS, **given):
    """Kind, frames and track of each failure."""
    found = find_failures(made, values, metrics, **({"tracks": NOBODY, "times_s": TIMES_S} | given))
    return [(each.kind, each.first_frame, each.last_frame, each.track_id) for each in found]


def test_nothing_fails_on_a_drive_without_faults():
    assert failures_of(columns()) == []
    assert failures_of({}) == []


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"distance_off_road_m": {4: 0.3, 5: 0.29}}, "off_road"),
        ({"way_along_lanes_m": {4: -2.0, 5: -1.99}}, "wrong_direction"),
        ({"time_to_collision_s": {4: 0.95, 5: 0.96}}, "time_to_collision"),
        ({"speed_excess_mps": {4: 0.01}}, "speeding"),
        ({"is_comfortable": {4: 0.0}}, "comfort"),
        ({"collisions": {4: 1}}, "collision"),
        ({"collisions": {4: 1}, "collision_at_fault": {4: 0}}, "collision"),
        ({"collisions": {4: 2}, "collision_at_fault": {4: 1}}, "collision_at_fault"),
    ],
)
def test_a_frame_fails_at_its_bound(given, kind):
    assert failures_of(columns(**given)) == [(kind, 4, 4, None)]


def test_a_metric_that_does_not_apply_has_no_failures():
    made = columns(is_comfortable={4: 0.0}, speed_excess_mps={6: 1.0})
    assert failures_of(made, VALUES | {"comfort": None}) == [("speeding", 6, 6, None)]


@pytest.mark.parametrize(("step_time_s", "frames"), [(0.1, (2, 3, 13, 24)), (0.5, (2, 3, 5, 8))])
def test_frames_no_farther_apart_than_a_second_are_one_failure(step_time_s, frames):
    made = columns(distance_off_road_m=dict.fromkeys(frames, 0.5))
    failures = failures_of(made, times_s=step_time_s * np.arange(40))
    assert failures == [("off_road", 2, frames[2], None), ("off_road", frames[3], frames[3], None)]


def test_failures_come_by_frame_and_collisions_name_their_track():
    made = columns(
        collisions={7: 1, 5: 1},
        collision_at_fault={7: 1, 5: 0},
        time_to_collision_s={5: 0.5},
    )
    tracks = [{5: 3, 7: 2**64 - 1}.get(frame) for frame in range(40)]
    assert failures_of(made, tracks=tracks) == [
        ("collision", 5, 5, 3),
        ("time_to_collision", 5, 5, None),
        ("collision_at_fault", 7, 7, 2**64 - 1),
    ]


def test_who_appears_close_is_marked_with_the_track():
    appeared = [9 if frame == 6 else None for frame in range(40)]
    made = columns(collisions={8: 1})
    tracks = [9 if frame == 8 else None for frame in range(40)]
    found = failures_of(made, tracks=tracks, appeared=appeared)
    assert found == [("appeared_close", 6, 6, 9), ("collision", 8, 8, 9)]


def test_metrics_below_one_have_failed_but_progress_is_a_degree():
    def failed(**values):
        return [metric.name for metric in METRICS if metric.fails(values.get(metric.name))]

    assert failed(no_at_fault_collisions=0.5, progress=0.2, speed_limit_compliance=0.996) == ["no_at_fault_collisions"]
    assert failed(speed_limit_compliance=0.99, making_progress=0.0, comfort=1.0) == [
        "making_progress",
        "speed_limit_compliance",
    ]


def test_a_metric_that_somebody_has_added_has_failures_under_its_own_name():
    near = MetricFacts(
        name="gap_m", label="Gap", sentence="", column="gap_m", fault=Fault("<", 2.0, "gap_m", "Too near to somebody")
    )
    made = columns() | {"gap_m": np.where(np.arange(40) < 3, 1.0, np.nan)}
    (failure,) = find_failures(made, VALUES | {"gap_m": 1.0}, (*METRICS, near), tracks=NOBODY, times_s=TIMES_S)
    assert (failure.kind, failure.name, failure.last_frame) == ("gap_m", "Too near to somebody", 2)
