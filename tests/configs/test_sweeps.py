"""Configurations of several trainings that differ in a few keys."""

import pytest

from l5kit.configs.sweeps import parse_sweep, plan_sweep, seeds_from
from l5kit.errors import ConfigError

CFG = {"workflow": "vector_planner", "train_params": {"seed": 4, "horizons_s": [1.0]}}


def test_a_list_has_a_value_for_each_training_and_values_may_be_lists():
    values = parse_sweep(["train_params.learning_rate = [1e-3, 0.1]", "train_params.horizons_s=[[1.0], [1.0, 3.0]]"])
    assert values == {"train_params.learning_rate": [0.001, 0.1], "train_params.horizons_s": [[1.0], [1.0, 3.0]]}


@pytest.mark.parametrize(
    "text", ["train_params.learning_rate=1e-3,1e-4", "a.b=3", "a.b=[]", "a.b", "=[1]", "a.b={x: 1}"], ids=str
)
def test_what_is_no_list_of_values_is_told(text):
    with pytest.raises(ConfigError, match=r"expected KEY=\[VALUE, \.\.\.\] with a value for each training"):
        parse_sweep([text])


def test_all_combinations_are_trained_and_the_last_key_changes_fastest():
    values = {
        "train_params.learning_rate": [1e-5, 0.1],
        "train_params.horizons_s": [[1.0], [1.0, 3.0]],
        "workflow": ["x"],
    }
    runs = plan_sweep(CFG, values)
    assert [run.name for run in runs] == [
        "0001-learning_rate_1e-05-horizons_s_1.0-workflow_x",
        "0002-learning_rate_1e-05-horizons_s_1.0_3.0-workflow_x",
        "0003-learning_rate_0.1-horizons_s_1.0-workflow_x",
        "0004-learning_rate_0.1-horizons_s_1.0_3.0-workflow_x",
    ]
    assert runs[1].cfg == {
        "workflow": "x",
        "train_params": {"seed": 4, "horizons_s": [1.0, 3.0], "learning_rate": 1e-5},
    }
    assert runs[1].values == {
        key: of_key[place] for (key, of_key), place in zip(values.items(), (0, 1, 0), strict=True)
    }
    assert CFG["train_params"] == {"seed": 4, "horizons_s": [1.0]}


def test_names_are_those_of_any_file_system():
    (run,) = plan_sweep(CFG, {"train_data_loader.key": ["../a b/" + "c" * 200]})
    assert run.name.startswith("0001-key_.._a_b_ccc")
    assert len(run.name) == 80


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": [1, 2, 1]}, "a: the value 1 is given twice"),
        ({"a": []}, "a: there are no values"),
        ({"a": [float("nan")]}, "a: nan is no value of a configuration"),
        ({"workflow.name": [1]}, "workflow is a value, not a section"),
    ],
    ids=["twice", "none", "nan", "within a value"],
)
def test_values_that_cannot_be_swept_are_told(values, message):
    with pytest.raises(ConfigError, match=message):
        plan_sweep(CFG, values)


def test_a_key_is_swept_once():
    with pytest.raises(ConfigError, match="a: it is given twice"):
        parse_sweep(["a=[1]", "a=[2]"])


def test_seeds_begin_with_that_of_the_configuration():
    assert seeds_from(CFG, 3) == [4, 5, 6]
    assert seeds_from({}, 2) == [0, 1]
