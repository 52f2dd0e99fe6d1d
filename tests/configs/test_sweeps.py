"""Configurations of several trainings that differ in a few keys."""

import numpy as np
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
        ({"a": [float("nan")]}, "a: nan is not a configuration value"),
        ({"workflow.name": [1]}, "workflow is a value, not a section"),
    ],
    ids=["twice", "none", "nan", "within a value"],
)
def test_values_that_cannot_be_swept_are_told(values, message):
    with pytest.raises(ConfigError, match=message):
        plan_sweep(CFG, values)


def test_a_key_is_swept_once():
    with pytest.raises(ConfigError, match="a: given twice"):
        parse_sweep(["a=[1]", "a=[2]"])


def test_seeds_begin_with_that_of_the_configuration():
    assert seeds_from(CFG, 3) == [4, 5, 6]
    assert seeds_from({}, 2) == [0, 1]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"a.b": [1, 2.5, 1.0]}, r"a\.b: the value 1\.0 is given twice", id="1 and 1.0"),
        pytest.param({"a.b": [True, 0, False]}, r"a\.b: the value false is given twice", id="0 and false"),
        pytest.param({"a.b": [[1, {"c": 2}], [1.0, {"c": 2.0}]]}, "is given twice", id="the same within lists"),
        pytest.param({"a.b": [1], "a": [{"c": 1}]}, r"a\.b: it lies inside a, which is swept", id="key, then section"),
        pytest.param({"a": [{"c": 1}], "a.b": [1]}, r"a\.b: it lies inside a, which is swept", id="section, then key"),
        pytest.param({"a.b=c": [1]}, r"'a\.b=c' is not the path of a key", id="a sign in the path"),
        pytest.param({"a.b": [1], "a.b ": [2]}, r"'a\.b ' is not the path of a key", id="the same key with a space"),
        pytest.param({5: [1]}, "5 is not the path of a key", id="a number for a path"),
        pytest.param({"a.b": "abc"}, r"a\.b: expected a list with a value for each training, got 'abc'", id="a text"),
        pytest.param({"a.b": 5}, r"a\.b: expected a list", id="a number"),
        pytest.param({"a.b": {1: 2}}, r"a\.b: expected a list", id="a mapping"),
        pytest.param({"a.b": ["\ud800"]}, r"a\.b: .* is not a configuration value", id="half a character"),
        pytest.param({"a.b": range(10**12)}, "has 1000000000000 trainings; give at most 10000", id="many values"),
        pytest.param({"a": range(200), "b": range(200)}, "has 40000 trainings", id="many combinations"),
    ],
)
def test_values_that_clash_or_are_none_are_told(values, says):
    with pytest.raises(ConfigError, match=says):
        plan_sweep(CFG, values)


def test_seeds_without_end_are_refused_before_they_are_listed():
    with pytest.raises(ConfigError, match="has 1000000000000 trainings"):
        seeds_from(CFG, 10**12)


def test_numbers_of_numpy_are_values():
    assert [run.values["a.b"] for run in plan_sweep(CFG, {"a.b": np.logspace(-2, -1, 2)})] == [0.01, 0.1]
