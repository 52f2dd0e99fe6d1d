"""A killed training resumes as if it had never been interrupted."""

import math
import re
import shutil
from functools import partial

import lightning.pytorch as pl
import pytest
from safetensors.torch import save_file

from l5kit.data.jobs.folder_lock import LOCK_FILE, hold_folder
from l5kit.editing import FewerAgents, edit_dataset
from l5kit.errors import ConfigError, CorruptedDataError, InvalidArgumentError
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.planning.torch_files import CheckpointError
from l5kit.training import sweep, train
from l5kit.training.curves import CurveTable
from l5kit.training.folder import training_digest
from l5kit.training.state_file import ResumePoint, StateFiles
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

SCORE = "val/ade_m/0.4s"
"""The one that decides which weights are the best."""


class KilledError(Exception):
    """Stands for the end of the process."""


class Recorder(pl.Callback):
    """Notes the batch of each step, and ends the training at one."""

    def __init__(self, killed_after=None):
        self.seen = {}
        self._killed_after = killed_after

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self._killed_after:
            raise KilledError
        self.seen[trainer.global_step] = (
            batch["target_positions"].sum().item(),
            pl_module.optimizers().param_groups[0]["lr"],
        )


def run(cfg, folder, city, *, killed_after=None, resume=False):
    recorder = Recorder(killed_after)
    try:
        result = train(cfg, folder, data_folder=city, resume=resume, callbacks=(recorder,))
    except KilledError:
        return recorder.seen, None
    return recorder.seen, read_checkpoint(result.weights).state_dict


def same_weights(one, other):
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


@pytest.mark.filterwarnings("ignore:computing the tags")
def test_chosen_and_weighted_scenes_go_on_with_the_same_steps(city, tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    cfg = small_config("vector_planner", train_params={"max_num_steps": 6, "checkpoint_every_n_steps": 2})
    cfg["train_data_loader"] |= {"fraction": 0.67, "scenario_weights": {"standing": 3, "left_turn": 2}}
    whole, weights = run(cfg, tmp_path / "whole", city)
    before, _ = run(cfg, tmp_path / "killed", city, killed_after=5)
    after, resumed_weights = run(cfg, tmp_path / "killed", city, resume=True)
    assert min(after) == 4
    assert before | after == whole
    assert same_weights(weights, resumed_weights)
    cfg["train_data_loader"] = cfg["train_data_loader"] | {"subset_seed": 1}
    with pytest.raises(ConfigError, match="subset_seed: None became 1"):
        run(cfg, tmp_path / "killed", city, resume=True)


@pytest.mark.parametrize(
    ("workflow", "threads"),
    [
        pytest.param("raster_planner", 1, id="perturbed samples"),
        pytest.param("safepathnet", 0, id="dropout"),
    ],
)
def test_a_killed_training_goes_on_with_the_same_steps(workflow, threads, city, tmp_path):
    cfg = small_config(
        workflow,
        train_params={
            "num_epochs": 3,
            "max_num_steps": 3,  # of each epoch
            "checkpoint_every_n_steps": 4,  # within the second epoch
            "eval_every_n_steps": 3,
            "schedule": "cosine",
            "warmup_num_steps": 2,
            "accelerator": "cpu",
        },
    )
    cfg["train_data_loader"]["threads"] = threads
    steps, weights = run(cfg, tmp_path / "whole", city)
    assert sorted(steps) == list(range(9))
    assert len({batch for batch, _ in steps.values()}) == 9

    before, _ = run(cfg, tmp_path / "killed", city, killed_after=6)
    after, resumed_weights = run(cfg, tmp_path / "killed", city, resume=True)
    assert sorted(before) == list(range(6))
    assert sorted(after) == list(range(4, 9))
    assert before | after == steps
    assert same_weights(resumed_weights, weights)


def test_a_training_can_be_made_longer(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 2, "accelerator": "cpu"})
    run(cfg, tmp_path / "out", city)
    cfg["train_params"]["max_num_steps"] = 4
    steps, _ = run(cfg, tmp_path / "out", city, resume=True)
    assert sorted(steps) == [2, 3]
    again, weights = run(cfg, tmp_path / "out", city, resume=True)
    assert not again
    assert weights is not None


def test_a_training_does_not_go_on_with_other_data(city, tmp_path):
    """Its weights would be of both, and be said to be of the second alone."""
    cfg = small_config("vector_planner", train_params={"max_num_steps": 2, "accelerator": "cpu"})
    run(cfg, tmp_path / "out", city)
    cfg["train_params"]["max_num_steps"] = 4
    other = edit_dataset(city, tmp_path / "other", FewerAgents(share=0.5)).path
    with pytest.raises(InvalidArgumentError, match=r"data has the digest \w+, but the training to be resumed used"):
        run(cfg, tmp_path / "out", other, resume=True)
    assert sorted(run(cfg, tmp_path / "out", city, resume=True)[0]) == [2, 3]


