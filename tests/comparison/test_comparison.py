"""Runs compared: what is averaged, what is refused, what is left out, and what is more than chance."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.comparison import IncomparableError, compare
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.resampling import Resampling
from support.compared_runs import METRICS, write_evaluation, write_simulation, write_training

FEW = Resampling(num_draws=500)
EVEN = {scene: 0.5 + 0.01 * (scene % 5) for scene in range(30)}


@pytest.fixture
def simulations(tmp_path):
    """Make simulations by name, from their scores or from scores and facts."""

    def make(**runs):
        paths = {}
        for name, given in runs.items():
            scores, facts = given if isinstance(given, tuple) else (given, {})
            paths[name] = write_simulation(tmp_path / name, scores, **facts)
        return list(paths.values())

    return make


def row_of(comparison, planner, metric="score", tag="all"):
    (row,) = [row for row in comparison.table(metric, tag=tag) if row.planner == planner]
    return row


def test_a_planner_that_is_better_in_each_scene_is_so_beyond_chance(simulations):
    above = {scene: score + 0.1 for scene, score in EVEN.items()}
    comparison = compare(simulations(base=EVEN, above=above), resampling=FEW)
    row = row_of(comparison, "above")
    assert_allclose([row.paired.mean.value, row.paired.difference.value], [0.62, 0.1])
    # the difference is the same in each scene, so that it has no spread, although scores have
    assert_allclose([row.paired.difference.low, row.paired.difference.high], [0.1, 0.1])
    assert row.paired.mean.low < 0.62 < row.paired.mean.high
    assert (row.verdict, row.paired.num_better, row.paired.num_worse) == ("better", 30, 0)
    base = row_of(comparison, "base")
    assert (base.paired.difference.value, base.verdict) == (0.0, "")
    assert np.isnan(base.chance)


def test_less_is_better_of_some_metrics(simulations):
    """The gap is ten times the score, and small ones are better, so that what is won turns round."""
    above = {scene: score + 0.1 for scene, score in EVEN.items()}
    comparison = compare(simulations(base=EVEN, above=above), resampling=FEW)
    row = row_of(comparison, "above", "gap_m")
    assert_allclose(row.paired.difference.value, 1.0)
    assert (row.verdict, row.paired.num_better, row.paired.num_worse) == ("worse", 0, 30)
    assert [each.scene[1] for each in comparison.differences("above", "gap_m")][:1] == [0]


@pytest.mark.parametrize(("num_lost", "is_told"), [(5, False), (6, True)], ids=["five scenes", "six scenes"])
def test_few_scenes_are_never_more_than_chance(simulations, num_lost, is_told):
    """Five that go one way do so by chance with 2 / 2^5 = 0.0625, six with 0.03125."""
    lower = EVEN | dict.fromkeys(range(num_lost), 0.0)
    row = row_of(compare(simulations(base=EVEN, lower=lower)), "lower")
    assert row.paired.chance >= 2 / 2**num_lost
    assert row.is_beyond_chance is is_told


def test_p_values_are_corrected_for_as_many_planners(simulations):
    lower = EVEN | dict.fromkeys(range(7), 0.0)
    alone = row_of(compare(simulations(base=EVEN, lower=lower), metrics=["score"]), "lower")
    paths = simulations(a=EVEN, lower_1=lower, lower_2=lower, lower_3=lower, same=EVEN)
    many = compare(paths, metrics=["score"])
    assert alone.chance == alone.paired.chance
    found = row_of(many, "lower_1")
    assert found.paired.chance == alone.paired.chance
    assert_allclose(found.chance, 4 * alone.chance)
    assert row_of(many, "same").chance == 1.0


def test_seeds_are_averaged_within_each_scene(simulations):
    """Each seed loses a different half of the scenes; together they equal the reference in each."""
    first = {scene: score + (0.2 if scene % 2 else -0.2) for scene, score in EVEN.items()}
    second = {scene: score + (-0.2 if scene % 2 else 0.2) for scene, score in EVEN.items()}
    base, *seeds = simulations(base=EVEN, seed_0=first, seed_1=second)
    comparison = compare({"base": base, "mine": seeds}, resampling=FEW)
    row = row_of(comparison, "mine")
    assert_allclose([row.paired.difference.low, row.paired.difference.high], 0.0, atol=1e-12)
    assert_allclose(comparison.seed_means("mine", "score"), [0.52, 0.52])
    words = compare([str(base), f"mine={seeds[0]},{seeds[1]}"], resampling=FEW)
    pattern = compare([str(base), f"mine={seeds[0].parent}/seed_*"], resampling=FEW)
    for other in (words, pattern):
        assert other.names == ("base", "mine")
        assert [row.as_dict() for row in other.rows] == [row.as_dict() for row in comparison.rows]


def test_scenes_that_a_run_lacks_are_left_out_and_counted(simulations):
    base = ({0: 0.5, 1: 0.5, 2: 1.0, 3: None}, {"failed": [4]})
    other = {1: 0.5, 2: 0.0, 3: 1.0, 4: 1.0, 5: 1.0}
    comparison = compare(simulations(base=base, other=other), resampling=FEW)
    assert comparison.common.scenes == (("sample.zarr", 1), ("sample.zarr", 2))
    assert comparison.common.num_left_out == 4
    assert_allclose(row_of(comparison, "base").paired.mean.value, 0.75)
    notes = "\n".join(comparison.notes)
    assert re.search(r"^base does not have 1 scene$", notes, flags=re.MULTILINE)
    assert re.search(r"^other does not have 1 scene$", notes, flags=re.MULTILINE)
    assert "base has no score of 2 scenes, first scene 3 of sample.zarr: nobody moves" in notes


def test_scenes_won_and_lost_come_with_what_fails(simulations):
    comparison = compare(simulations(base={0: 1.0, 1: 0.4, 2: 0.7}, other={0: 0.0, 1: 0.6, 2: 0.7}), resampling=FEW)
    won, lost = comparison.differences("other")
    assert (won.scene, lost.scene) == (("sample.zarr", 1), ("sample.zarr", 0))
    assert_allclose([won.difference, lost.difference], [0.2, -1.0])
    assert (lost.failures, lost.failures_of_reference, won.failures) == ("collision", "", "")


def test_a_gain_is_what_is_better_also_where_less_is(simulations):
    comparison = compare(simulations(base={0: 1.0, 1: 0.4, 2: 0.7}, other={0: 0.0, 1: 0.6, 2: 0.7}), resampling=FEW)
    assert_allclose(comparison.gains("other"), [-1.0, 0.2, 0.0])
    assert_allclose(comparison.gains("other", "gap_m"), [10.0, -2.0, 0.0])
    assert [each.scene[1] for each in comparison.differences("other", "gap_m")] == [0, 1]


def test_the_reference_is_the_one_that_is_named(simulations):
    paths = simulations(base=EVEN, other=dict.fromkeys(EVEN, 0.9))
    comparison = compare(paths, reference="other", resampling=FEW)
    assert (comparison.reference, row_of(comparison, "base").verdict) == ("other", "worse")
    with pytest.raises(InvalidArgumentError, match=r"reference is 'othr' \(did you mean 'other'\?\); the planners are"):
        compare(paths, reference="othr")
    with pytest.raises(InvalidArgumentError, match=r"metrics has 'gap' .*; the runs have score, safety, gap_m"):
        compare(paths, metrics=["gap"])


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        pytest.param({"digest": "xyz"}, "data: .*base has digest abc .*other has digest xyz", id="data"),
        pytest.param({"start_frame": 5}, "frames: .* from 0 on, all, .* from 5 on, all", id="frames"),
        pytest.param({"scored_by": ["epdms"]}, "score: .* nuplan, .* epdms", id="score"),
        pytest.param(
            {"about_metrics": [{**METRICS[0], "role": 2.0}]}, "safety is in .* with multiplier, and in .* with 2.0",
            id="weights of the score",
        ),
    ],
)  # fmt: skip
def test_other_data_and_other_scores_are_refused(simulations, facts, message):
    with pytest.raises(IncomparableError, match=message):
        compare(simulations(base=EVEN, other=(EVEN, facts)))


def test_runs_without_a_scene_in_common_are_refused(simulations):
    with pytest.raises(
        IncomparableError, match=r"no scene in common: .* has 2 scenes of sample.zarr, 0 to 1; .*, 7 to 8"
    ):
        compare(simulations(base={0: 1.0, 1: 1.0}, other={7: 1.0, 8: 1.0}))


def test_what_may_differ_is_told(simulations):
    other = (EVEN, {"agents": "idm", "about_metrics": METRICS[:1]})
    comparison = compare(simulations(base=EVEN, other=other), resampling=FEW)
    assert "not the same in all runs: others (idm, replay)" in comparison.notes
    assert "left out, as not all runs have it: gap_m" in comparison.notes
    assert [metric.name for metric in comparison.metrics] == ["score", "safety"]


def test_folders_of_one_name_are_told_apart_by_those_around_them(tmp_path):
    paths = [write_simulation(tmp_path / name / "simulation", EVEN) for name in ("a", "b")]
    assert compare(paths, resampling=FEW).names == ("a/simulation", "b/simulation")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["base"], "runs has base; name two planners or more", id="one"),
        pytest.param(["base", "base"], "runs has 'base' twice", id="a name twice"),
        pytest.param(["base", "mine=base"], "the folder .* twice, of 'base' and of 'mine'", id="a folder twice"),
        pytest.param(["base", "mine="], "write NAME=FOLDER,FOLDER", id="a name alone"),
        pytest.param(["base", "mine=no*"], "no folder fits 'no.'", id="a pattern of nothing"),
        pytest.param(["base", "nothing"], "run 'nothing' is not a folder", id="no folder"),
        pytest.param(["base", "empty"], "run 'empty' holds no scores", id="no run"),
        pytest.param(["base", "begun"], "'begun' is a simulation that has not finished", id="killed"),
        pytest.param(["base", "."], "it has runs in it, such as 'base'", id="the folder of runs"),
        pytest.param(["base", "training"], "base is a simulation, .*training is a training", id="another kind"),
    ],
)  # fmt: skip
def test_what_is_no_pair_of_runs_is_refused(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    write_simulation(tmp_path / "base", EVEN)
    write_training(tmp_path / "training", {"val/ade_m/1s": 0.5})
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "run.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match=message):
        compare(words)


def test_a_damaged_run_is_refused(simulations):
    base, other = simulations(base=EVEN, other=EVEN)
    (other / "receipt.json").write_text(json.dumps({"files": {"scenes.csv": {"bytes": 1}}, "sha256": "no"}))
    with pytest.raises(CorruptedDataError, match=r"other' is damaged: receipt.json is not what was written"):
        compare([base, other])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{}", "KeyError: 'options'"),
        ("run.json", "[]", "must hold a JSON object, got list"),
        ("scores.json", '{"about_metrics": 3}', "about_metrics of scores.json cannot be read"),
        ("scenes.csv", "a,b", "cannot be read|no scene in common"),
    ],
    ids=["facts are missing", "another kind of JSON", "no metrics", "another table"],
)
def test_files_that_l5kit_does_not_write_so_are_refused(simulations, file, content, message):
    base, other = simulations(base=EVEN, other=EVEN)
    (other / file).write_text(content)
    with pytest.raises((CorruptedDataError, IncomparableError), match=message):
        compare([base, other])


@pytest.mark.parametrize(
    "table",
    [
        "",
        "scene_index,ade_m,fde_m,miss\n0,far,1,0\n",
        "scene_index,ade_m,fde_m,miss\n0\n",
        f"scene_index,ade_m,fde_m,miss\n0,1,1,{'0' * 200_000}\n",
    ],
    ids=["no line", "no number", "a short line", "a cell without end"],
)
def test_tables_of_samples_that_cannot_be_read_are_refused(tmp_path, table):
    first, second = (write_evaluation(tmp_path / name, {0: [(1.0, 1.0)]}) for name in ("first", "second"))
    (second / "samples.csv").write_text(table)
    with pytest.raises(CorruptedDataError, match=r"samples\.csv, line \d: .*; evaluate again"):
        compare([first, second])


def test_means_of_evaluations_are_those_over_samples(tmp_path):
    """Scene 0 has three samples and scene 1 one: the mean of 1, 1, 1, 5 is 2; one end is not known."""
    first = write_evaluation(tmp_path / "first", {0: [(1.0, 3.0), (1.0, 1.0), (1.0, None)], 1: [(5.0, 9.0)]})
    second = write_evaluation(tmp_path / "second", {0: [(1.0, 1.0), (1.0, 1.0), (1.0, None)], 1: [(1.0, 1.0)]})
    comparison = compare([first, second], resampling=FEW)
    means = {(row.metric.name, row.planner): row.paired.mean.value for row in comparison.rows}
    assert means == pytest.approx({
        ("ade_m", "first"): 2.0, ("ade_m", "second"): 1.0,
        ("fde_m", "first"): 13.0 / 3.0, ("fde_m", "second"): 1.0,
        ("miss", "first"): 2.0 / 3.0, ("miss", "second"): 0.0,
    })  # fmt: skip
    assert row_of(comparison, "second", "ade_m").paired.num_better == 1


def test_evaluations_of_other_samples_are_refused(tmp_path):
    first = write_evaluation(tmp_path / "first", {0: [(1.0, 1.0)] * 2, 1: [(1.0, 1.0)]})
    with pytest.raises(IncomparableError, match=r"other samples: scene 0 has 2 of them in .*, and 1 in"):
        compare([first, write_evaluation(tmp_path / "second", {0: [(1.0, 1.0)], 1: [(1.0, 1.0)] * 2})])
    shorter = write_evaluation(tmp_path / "third", {0: [(1.0, 1.0)] * 2, 1: [(1.0, 1.0)]}, horizon_s=2.0)
    with pytest.raises(IncomparableError, match=r"horizon: .* 4 s, .* 2 s"):
        compare([first, shorter])


def test_trainings_are_compared_without_intervals(tmp_path):
    paths = []
    for name, error_m in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        scores = {"val/ade_m/1s": error_m, "driving/score": 0.5, "ctra/ade_m/1s": 7.0}
        paths.append(write_training(tmp_path / name, scores, best_by="driving/score"))
    comparison = compare([str(paths[2]), f"ab={paths[0]},{paths[1]}"], resampling=FEW)
    assert [metric.name for metric in comparison.metrics] == ["driving_score", "val_ade_m_1s"]
    row = row_of(comparison, "ab", "val_ade_m_1s")
    assert (row.paired.mean.value, row.metric.better, row.verdict) == (2.0, "low", "")
    assert np.isnan([row.paired.mean.low, row.chance]).all()
    assert any("trainings keep no scores of scenes" in note for note in comparison.notes)
    with pytest.raises(InvalidArgumentError, match="a training without an evaluation"):
        compare([paths[0], write_training(tmp_path / "d", {})])


def test_data_frames_have_a_row_for_each_number(simulations):
    pytest.importorskip("pandas")
    comparison = compare(simulations(base=EVEN, other=dict.fromkeys(EVEN, 0.9)), resampling=FEW)
    frame = comparison.to_pandas().set_index(["metric", "planner"])
    assert frame.loc[("score", "other"), "mean"] == pytest.approx(0.9)
    assert frame.loc[("score", "other"), "verdict"] == "better"
    assert len(frame) == 6
    scenes = comparison.scenes_to_pandas()
    assert scenes.groupby("planner")["score"].mean().to_dict() == pytest.approx({"base": 0.52, "other": 0.9})


def test_scenes_are_compared_by_what_happens_in_them(city_log, tmp_path):
    """The scenes that have a tag are those that the table of tags says."""
    from l5kit.data import ChunkedDataset
    from l5kit.evaluation.scene_tags import TAG_KINDS, tag_scenes

    log = ChunkedDataset(city_log).open()
    scores = {scene: 0.1 * scene for scene in range(len(log.scenes))}
    paths = [write_simulation(tmp_path / name, scores, log=city_log) for name in ("a", "b")]
    comparison = compare(paths, tags=True, resampling=FEW)
    tags = tag_scenes(log)
    labels = {kind.name: kind.label for kind in TAG_KINDS}
    found = [name for name in tags.names if 0 < tags.has(name).sum() < len(log.scenes)]
    assert found
    for name in found:
        has = tags.has(name)
        row = row_of(comparison, "a", tag=labels[name])
        assert row.paired.num_scenes == has.sum()
        assert_allclose(row.paired.mean.value, 0.1 * np.flatnonzero(has).mean())
    away = [write_simulation(tmp_path / name, scores) for name in ("c", "d")]
    with pytest.raises(
        InvalidArgumentError, match=r"tags need the log of .*, but '/nowhere/sample.zarr' does not exist"
    ):
        compare(away, tags=True)
