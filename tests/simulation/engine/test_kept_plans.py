"""Times of plans: joined where they differ, and plans brought to them."""

import numpy as np
import pytest

from l5kit.simulation.engine.kept_plans import join_times, plans_at

NAN = np.nan


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ([], []),
        ([[], [0.1, 0.2]], [0.1, 0.2]),
        ([[0.1, 0.2], [0.1, 0.2, 0.3], [0.1]], [0.1, 0.2, 0.3]),
        ([[0.1, 0.2, 0.3], [0.15, 0.3 + 1e-12]], [0.1, 0.15, 0.2, 0.3]),
    ],
    ids=["none", "one without", "lengths", "steps"],
)
def test_times_are_joined(parts, joined):
    np.testing.assert_allclose(join_times([np.array(part) for part in parts]), joined, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("times_s", "x_m", "yaws_rad"),
    [
        pytest.param([0.1, 0.2, 0.4, 0.5], [NAN, 1, 3, NAN], [NAN, 3, -3, NAN], id="longer"),
        pytest.param([0.2, 0.4, 0.6], [1, 3, NAN], [3, -3, NAN], id="more behind"),
        pytest.param([0.1, 0.2, 0.3, 0.35], [NAN, 1, 2, 2.5], [NAN, 3, np.pi, np.pi + 0.0708], id="between"),
    ],
)
def test_plans_at_other_times(times_s, x_m, yaws_rad):
    """A plan of two poses, whose heading goes from 3 to -3 the short way, over pi."""
    plan = np.array([[[1, 0, 3], [3, 0, -3]]], np.float32)
    found = plans_at(np.array(times_s), plan, np.array([0.2, 0.4]))
    np.testing.assert_allclose(found[0], np.column_stack([x_m, np.where(np.isnan(x_m), NAN, 0), yaws_rad]), atol=1e-4)


def test_a_pose_beside_none_stays():
    plan = np.array([[[NAN, NAN, NAN], [2, 0, 0.5], [3, 0, 0.5]]], np.float32)
    found = plans_at(np.array([0.1, 0.15, 0.2, 0.25, 0.3]), plan, np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(found[0, :, 0], [NAN, NAN, 2, 2.5, 3])
