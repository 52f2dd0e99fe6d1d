"""A training that is killed at any moment resumes to the same best weights, scores, state and curves."""

import csv
import hashlib
import json
import signal
import sys

import pytest
import torch

from l5kit.planning.checkpoint import read_checkpoint
from support.processes.trainings import Job, Trainings
from support.workflows import small_config

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:the agents mask of"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork"),
]

COURSES = {
    "both at once": {"eval_every_n_steps": 2, "checkpoint_every_n_steps": 2},
    "evaluations are more frequent": {"eval_every_n_steps": 1, "checkpoint_every_n_steps": 2},
    "checkpoints are more frequent": {"eval_every_n_steps": 3, "checkpoint_every_n_steps": 1},
    "at other steps": {"eval_every_n_steps": 2, "checkpoint_every_n_steps": 3},
    "it ends early": {
        "eval_every_n_steps": 1,
        "checkpoint_every_n_steps": 2,
        "early_stopping_patience": 2,
        "learning_rate": 0.002,
    },
    "averaged over batches": {
        "eval_every_n_steps": 1,
        "checkpoint_every_n_steps": 2,
        "accumulate_grad_batches": 2,
        "ema_decay": 0.9,
        "save_top_k": 2,
        "learning_rate": 0.002,
    },
}
"""How trainings are evaluated and saved; their scores become worse at times, see :func:`config`."""

SPEED = ("samples_per_s", "loader_share")


def config(**changes):
    """Six steps with a learning rate that overshoots."""
    params = {"max_num_steps": 6, "learning_rate": 0.001, "log_every_n_steps": 1, **changes}
    return small_config("vector_planner", train_params=params)


@pytest.fixture(scope="module")
def trainings():
    with Trainings() as running:
        yield running


@pytest.fixture(scope="module")
def job(city, tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("kills-cache"))

    def make(folder, **options):
        return Job(folder=str(folder), city=str(city), cache=cache, **options)

    return make


