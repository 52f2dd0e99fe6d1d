"""Worst cases: their selection and their pictures."""

import numpy as np
import pytest

from l5kit.openloop.prediction import TrajectoryRows, label_name
from l5kit.openloop.worst_cases import BASELINE_RGB, CaseTrajectories, case_picture, worst_rows
from l5kit.visualization.utils import PREDICTED_POINTS_COLOR, TARGET_POINTS_COLOR

HEIGHT, WIDTH = 90, 200


def rows(fde_m, frames, tracks):
    """Rows of one scene."""
    columns = dict.fromkeys(("sample_index", "agent_index", "scene_index", "timestamp_ns", "label_index"))
    numbers = {name: np.zeros(len(fde_m), np.int64) for name in columns}
    errors = {name: np.array(fde_m) for name in ("ade_m", "fde_m")}
    errors |= {f"baseline_{name}": np.stack([values] * 3, axis=1) for name, values in errors.items()}
    return TrajectoryRows(**numbers, **errors, frame_index=np.array(frames), track_id=np.array(tracks))


@pytest.mark.parametrize(
    ("num_rows", "expected"),
    [
        pytest.param(2, [3, 1], id="the largest first"),
        pytest.param(9, [3, 1, 4, 0], id="unknown ones and frames that follow each other are left out"),
        pytest.param(0, [], id="none"),
    ],
)
def test_the_worst_are_those_with_the_largest_errors_that_differ(num_rows, expected):
    some = rows([1.0, 4.0, 4.5, 5.0, 3.0, np.nan], frames=[10, 10, 19, 20, 30, 40], tracks=[7, 8, 7, 7, 7, 9])
    assert worst_rows(some, num_rows, error_m=some.fde_m, frames_apart=10).tolist() == expected


def test_columns_must_be_of_one_length():
    with pytest.raises(ValueError, match="one shape"):
        rows([1.0, 2.0], frames=[1], tracks=[1, 2])


def test_labels_have_short_names():
    assert [label_name(index) for index in (-1, 3, 14)] == ["AV", "CAR", "PEDESTRIAN"]


def line(row, *, end=160.0):
    return np.stack([np.linspace(40.0, end, 5), np.full(5, float(row))], axis=1)


def picture(**changes):
    """Lines from the left to the right: the likelier mode in row 20, the other in 30, truth in 50, baseline in 70."""
    values = {
        "start_px": np.array([20.0, 45.0]),
        "truth_px": line(50),
        "modes_px": np.stack([line(30), line(20)]),
        "probabilities": np.array([0.2, 0.8]),
        "baseline_px": line(70),
        "px_per_m": 3.0,
    }
    background = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    return case_picture(background, CaseTrajectories(**(values | changes)), caption=["one", "two"])


def test_each_trajectory_has_its_colour_and_the_likeliest_is_strongest():
    drawn = picture()
    assert drawn.shape[0] > HEIGHT
    assert tuple(drawn[50, 100]) == TARGET_POINTS_COLOR
    assert tuple(drawn[70, 100]) == BASELINE_RGB
    assert tuple(drawn[20, 100]) == PREDICTED_POINTS_COLOR
    assert 0 < drawn[30, 100, 1] < PREDICTED_POINTS_COLOR[1]
    assert drawn[HEIGHT:].max() > 200  # legend and caption


def test_dots_of_one_place_are_seen_as_rings():
    drawn = picture(truth_px=line(20), baseline_px=line(20), modes_px=line(20)[None], probabilities=np.ones(1))
    seen = {tuple(color) for color in drawn[20, 160:175].tolist()}
    assert {TARGET_POINTS_COLOR, BASELINE_RGB, PREDICTED_POINTS_COLOR} <= seen


def test_without_a_baseline_none_is_drawn():
    assert BASELINE_RGB not in {tuple(color) for color in picture(baseline_px=None)[:HEIGHT].reshape(-1, 3).tolist()}


def test_positions_far_outside_do_no_harm():
    assert picture(truth_px=np.full((5, 2), 1e12)).shape == picture().shape
