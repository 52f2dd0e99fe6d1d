"""EPDMS of a simulation: in its tables and files, together with the nuPlan score or alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.closedloop.measured import find_scores
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import METRICS, Metric
from l5kit.evaluation.epdms import EPDMS_METRICS, TERMS
from support.crashes import drive_into
from support.simulated_folders import digests_of, rows_of

OPTIONS = ClosedLoopOptions(show_bar=False)
NAMES = [metric.name for metric in EPDMS_METRICS]


@pytest.fixture(scope="module")
def both(city, tmp_path_factory):
    """The folder of a simulation with both scores."""
    folder = tmp_path_factory.mktemp("both") / "out"
    simulate(city, folder, planner="idm", score="nuplan,epdms", options=OPTIONS)
    return folder


def test_windows_are_in_the_frames_in_which_they_begin(both):
    rows = rows_of(both / "frames.csv")
    assert list(rows[0])[-len(NAMES) :] == NAMES
    begin = [(int(row["scene"]), int(row["frame"])) for row in rows if row["epdms"]]
    assert begin == [(scene, frame) for scene in range(3) for frame in range(15, 60, 5)]
    for row in rows:
        assert all((row[name] == "") == (row["epdms"] == "") for name in NAMES if name != "epdms_extended_comfort")
    assert [row["epdms_extended_comfort"] == "" for row in rows if row["epdms"]] == 3 * [*8 * [False], True]


def test_scenes_have_the_means_of_their_windows(both):
    frames, scenes = rows_of(both / "frames.csv"), rows_of(both / "scenes.csv")
    for name in ("epdms", *(term.name for term in TERMS)):
        for scene in scenes:
            values = [float(row[name]) for row in frames if row["scene"] == scene["scene"] and row[name]]
            assert_allclose(float(scene[name]), np.mean(values), atol=5e-4)
    assert {(scene["epdms_windows"], scene["epdms_planned"]) for scene in scenes} == {("9.000000", "1.000000")}


def test_scores_say_what_each_term_is(both):
    scores = json.loads((both / "scores.json").read_text())
    about = {each["name"]: each for each in scores["about_metrics"]}
    assert list(about) == [metric.name for metric in (*METRICS, *EPDMS_METRICS)]
    assert "of_score" not in about["progress"]
    assert {about[name]["of_score"] for name in NAMES} == {"epdms"}
    assert (about["epdms_progress"]["role"], about["epdms"]["role"]) == (5.0, None)
    assert scores["scored_by"] == ["nuplan", "epdms"]
    assert scores["metrics"]["epdms_windows"] == 27
    rows = rows_of(both / "scenes.csv")
    assert_allclose(scores["metrics"]["epdms"], np.mean([float(row["epdms"]) for row in rows]), atol=1e-6)
    assert scores["score"] != scores["metrics"]["epdms"]


def test_the_score_of_nuplan_stays_what_it_is_without(both, city, tmp_path):
    alone = simulate(city, tmp_path / "alone", planner="idm", options=OPTIONS)
    scores = json.loads((both / "scores.json").read_text())
    assert "scored_by" not in alone.scores
    assert alone.score == scores["score"]
    for name in ("metrics", "scenes_failing", "totals"):
        assert alone.scores[name].items() <= scores[name].items()
    assert alone.scores["about_metrics"] == scores["about_metrics"][: len(METRICS)]
    for with_both, without in zip(rows_of(both / "frames.csv"), rows_of(alone.frames_table), strict=True):
        assert without.items() <= with_both.items()


def test_epdms_alone_is_the_score(both, city, tmp_path):
    """And tables of frames still say how the AV drove."""
    result = simulate(city, tmp_path / "out", planner="idm", score="epdms", options=replace(OPTIONS, keeps_plans=False))
    beside = json.loads((both / "scores.json").read_text())
    assert result.score == result.metrics["epdms"] == beside["metrics"]["epdms"]
    assert list(result.metrics) == NAMES
    for alone, with_both in zip(rows_of(result.frames_table), rows_of(both / "frames.csv"), strict=True):
        assert alone == with_both
    with np.load(result.plans) as plans:
        assert plans.files == ["times_s"]  # plans are needed, although nobody requested to keep them


def test_any_batch_size_and_any_number_of_workers_give_the_same_files(both, city, tmp_path):
    chosen = replace(OPTIONS, batch_size=1, workers=2)
    simulate(city, tmp_path / "out", planner="idm", score=("epdms", "nuplan"), options=chosen)
    assert digests_of(tmp_path / "out") == digests_of(both)


def test_a_planner_without_plans_is_marked(city, tmp_path):
    result = simulate(city, tmp_path / "out", planner="replay", score="epdms", options=OPTIONS)
    assert result.metrics["epdms_planned"] == 0.0
    assert result.score > 0.9


def test_scenes_that_are_too_short_have_no_score(city, tmp_path):
    short = replace(OPTIONS, num_frames=55)
    alone = simulate(city, tmp_path / "alone", planner="replay", score="epdms", options=short)
    assert (alone.score, alone.num_scenes) == (None, 0)
    assert "55 frames are too few for a window: it needs 1.5 s before and 4.0 s after" in alone.unscored[0]
    beside = simulate(city, tmp_path / "beside", planner="replay", score="nuplan,epdms", options=short)
    assert beside.score is not None
    assert (beside.metrics["epdms"], beside.unscored) == (None, {})


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("nuplan", ("nuplan",)),
        ("epdms,nuplan", ("nuplan", "epdms")),
        (["epdms", "epdms"], ("epdms",)),
        (["nuplan", "epdms"], ("nuplan", "epdms")),
    ],
)
def test_scores_are_named(asked, found):
    assert find_scores(asked) == found


@pytest.mark.parametrize("asked", ["", "pdms", "nuplan,pdms", [], "nuplan, epdms"])
def test_scores_that_are_not_there(asked):
    with pytest.raises(InvalidArgumentError, match=r"score \(--score\) is .*; allowed are nuplan, epdms, or both"):
        find_scores(asked)


def test_logs_of_another_rate_are_refused(tmp_path):
    with write_log(tmp_path / "log.zarr", facts=LogFacts(step_time_s=0.2)) as writer:
        writer.append(drive_into(30.0))
    with pytest.raises(InvalidArgumentError, match=r"every 0.1 s, but .* 0.2 s apart; .*l5kit resample"):
        simulate(tmp_path / "log.zarr", tmp_path / "out", score="epdms", options=OPTIONS)


def test_a_metric_with_a_role_needs_the_score_that_it_is_part_of(city, tmp_path):
    own = Metric(name="own", label="Own", sentence="1", role=1.0, of_frames=lambda scenes: scenes.progress_m)
    with pytest.raises(InvalidArgumentError, match=r"'own' with the role 1\.0 in the score 'nuplan'"):
        simulate(city, tmp_path / "out", score="epdms", metrics=[own], options=OPTIONS)


def test_another_score_is_another_simulation(both, city):
    with pytest.raises(InvalidArgumentError, match=r"scored_by \(--score\) was \['nuplan', 'epdms'\] and is none"):
        simulate(city, both, planner="idm", options=OPTIONS)