def test_a_training_that_ended_before_its_first_state_starts_anew_and_says_so(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 2, "accelerator": "cpu"})
    folder, told = tmp_path / "out", []
    run(cfg, folder, city, killed_after=1)
    assert not (folder / "last.ckpt").exists()
    train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert told[0] == f"there is no {folder / 'last.ckpt'} yet: the training starts at step 0"
    train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert [line for line in told if "starts at step 0" in line] == told[:1]


@pytest.mark.parametrize("lost", ["last.ckpt", "config.yaml"])
def test_a_folder_that_lost_a_file_does_not_start_anew(lost, city, tmp_path):
    params = {"max_num_steps": 2, "checkpoint_every_n_steps": 1, "accelerator": "cpu", "output_name": "of[0]"}
    cfg, folder = small_config("vector_planner", train_params=params), tmp_path / "out"
    run(cfg, folder, city)
    (folder / lost).unlink()
    for proof in ("result.json", "of[0]_1_steps.safetensors"):
        with pytest.raises(FileNotFoundError, match=f"there is no {re.escape(str(folder / lost))}.* put it back"):
            run(cfg, folder, city, resume=True)
        (folder / proof).unlink()
    if lost == "last.ckpt":
        assert sorted(run(cfg, folder, city, resume=True)[0]) == [0, 1]


def evaluated(**changes):
    """Two steps with an evaluation and a checkpoint after each."""
    params = {"max_num_steps": 2, "eval_every_n_steps": 1, "checkpoint_every_n_steps": 1, "accelerator": "cpu"}
    return small_config("vector_planner", train_params={**params, **changes})


def forget_score(folder, change=lambda weights: weights):
    """Write the best weights as earlier versions did, which noted no score with them."""
    path = folder / "vector_planner_best.safetensors"
    save_file(change(dict(read_checkpoint(path).state_dict)), path)
    return path


def test_best_weights_whose_score_is_not_noted_are_evaluated_again(city, tmp_path):
    cfg, folder, told = evaluated(), tmp_path / "out", []
    before = train(cfg, folder, data_folder=city)
    path = forget_score(folder)
    after = train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert told == [f"evaluating {path.name} again, as its score is not known"]
    assert (after.best_score, after.best_step) == (before.best_score, None)
    assert read_checkpoint(path).facts["score"] == before.best_score
    train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert len(told) == 1


def test_scores_of_other_samples_are_not_compared(city, tmp_path):
    cfg, folder, told = evaluated(eval_every_n_steps=2), tmp_path / "out", []
    before = train(cfg, folder, data_folder=city)
    cfg["val_data_loader"]["max_num_batches"] = 1
    after = train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert told[0] == "evaluating vector_planner_best.safetensors again, as its score is not known"
    assert before.best_step == after.best_step == 2
    assert after.best_score == after.scores[SCORE]  # which the weights of step 2 have got anew
    assert after.best_score != before.best_score


def test_best_weights_that_predict_nothing_give_way(city, tmp_path):
    cfg, folder = evaluated(), tmp_path / "out"
    train(cfg, folder, data_folder=city)
    path = forget_score(folder, lambda weights: {name: value * float("nan") for name, value in weights.items()})
    longer = evaluated(max_num_steps=6, early_stopping_patience=4)
    with pytest.warns(UserWarning, match="such a network predicts nothing"):
        after = train(longer, folder, data_folder=city, resume=True)
    assert (after.num_steps, math.isfinite(after.best_score)) == (6, True)
    found = read_checkpoint(path)
    assert found.facts["score"] == after.best_score
    assert all(value.isfinite().all() for value in found.state_dict.values())


def test_a_training_that_had_no_patience_left_ends_at_its_step(city, tmp_path, monkeypatch):
    cfg = evaluated(max_num_steps=50, early_stopping_patience=2, learning_rate=1e-12)
    folder, told = tmp_path / "out", []
    train(cfg, folder, data_folder=city, tell=told.append)
    line = told[-1]
    assert line.startswith("step 3: stopping, as 2 evaluations were not better")
    again = train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert (again.num_steps, told[4:]) == (3, [line])

    forget_score(folder)
    monkeypatch.setattr(pl.Trainer, "is_global_zero", property(lambda _: False))
    another_process = train(cfg, folder, data_folder=city, resume=True, tell=told.append)
    assert (another_process.num_steps, told[5:]) == (3, [])


