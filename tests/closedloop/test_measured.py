"""Metrics of the user: where their values go, what is refused, and what a faulty one does."""

import json
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.closedloop import ClosedLoopOptions, read_result, simulate
from l5kit.closedloop.measured import open_metrics
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving import METRICS, Fault, Metric, MetricError
from l5kit.evaluation.driving.metric import MULTIPLIER
from l5kit.evaluation.driving.scene_score import read_facts
from support.simulated_folders import digests_of, rows_of

OPTIONS = {"show_bar": False}
SOURCE = """
import numpy as np

from l5kit.evaluation.driving import Fault, Metric


def speed(scenes):
    return np.where(scenes.states.speeds_mps > 0.5, scenes.states.speeds_mps, np.nan)


SPEED = Metric(
    name="least_speed_mps",
    label="Least speed",
    sentence="the slowest that the AV drives without standing",
    unit="m/s",
    digits=2,
    range=(0.0, None),
    of_frames=speed,
    of_scenes="least",
    over_scenes=25,
    fault=Fault("<", 3.0),
    passes_from=3.0,
    failure="slow",
    counted_as="frames_slow",
)


def both():
    way = Metric(
        name="way_squared",
        label="Way",
        sentence="",
        of_scenes=lambda scenes, _: scenes.progress_m.sum(axis=1) ** 2,
        over_scenes="sum",
        better="low",
    )
    return [SPEED, way]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def measured(mixed_city, file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured") / "out"
    simulate(mixed_city, folder, planner="idm", metrics=[f"{file}:both"], options=ClosedLoopOptions(**OPTIONS))
    return folder


def test_values_of_frames_are_folded_over_frames_and_scenes(measured):
    frames, scenes = rows_of(measured / "frames.csv"), rows_of(measured / "scenes.csv")
    scores = json.loads((measured / "scores.json").read_text())
    least = {}
    for scene in scenes:
        rows = [row for row in frames if row["scene"] == scene["scene"]]
        speeds = [(int(row["frame"]), float(row["speed_mps"])) for row in rows]
        driven = [speed for _, speed in speeds if speed > 0.5]
        told = [float(row["least_speed_mps"] or "nan") for row in rows]
        assert_allclose(told, [speed if speed > 0.5 else np.nan for _, speed in speeds], atol=0.006)
        slow = [frame for frame, speed in speeds if 0.5 < speed < 3.0]
        assert scene["first_least_speed_mps_frame"] == (str(slow[0]) if slow else "")
        assert int(scene["frames_slow"]) == len(slow)
        if scene["score"] and driven:
            least[scene["scene"]] = min(driven)
            assert float(scene["least_speed_mps"]) == pytest.approx(min(driven), abs=1e-3)
    assert len(least) > 2
    assert scores["metrics"]["least_speed_mps"] == pytest.approx(np.percentile(list(least.values()), 25), abs=1e-3)
    assert scores["scenes_failing"]["least_speed_mps"] == sum(value < 3.0 for value in least.values())
    ways = [float(scene["route_m"]) ** 2 for scene in scenes if scene["score"]]
    assert scores["metrics"]["way_squared"] == pytest.approx(sum(ways), rel=1e-3)


def test_a_folder_says_what_was_measured_without_the_code(measured):
    result = read_result(measured)
    assert [each.name for each in result.about_metrics[: len(METRICS)]] == [metric.name for metric in METRICS]
    speed, way = result.about_metrics[len(METRICS) :]
    assert (speed.unit, speed.column, speed.fault) == (
        "m/s",
        "least_speed_mps",
        Fault("<", 3.0, "least_speed_mps", "Least speed"),
    )
    assert (way.column, way.over_scenes, way.better) == (None, "sum", "low")
    assert isinstance(next(result.scenes())["least_speed_mps"], float)
    assert result.scores["added_metrics"] == ["least_speed_mps", "way_squared"]


def test_the_score_is_as_without_them(measured, mixed_city, tmp_path):
    alone = simulate(mixed_city, tmp_path / "alone", planner="idm", options=ClosedLoopOptions(**OPTIONS))
    assert read_result(measured).score == alone.score
    assert {**read_result(measured).metrics} == {
        **alone.metrics,
        **{name: read_result(measured).metrics[name] for name in ("least_speed_mps", "way_squared")},
    }


@pytest.mark.process
def test_files_are_the_same_for_processes(measured, mixed_city, file, tmp_path):
    with ProcessPoolExecutor(1) as executor:
        options = ClosedLoopOptions(workers=executor, batch_size=2, **OPTIONS)
        simulate(mixed_city, tmp_path / "out", planner="idm", metrics=[f"{file}:both"], options=options)
    own, other = digests_of(tmp_path / "out"), digests_of(measured)
    assert {name: own[name] for name in ("scenes.csv", "frames.csv")} == {
        name: other[name] for name in ("scenes.csv", "frames.csv")
    }


def test_a_folder_of_other_metrics_is_refused(measured, mixed_city, file):
    with pytest.raises(InvalidArgumentError, match=r"the digest of the metrics was .* and is"):
        simulate(mixed_city, measured, metrics=[f"{file}:SPEED"], options=ClosedLoopOptions(**OPTIONS))


def test_a_metric_with_a_role_is_part_of_the_score(mixed_city, tmp_path):
    half = Metric(
        name="half",
        label="Half",
        sentence="",
        role=MULTIPLIER,
        of_frames=lambda scenes: np.full(scenes.states.is_there.shape, 0.5),
    )
    options = ClosedLoopOptions(scenes=[0], **OPTIONS)
    alone, halved = (
        simulate(mixed_city, tmp_path / str(number), metrics=metrics, options=options)
        for number, metrics in enumerate([(), [half]])
    )
    assert_allclose(halved.score, 0.5 * alone.score)


def test_a_metric_may_be_below_0_and_be_called_first(mixed_city, tmp_path):
    gap = Metric(
        name="first_gap_m",
        label="Gap",
        sentence="",
        of_scenes=lambda scenes, _: np.full(len(scenes.states.is_there), -2.5),
        range=(None, None),
    )
    result = simulate(mixed_city, tmp_path, metrics=[gap], options=ClosedLoopOptions(scenes=[0], **OPTIONS))
    assert next(result.scenes())["first_gap_m"] == -2.5


def test_a_metric_that_fails_fails_its_scenes_with_its_name(mixed_city, tmp_path):
    short = Metric(name="short", label="", sentence="", of_frames=lambda scenes: np.zeros(3))
    result = simulate(
        mixed_city, tmp_path / "out", metrics=[short], options=ClosedLoopOptions(scenes=[0, 2], **OPTIONS)
    )
    assert [failed.scene for failed in result.failed] == [0, 2]
    assert "metric 'short': of_frames must return an array (1, 60), got (3,)" in result.failed[0].message


ONE = {"name": "gap_m", "label": "Gap", "sentence": ""}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"name": "a gap"}, "name must be a word", id="name"),
        pytest.param({"better": "up"}, "better must be 'high' or 'low', got 'up'", id="better"),
        pytest.param({"over_scenes": "median"}, "over_scenes must be mean, least, most, sum, or a number", id="fold"),
        pytest.param({"over_scenes": 101}, "a number from 0 to 100, got 101", id="percentile"),
        pytest.param({"of_scenes": "first"}, "of_scenes must be mean, least, most, sum, or a function", id="of scenes"),
        pytest.param({"of_frames": None}, "of_scenes must be a function, as there is no of_frames", id="nothing"),
        pytest.param({"role": 0.0}, "role must be 'multiplier', a weight above 0, or None, got 0.0", id="weight"),
        pytest.param({"role": 1.0, "range": (0, None)}, r"range must be \(0, 1\) for a metric with a role", id="range"),
        pytest.param({"fault": Fault("=", 1.0)}, "fault must be one with the sign <, <=, > or >=", id="fault"),
    ],
)
def test_what_a_metric_may_not_be(given, message):
    with pytest.raises(MetricError, match=message):
        Metric(**({**ONE, "of_frames": len} | given))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param([len], "name a metric in a file of yours", id="a function alone"),
        pytest.param(["gap"], "name a metric in a file of yours", id="no file"),
        pytest.param([Metric(**(ONE | {"name": "score"}), of_frames=len)], "exist already", id="a column of scenes"),
        pytest.param([Metric(**(ONE | {"name": "x_m"}), of_frames=len)], "exist already", id="a column of frames"),
        pytest.param([Metric(**ONE, of_frames=len)] * 2, "exist already", id="twice"),
        pytest.param(
            [Metric(**(ONE | {"name": name}), of_frames=len, column="gap") for name in "ab"],
            "exist already",
            id="one column of frames for two",
        ),
    ],
)
def test_names_that_are_taken_and_texts_that_name_nothing_are_refused(asked, message):
    with pytest.raises(InvalidArgumentError, match=message):
        open_metrics(asked)


def test_a_file_that_gives_no_metric_is_refused(tmp_path):
    (tmp_path / "own.py").write_text("NUMBER = 3\n")
    with pytest.raises(InvalidArgumentError, match=r"gives int; it must be a l5kit.evaluation.driving.Metric"):
        open_metrics(f"{tmp_path / 'own.py'}:NUMBER")
    with pytest.raises(InvalidArgumentError, match="has no OTHER; give a metric"):
        open_metrics(f"{tmp_path / 'own.py'}:OTHER")


@pytest.mark.parametrize(
    "told", [3, [3], [{}], [{"name": 3, "label": "", "sentence": ""}], [{"name": "a", "fault": 1}]]
)
def test_what_cannot_be_read_of_metrics_is_told(told):
    with pytest.raises(CorruptedDataError, match=r"about_metrics of scores\.json cannot be read"):
        read_facts({"about_metrics": told})
    assert read_facts({}) == METRICS
