"""The best score of a training, and what makes two scores comparable."""

import math

import pytest

from l5kit.training.best import BestScore, TopWeights, evaluation_digest
from support.workflows import small_config


def test_only_a_smaller_finite_score_is_better():
    best = BestScore().after(2.0, 1)
    assert best == BestScore(2.0, 1)
    assert best.after(2.0, 2) == BestScore(2.0, 1, 1)
    assert best.after(math.nan, 2).after(-math.inf, 3) == BestScore(2.0, 1, 2)
    assert best.after(3.0, 2).after(1.0, 3) == BestScore(1.0, 3)


@pytest.mark.parametrize("best", [BestScore(), BestScore(1.5, 3, 2)], ids=["none yet", "one"])
def test_what_is_stored_comes_back(best):
    assert BestScore.of(best.as_dict()) == best


@pytest.mark.parametrize("facts", [{}, {"score": math.nan}, {"score": 1}, {"score": 1.0, "step": -1}], ids=str)
def test_what_holds_no_score_gives_none(facts):
    assert BestScore.of(facts) is None


@pytest.mark.process
def test_the_digest_of_an_evaluation_is_that_of_trainings_before():
    """States and best weights store it: with a different one, a resumed training would judge its weights again."""
    cfg = small_config("raster_planner")
    digest = evaluation_digest(cfg, score="val/ade_m/1.2s")
    assert digest == "858972f5e6273b87"
    cfg["val_data_loader"] |= {"threads": 5, "num_workers": 2}
    assert evaluation_digest(cfg, score="val/ade_m/1.2s") == digest
    cfg["val_data_loader"]["batch_size"] = 9
    assert evaluation_digest(cfg, score="val/ade_m/1.2s") != digest


def test_where_no_best_weights_are_kept_none_are_read(tmp_path):
    (tmp_path / "net_top_3_steps_1.0000.safetensors").write_bytes(b"broken")
    assert TopWeights(tmp_path, "net", 0).stored("evaluation") == ()
    with pytest.warns(UserWarning, match="it no longer counts as one of the best weights"):
        assert TopWeights(tmp_path, "net", 1).stored("evaluation") == ()
