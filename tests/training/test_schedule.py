"""The course of a training in steps."""

import pytest

from l5kit.configs.training import TrainingParams
from l5kit.training.optimizing import TrainingSchedule, learning_rate_factor
from support.workflows import small_config


def schedule_of(workflow="vector_planner", own="constant", **train_params):
    params = TrainingParams.from_cfg(small_config(workflow, train_params={"max_num_steps": None, **train_params}))
    return TrainingSchedule.of(params, num_batches=10, schedule=own)


@pytest.mark.parametrize(
    ("train_params", "num_steps", "steps_per_epoch"),
    [
        pytest.param({"max_num_steps": 25}, 25, 10, id="steps"),
        pytest.param({"num_epochs": 3}, 30, 10, id="epochs of batches, not of samples"),
        pytest.param({"num_epochs": 3, "max_num_steps": 4}, 12, 4, id="epochs cut short"),
        pytest.param({"num_epochs": 3, "max_num_steps": 1000}, 30, 10, id="no longer than the data"),
    ],
)
def test_s13_the_schedule_counts_batches(train_params, num_steps, steps_per_epoch):
    schedule = schedule_of(**train_params)
    assert (schedule.num_steps, schedule.steps_per_epoch) == (num_steps, steps_per_epoch)


@pytest.mark.parametrize(
    ("train_params", "expected"),
    [
        pytest.param({}, (30, 30), id="at the end"),
        pytest.param({"checkpoint_every_n_steps": 7, "eval_every_n_steps": 12}, (7, 12), id="steps"),
        pytest.param({"checkpoint_every_n_epochs": 2, "eval_every_n_epochs": 1}, (20, 10), id="epochs"),
        pytest.param({"checkpoint_every_n_steps": 10000, "eval_every_n_steps": 10000}, (30, 30), id="beyond the end"),
    ],
)
def test_w8_intervals_of_the_configuration_are_kept(train_params, expected):
    schedule = schedule_of(num_epochs=3, **train_params)
    assert (schedule.checkpoint_every, schedule.eval_every) == expected


def test_a_constant_rate():
    schedule = schedule_of(num_epochs=1)
    assert [learning_rate_factor(step, schedule) for step in range(10)] == [1.0] * 10


def test_a_warm_up_and_half_a_cosine():
    schedule = schedule_of(num_epochs=1, schedule="cosine", warmup_num_steps=2)
    factors = [learning_rate_factor(step, schedule) for step in range(11)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[6] == pytest.approx(0.5)
    assert factors[10] == pytest.approx(0.0)
    assert factors[2:] == sorted(factors[2:], reverse=True)


def test_safepathnet_warms_up_for_a_fifth_of_its_epochs():
    schedule = schedule_of("safepathnet", "cosine", num_epochs=11)
    assert (schedule.warmup_num_steps, schedule.is_cosine) == (20, True)
    constant = schedule_of("safepathnet", "cosine", num_epochs=11, schedule="constant")
    assert (constant.warmup_num_steps, constant.is_cosine) == (0, False)