def facts_of(folder, name="vector_planner"):
    """Results that must not depend on how often a training was killed."""
    result = json.loads((folder / "result.json").read_text())
    state = torch.load(folder / "last.ckpt", weights_only=True)
    (table,) = folder.glob("curves/*/metrics.csv")
    with table.open(newline="") as file:
        rows = [{key: value for key, value in row.items() if key not in SPEED} for row in csv.DictReader(file)]
    return {
        **{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.safetensors"))},
        "leftovers": [path.name for path in folder.iterdir() if path.name.startswith(".")],
        "result": {key: value for key, value in result.items() if key != "minutes"},
        "state": {key: state["callbacks"]["CheckpointWriter"][key] for key in ("best", "evaluated_step", "scores")},
        "step": state["global_step"],
        "weights": {key: value.double().sum().item() for key, value in state["state_dict"].items()},
        "curves": rows,
    }


def undisturbed(trainings, job, cfg, folder):
    ended = trainings.run(job(folder, cfg=cfg))
    assert ended.status == 0, ended.error
    return facts_of(folder), ended.moments


def killed(trainings, job, cfg, folder, moments):
    """Kill a training at a moment, and each resumed one at another, except for the last."""
    for number, moment in enumerate(moments):
        ended = trainings.run(job(folder, cfg=cfg, resume=number > 0 and has_begun(folder), killed_at=moment))
        assert ended.status in (-signal.SIGKILL, 0), ended.error
    ended = trainings.run(job(folder, cfg=cfg, resume=has_begun(folder)))
    assert ended.status == 0, ended.error
    return facts_of(folder)


def has_begun(folder):
    return (folder / "config.yaml").is_file()


@pytest.fixture(scope="module")
def wholes(trainings, job, tmp_path_factory):
    """Facts and moments of undisturbed trainings by course."""
    made = {}

    def get(course):
        if not made:  # the first training on a machine writes caches for later ones, which are further moments
            undisturbed(trainings, job, config(**COURSES[course]), tmp_path_factory.mktemp("first") / "out")
        if course not in made:
            folder = tmp_path_factory.mktemp("whole") / "out"
            made[course] = (*undisturbed(trainings, job, config(**COURSES[course]), folder), folder)
        return made[course]

    return get


@pytest.mark.long
def test_so_many_of_the_best_averaged_weights_stay(wholes):
    facts, _, folder = wholes("averaged over batches")
    rows = [row for row in facts["curves"] if row["val/ade_m/0.4s"]]
    ranked = sorted((float(row["val/ade_m/0.4s"]), int(row["step"]) + 1) for row in rows)
    names = {f"vector_planner_top_{step}_steps_{score:.4f}.safetensors": (score, step) for score, step in ranked[:2]}
    assert len(ranked) == 6
    assert {path.name for path in folder.glob("*_top_*")} == names.keys()
    for name, (score, step) in names.items():
        stored = read_checkpoint(folder / name).facts
        assert (stored["score"], stored["step"]) == (score, step)


def test_the_training_has_better_and_worse_evaluations(wholes):
    """Without these, the tests below would prove little."""
    facts, names, folder = wholes("it ends early")
    scores = [float(row["val/ade_m/0.4s"]) for row in facts["curves"] if row["val/ade_m/0.4s"]]
    best = scores.index(min(scores)) + 1
    assert len(scores) == 4
    assert best == 2
    assert max(scores[best:]) > scores[best - 1]
    assert (facts["result"]["best_step"], facts["result"]["best_score"]) == (best, min(scores))
    stored = read_checkpoint(folder / "vector_planner_best.safetensors").facts
    assert (stored["step"], stored["score"]) == (best, min(scores))
    for name in ("last.ckpt", "vector_planner_best.safetensors", "vector_planner.safetensors", "result.json"):
        assert f"before replace {name}" in names
        assert f"after replace {name}" in names


@pytest.mark.long
@pytest.mark.parametrize(
    ("course", "name", "occurrence"),
    [
        pytest.param("both at once", "before replace last.ckpt", 0, id="before the first state"),
        pytest.param("both at once", "before validation_step", 2, id="in the second evaluation"),
        pytest.param("both at once", "before replace vector_planner_best.safetensors", 1, id="before the best weights"),
        pytest.param("both at once", "after replace vector_planner_best.safetensors", 1, id="behind the best weights"),
        pytest.param("both at once", "after replace last.ckpt", 3, id="behind a state with its evaluation"),
        pytest.param("both at once", "before validation_step", -1, id="in the last evaluation, when all is trained"),
        pytest.param("it ends early", "before replace last.ckpt", 3, id="before the last state of one that ends early"),
        pytest.param("it ends early", "after replace last.ckpt", 3, id="behind it"),
        pytest.param("it ends early", "before _write_result", 0, id="before the result"),
        pytest.param("averaged over batches", "before training_step", 5, id="between two batches of a step"),
        pytest.param("averaged over batches", "before remove", 2, id="before one of the best weights goes"),
        pytest.param("averaged over batches", "after replace last.ckpt", 3, id="behind a state with averages"),
    ],
)
def test_a_kill_around_an_evaluation_changes_nothing(course, name, occurrence, wholes, trainings, job, tmp_path):
    whole, names, _ = wholes(course)
    moment = [number for number, found in enumerate(names) if found == name][occurrence]
    assert killed(trainings, job, config(**COURSES[course]), tmp_path / "out", [moment]) == whole


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("course", COURSES)
def test_a_kill_at_every_moment_changes_nothing(course, wholes, trainings, job, tmp_path):
    cfg = config(**COURSES[course])
    whole, names, _ = wholes(course)
    for moment in range(len(names)):
        assert killed(trainings, job, cfg, tmp_path / str(moment), [moment]) == whole, (moment, names[moment])
        twice = [moment, (7 * moment) % len(names)]
        assert killed(trainings, job, cfg, tmp_path / f"{moment}-twice", twice) == whole, twice


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_end_with_their_status_and_keep_the_state(number, status, wholes, trainings, job, tmp_path):
    cfg = config(**COURSES["both at once"])
    whole, names, _ = wholes("both at once")
    moment = [i for i, name in enumerate(names) if name == "before training_step"][3]
    ended = trainings.run(job(tmp_path / "out", cfg=cfg, killed_at=moment, signal=number))
    assert (ended.status, ended.error) == (status, "")
    assert torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)["global_step"] == 2
    ended = trainings.run(job(tmp_path / "out", cfg=cfg, resume=True))
    assert ended.status == 0, ended.error
    assert facts_of(tmp_path / "out") == whole
