"""Failures by type of scene."""

import pytest

from l5kit.cle.metric_set import L5MetricSet
from l5kit.cle.metrics import DisplacementErrorL2Metric
from l5kit.cle.scene_type_agg import compute_cle_scene_type_aggregations, read_scene_types
from l5kit.cle.validators import RangeValidator
from support.scored_scenes import SceneStandIn


class TwoValidators(L5MetricSet):
    def build_metrics(self):
        return [DisplacementErrorL2Metric()]

    def build_validators(self):
        return [
            RangeValidator(name, DisplacementErrorL2Metric, max_value=limit)
            for name, limit in (("near", 2), ("far", 5))
        ]


@pytest.fixture
def evaluated():
    """Scenes 0, 1, 2 that are 1, 3 and 9 m off in two frames each."""
    metric_set = TwoValidators()
    metric_set.evaluate(SceneStandIn.along_x([x, x], [0, 0], scene_id=scene) for scene, x in enumerate((1, 3, 9)))
    return metric_set


def test_c11_failed_scenes_are_counted_by_type_in_order(evaluated):
    types = [["right"], ["left", "slow", "left"], ["left"], ["straight"]]
    counts = compute_cle_scene_type_aggregations(evaluated, types, ["near"])
    assert list(counts.items()) == [
        ("right/near", 0),
        ("right/far", 0),
        ("left/near", 2),
        ("left/far", 1),
        ("slow/near", 1),
        ("slow/far", 0),
        ("straight/near", 0),
        ("straight/far", 0),
    ]
    assert all(type(count) is int for count in counts.values())


def test_scenes_may_have_no_type(evaluated):
    assert compute_cle_scene_type_aggregations(evaluated, [[], [], []], []) == {}


def test_a_scene_that_the_list_lacks_is_named(evaluated):
    with pytest.raises(IndexError, match="scene_ids_to_scene_types has 2 scenes, but scene 2"):
        compute_cle_scene_type_aggregations(evaluated, [["a"], ["a"]], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0,left\n1,right\n", [["left"], ["right"]], id="in order"),
        pytest.param("3,left\n1,right\n", [[], ["right"], [], ["left"]], id="c12: by id, not by line"),
        pytest.param("0,left\n0,slow\n", [["left", "slow"]], id="two types"),
        pytest.param(" 0, left\r\n\r\n", [["left"]], id="spaces and lines of Windows"),
        pytest.param("", [], id="an empty file"),
    ],
)
def test_scene_types_are_read(text, expected, tmp_path):
    path = tmp_path / "types.csv"
    path.write_bytes(text.encode())
    assert read_scene_types(path) == read_scene_types(str(path)) == expected


@pytest.mark.parametrize("text", ["scene,type", "-1,left", "1", "1,left,right", "1.5,left"])
def test_lines_that_are_no_scene_type_are_named(text, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text(f"0,left\n{text}\n")
    with pytest.raises(ValueError, match=r"line 2 of .*types\.csv is "):
        read_scene_types(path)