def test_a_training_without_its_data_leaves_the_folder_free(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    with pytest.raises(FileNotFoundError):
        run(cfg, tmp_path / "out", tmp_path / "no data")
    run(cfg, tmp_path / "out", city)
    assert (tmp_path / "out" / "result.json").exists()


def test_another_training_does_not_go_on(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    with pytest.raises(FileNotFoundError, match=r"last\.ckpt"):
        run(cfg, tmp_path / "out", city, resume=True)
    run(cfg, tmp_path / "out", city)
    with pytest.raises(InvalidArgumentError, match="holds files"):
        run(cfg, tmp_path / "out", city)
    other = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    other["train_data_loader"]["batch_size"] = 4
    with pytest.raises(ConfigError, match="batch_size: 8 became 4"):
        run(other, tmp_path / "out", city, resume=True)
    cfg["train_params"]["seed"] = 5
    with pytest.raises(ConfigError, match=r"train_params\.seed: 5 differs from None"):
        run(cfg, tmp_path / "out", city, resume=True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"train/loss,ste\n1,0\n", "no column 'step'", id="a cut header"),
        pytest.param(b"step,train/loss\nzero,1\n", "a step is not a whole number .*'zero'", id="a step that is none"),
        pytest.param(b"step,train/loss\n0,1,2\n", "a line has 3 cells, and there are 2 columns", id="a longer line"),
        pytest.param(b"step,train/loss\n0,\xff\n", "it is not UTF-8 text", id="no text"),
        pytest.param(b"step,train/loss\n0," + b"1" * 200_000 + b"\n", "field larger than", id="an endless cell"),
    ],
)
def test_a_damaged_table_of_curves_is_named(content, says, tmp_path):
    table = tmp_path / "metrics.csv"
    table.write_bytes(content)
    with pytest.raises(
        CorruptedDataError, match=rf"metrics\.csv is not a table of curves: .*{says}.*remove it to begin"
    ):
        CurveTable(table, resumed=ResumePoint(3))
    assert table.read_bytes() == content


def test_a_row_that_a_killed_process_has_cut_is_dropped(tmp_path):
    table = tmp_path / "metrics.csv"
    table.write_bytes(b"step,train/loss\n0,5\n1,4\n2,3")
    CurveTable(table, resumed=ResumePoint(3)).log_metrics({"train/loss": 2.0}, 3)
    assert table.read_text() == "step,train/loss\n0,5\n1,4\n3,2.0\n"


def test_the_state_of_another_training_is_refused(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1})
    del cfg["val_data_loader"]
    for name, seed in (("one", 0), ("other", 1)):
        cfg["train_params"]["seed"] = seed
        run(cfg, tmp_path / name, city)
    shutil.copy(tmp_path / "one" / "last.ckpt", tmp_path / "other" / "last.ckpt")
    cfg["train_params"]["max_num_steps"] = 2
    with pytest.raises(CheckpointError, match=r"other.last\.ckpt is not the state of the training"):
        run(cfg, tmp_path / "other", city, resume=True)


def test_equal_configurations_have_one_digest():
    one, other = small_config("vector_planner"), small_config("vector_planner")
    one["model_params"]["step_time"], other["model_params"]["step_time"] = 1, 1.0
    other["train_params"]["log_every_n_steps"] = 3
    assert training_digest(one) == training_digest(other)
    other["model_params"]["step_time"] = 1.5
    assert training_digest(one) != training_digest(other)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("global_step", -1),
        ("global_step", True),
        ("loops", {}),
        ("optimizer_states", []),
        ("lr_schedulers", "x"),
        ("state_dict", "x"),
        ("callbacks", None),
    ],
)
def test_a_state_with_wrong_parts_is_none(part, value, tmp_path):
    state = {
        "global_step": 2,
        "state_dict": {},
        "loops": {"fit_loop": {}},
        "callbacks": {},
        "optimizer_states": [{}],
        "lr_schedulers": [{}],
    }
    file = tmp_path / "last.ckpt"
    StateFiles().save_checkpoint(state, file)
    assert StateFiles().load_checkpoint(file) == state
    StateFiles().save_checkpoint({**state, part: value}, file)
    with pytest.raises(CheckpointError, match=f"not a training state: invalid {part}"):
        StateFiles().load_checkpoint(file)


def test_a_folder_that_another_process_writes_to_is_refused(tmp_path):
    folder = tmp_path / "out"
    cfg = small_config("vector_planner")
    with hold_folder(folder, may_make=True):
        for start in (train, partial(sweep, values={"train_params.seed": [1]})):
            for resume in (False, True):
                with pytest.raises(InvalidArgumentError, match=r"out', to which another process is writing a training"):
                    start(cfg, folder, resume=resume)
        assert [path.name for path in folder.iterdir()] == [LOCK_FILE]
    with hold_folder(folder, may_make=False):
        pass
    assert not list(folder.iterdir())
