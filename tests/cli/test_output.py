"""Machine-readable output of commands."""

import json
import math

import numpy as np
import pytest

from l5kit.cli.output import print_facts, print_json, remark_some


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_numbers_that_json_does_not_have_are_null(capsys, value):
    print_json({"a": value, "b": [1.5, value], "c": {"d": (value, {"e": value})}, "f": 2})
    text = capsys.readouterr().out
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert content == {"a": None, "b": [1.5, None], "c": {"d": [None, {"e": None}]}, "f": 2}


def test_all_else_stays(capsys, tmp_path):
    content = {"whole": 3, "half": 0.5, "text": "NaN", "yes": True, "nothing": None, "many": [[1], {"a": []}]}
    print_json(content | {"path": tmp_path})
    assert json.loads(capsys.readouterr().out) == content | {"path": str(tmp_path)}


def test_facts_are_written_for_people(capsys):
    data = {"digest": "bbafe2", "num_scenes": 12_000, "path": "scenes/sample.zarr"}
    print_facts("Checkpoint", {"data": data, "sizes": [1.5, 2], "trained": True, "loss": float("nan")})
    shown = capsys.readouterr().out
    assert "digest bbafe2, num_scenes 12,000, path scenes/sample.zarr" in shown
    assert "1.5, 2" in shown
    assert "true" in shown
    assert "nan" in shown
    assert not set("{}[]'") & set(shown)


@pytest.mark.parametrize(("num", "more"), [(0, []), (5, []), (7, ["failed: 2 more, listed in scores.json"])])
def test_the_first_of_many_are_said(capsys, num, more):
    remark_some("failed", [f"scene {each}:\n  lost" for each in range(num)], listed_in="scores.json")
    listed = [f"failed: scene {each}: lost" for each in range(min(num, 5))]
    assert capsys.readouterr().err.splitlines() == listed + more
