"""Means of planners over the same scenes: those of a loop over draws, and which scenes count."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.resampling import Resampling, SceneValues, paired_means

METRICS = (
    MetricFacts(name="score", label="Score", sentence="score"),
    MetricFacts(name="error_m", label="Error", sentence="error", range=(0.0, None), better="low"),
)
NAN = np.nan


def made_scenes():
    """Two planners, five scenes, two metrics; planner 1 has no value of metric 0 in scene 4."""
    values = np.array([
        [[0.5, 4.0], [0.6, 2.0], [1.0, 1.0], [0.0, 3.0], [0.9, 2.0]],
        [[0.7, 2.0], [0.6, 3.0], [0.5, 0.5], [1.0, 1.0], [NAN, 2.0]],
    ])  # fmt: skip
    counts = np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 3.0], [1.0, 1.0], [1.0, 5.0]])
    return SceneValues(values, counts)


def test_means_are_over_the_scenes_that_all_planners_have():
    groups = np.array([[True] * 5, [True, False, True, False, True]])
    found = paired_means(made_scenes(), groups, METRICS, reference=0, resampling=Resampling(num_draws=200))
    reference, other = found[0][0]
    assert (reference.num_scenes, reference.mean.value, reference.difference.value) == (4, 0.525, 0.0)
    assert_allclose([other.mean.value, other.difference.value], [0.7, 0.175])
    assert (other.num_better, other.num_worse) == (2, 1)
    assert np.isnan(reference.chance)
    errors = found[0][1][1]
    # sums of counts times values over the counts
    assert_allclose(errors.mean.value, (2 * 2 + 3 + 3 * 0.5 + 1 + 5 * 2) / 12)
    assert (errors.num_better, errors.num_worse) == (3, 1)
    of_group = found[1][0][1]
    assert (of_group.num_scenes, of_group.num_better, of_group.num_worse) == (2, 1, 1)
    assert_allclose(of_group.mean.value, 0.6)


def test_draws_are_the_same_for_all_planners():
    """A loop over the draws gives the interval of the difference."""
    scenes, resampling = made_scenes(), Resampling(num_draws=300, seed=4)
    ((_, (_, other)),) = paired_means(scenes, np.ones((1, 5), bool), METRICS, reference=0, resampling=resampling)
    differences = []
    for weights in resampling.weights(5):
        weighted = weights * scenes.counts[:, 1]
        means = [(weighted * scenes.values[planner, :, 1]).sum() / weighted.sum() for planner in (0, 1)]
        differences.append(means[1] - means[0])
    value, draws = differences[0], np.array(differences[1:])
    moved = draws - (draws.mean() - value)
    assert_allclose([other.difference.low, other.difference.high], np.quantile(moved, [0.025, 0.975]))


@pytest.mark.parametrize(
    ("has", "num_scenes"), [([False] * 5, 0), ([True, False, False, False, False], 1)], ids=["no scene", "one scene"]
)
def test_groups_that_tell_nothing(has, num_scenes):
    ((of_score, _),) = paired_means(
        made_scenes(), np.array([has]), METRICS, reference=0, resampling=Resampling(num_draws=100)
    )
    assert of_score[1].num_scenes == num_scenes
    assert np.isnan([of_score[1].mean.low, of_score[1].chance]).all()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InvalidArgumentError, match="groups and metrics must be for 5 scenes and 2 metrics"):
        paired_means(made_scenes(), np.ones((1, 4), bool), METRICS, reference=0, resampling=Resampling())
    with pytest.raises(InvalidArgumentError, match="SceneValues: shapes do not fit"):
        SceneValues(np.zeros((2, 5, 2)), np.ones((4, 2)))
