"""Optimisers, schedules, callbacks and errors of a value that a configuration names by class path."""

import sys

import lightning.pytorch as pl
import pytest
import torch

from l5kit.configs.config import save_config_data
from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training import train
from l5kit.training.folder import prepare_folder
from l5kit.training.optimizing import TrainingSchedule, make_callbacks, make_course, make_optimizer
from l5kit.training.state_file import StateFiles
from l5kit.workflows.workflow import TrainingConfig
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

CODE = """
import lightning.pytorch as pl
import torch

class Sign(torch.optim.Optimizer):
    def __init__(self, weights, lr, momentum=0.5):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                    mean.lerp_(weight.grad, 1 - group["momentum"])
                    weight.sub_(mean.sign(), alpha=group["lr"])
        return loss

class Halving(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, total_steps):
        self.total_steps = total_steps
        super().__init__(optimizer)

    def get_lr(self):
        return [base * 0.5 ** (self.last_epoch / self.total_steps) for base in self.base_lrs]

class Counting(pl.Callback):
    def __init__(self, *, first):
        self.count = first

    def on_train_batch_end(self, *_):
        self.count += 1
        if self.count == self.stop_at:
            raise RuntimeError("killed")

    stop_at = None

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]

class Relative(torch.nn.Module):
    def forward(self, given, wanted):
        return (given - wanted).abs() / (1 + wanted.abs())

class Mean(torch.nn.Module):
    def forward(self, given, wanted):
        return (given - wanted).abs().mean()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_optimizing_of_test.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_optimizing_of_test"
    sys.modules.pop("own_optimizing_of_test", None)


def params_of(**train_params):
    return TrainingParams.from_cfg(small_config("vector_planner", train_params=train_params))


def weights():
    return [torch.nn.Parameter(torch.ones(3))]


def schedule_of(params):
    return TrainingSchedule.of(params, num_batches=10, schedule="constant")


def test_optimizers_of_torch_go_by_their_names_and_take_the_rate_and_the_decay():
    made = make_optimizer(params_of(optimizer="SGD", learning_rate=0.25, weight_decay=0.5), weights())
    assert type(made) is torch.optim.SGD
    assert (made.param_groups[0]["lr"], made.param_groups[0]["weight_decay"]) == (0.25, 0.5)


def test_arguments_of_the_configuration_go_before_the_rate():
    value = {"class_path": "RMSprop", "init_args": {"lr": 0.5, "alpha": 0.75}}
    group = make_optimizer(params_of(optimizer=value, learning_rate=0.25), weights()).param_groups[0]
    assert (group["lr"], group["alpha"]) == (0.5, 0.75)


def test_a_schedule_of_torch_knows_the_steps_of_the_training():
    params = params_of(schedule={"class_path": "CosineAnnealingLR"}, learning_rate=1.0, max_num_steps=10)
    optimizer = make_optimizer(params, weights())
    course = make_course(params, optimizer, schedule_of(params))
    rates = []
    for _ in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        course.step()
    assert rates[0] == 1.0
    assert rates[5] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.0)


COURSES = {
    "OneCycleLR": {},
    "OneCycleLR of three phases": {"three_phase": True, "pct_start": 0.4},
    "CyclicLR": {"base_lr": 1e-4, "step_size_up": 2},
    "CyclicLR that falls": {"base_lr": 1e-4, "step_size_up": 2, "mode": "triangular2", "cycle_momentum": False},
    "CyclicLR that decays": {"base_lr": 1e-4, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9},
    "CosineAnnealingWarmRestarts": {"T_0": 2, "T_mult": 2},
    "CosineAnnealingLR": {},
    "MultiStepLR": {"milestones": [1, 3, 4]},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 5, "power": 2.0},
    "LinearLR": {"total_iters": 5},
    "ConstantLR": {"total_iters": 5},
    "StepLR": {"step_size": 2},
}


class Course:
    """Steps of an optimiser whose rate a schedule sets, with states in files as trainings have them."""

    def __init__(self, name):
        schedule = {"class_path": name.partition(" ")[0], "init_args": COURSES[name]}
        params = params_of(schedule=schedule, optimizer="AdamW", learning_rate=0.25, max_num_steps=9)
        self.weights = weights()
        self.optimizer = make_optimizer(params, self.weights)
        self.course = make_course(params, self.optimizer, schedule_of(params))

    def step(self, number):
        for step in number:
            self.weights[0].grad = torch.tensor([1.0, -2.0, 0.5]) * (1 + step % 3)
            self.optimizer.step()
            self.course.step()
        group = self.optimizer.param_groups[0]
        return self.weights[0].tolist(), group["lr"], group["betas"], self.course.get_last_lr()

    def save(self, file):
        own = {"optimizer_states": [self.optimizer.state_dict()], "lr_schedulers": [self.course.state_dict()]}
        weights = {"weight": self.weights[0].detach()}
        StateFiles().save_checkpoint(
            {"global_step": 0, "state_dict": weights, "loops": {"fit_loop": {}}, "callbacks": {}, **own}, file
        )

    def load(self, file):
        state = StateFiles().load_checkpoint(file)
        self.weights[0].data.copy_(state["state_dict"]["weight"])
        self.optimizer.load_state_dict(state["optimizer_states"][0])
        self.course.load_state_dict(state["lr_schedulers"][0])
        return self


@pytest.mark.parametrize("name", COURSES)
def test_a_schedule_of_torch_goes_on_to_the_bit(name, tmp_path):
    whole, rates = Course(name), set()
    expected = []
    for step in range(9):
        expected.append(whole.step([step]))
        rates.add(expected[-1][1])
    assert len(rates) > 1
    for killed_after in range(9):
        killed = Course(name)
        killed.step(range(killed_after))
        killed.save(tmp_path / "last.ckpt")
        resumed = Course(name).load(tmp_path / "last.ckpt")
        assert [resumed.step([step]) for step in range(killed_after, 9)] == expected[killed_after:]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("OneCycleLR", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.long) for name in COURSES if name != "OneCycleLR"),
    ],
)
def test_a_killed_training_with_a_schedule_of_torch_goes_on_to_the_bit(name, city, tmp_path):
    rates = {}

    class Watcher(pl.Callback):
        def __init__(self, killed_at=None):
            self.killed_at = killed_at

        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if trainer.global_step == self.killed_at:
                raise RuntimeError("killed")
            group = pl_module.optimizers().param_groups[0]
            rate = (group["lr"], group["betas"])
            assert rates.setdefault(trainer.global_step, rate) == rate

    def run(folder, killed_at=None, **options):
        schedule = {"class_path": name.partition(" ")[0], "init_args": COURSES[name]}
        steps = {"max_num_steps": 6, "checkpoint_every_n_steps": 2, "accelerator": "cpu"}
        cfg = small_config("vector_planner", train_params={**steps, "schedule": schedule})
        made = train(cfg, tmp_path / folder, data_folder=city, callbacks=(Watcher(killed_at),), **options)
        return read_checkpoint(made.weights).state_dict

    whole = run("whole")
    with pytest.raises(RuntimeError, match="killed"):
        run("killed", killed_at=5)
    resumed = run("killed", resume=True)
    assert sorted(rates) == list(range(6))
    assert len(set(rates.values())) > 1
    assert all(torch.equal(value, resumed[key]) for key, value in whole.items())


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ({"class_path": "OneCycleLR"}, r"max_num_steps: 3 differs from 2 .* \(total_steps of .*OneCycleLR\)"),
        ({"class_path": "CosineAnnealingLR"}, r"max_num_steps: 3 differs from 2 .* \(T_max of .*CosineAnnealingLR\)"),
        ({"class_path": "CosineAnnealingLR", "init_args": {"T_max": 5}}, None),
        ({"class_path": "StepLR", "init_args": {"step_size": 1}}, None),
    ],
    ids=lambda value: value["class_path"] if isinstance(value, dict) else "",
)
def test_a_training_is_made_longer_only_if_its_schedule_was_not_made_for_its_length(schedule, says, tmp_path):
    def config(steps):
        params = {"max_num_steps": steps, "schedule": schedule}
        return TrainingConfig.from_cfg(small_config("vector_planner", train_params=params))

    save_config_data(config(2).mapping, str(tmp_path / "config.yaml"))
    assert prepare_folder(tmp_path, config(2), resume=True).step == 0
    if says is None:
        assert prepare_folder(tmp_path, config(3), resume=True).step == 0
        return
    with pytest.raises(ConfigError, match=says):
        prepare_folder(tmp_path, config(3), resume=True)


def make_all(params):
    make_course(params, make_optimizer(params, weights()), schedule_of(params))
    make_callbacks(params)


@pytest.mark.parametrize(
    ("train_params", "says"),
    [
        ({"optimizer": "AdmW"}, r"train_params\.optimizer.*did you mean 'AdamW'"),
        ({"optimizer": "torch.nn.Linear"}, "subclass of torch.optim.optimizer.Optimizer, got torch.nn.Linear"),
        ({"optimizer": {"class_path": "SGD", "init_args": {"momentun": 1}}}, "momentun.*did you mean 'momentum'"),
        ({"optimizer": {"class_path": "SGD", "init_args": {"params": 1}}}, "init_args.params: l5kit passes this"),
        ({"optimizer": {"class_path": "SGD", "init_args": {"lr": -1}}}, "optimizer: .*cannot be made: ValueError"),
        ({"optimizer": "Rprop", "weight_decay": 0.1}, "weight_decay: torch.optim.Rprop takes none"),
        ({"schedule": {"class_path": "StepLR"}}, "schedule.init_args: .*StepLR needs step_size"),
        ({"schedule": {"class_path": "ReduceLROnPlateau"}}, "depends on scores"),
        (
            {"schedule": {"class_path": "OneCycleLR", "init_args": {"total_steps": 19}}},
            r"schedule\.init_args: the cycle of .*OneCycleLR ends after 19 steps, and the training has 20",
        ),
        ({"callbacks": ["Timr"]}, r"train_params\.callbacks\[0\].*did you mean 'Timer'"),
        ({"callbacks": ["ModelCheckpoint"]}, "already does the work of .*save_top_k"),
        ({"callbacks": ["EarlyStopping"]}, "early_stopping_patience"),
    ],
)
def test_what_cannot_be_made_is_told_with_its_key(train_params, says):
    params = params_of(**train_params)
    with pytest.raises(ConfigError, match=says):
        make_all(params)


@pytest.mark.parametrize(
    ("section", "values", "says"),
    [
        ("train_params", {"optimizer": {"class": "Lion"}}, "optimizer.class: unknown .did you mean 'class_path'"),
        ("train_params", {"schedule": "StepLR"}, "schedule: expected 'constant' or 'cosine' or a mapping"),
        ("train_params", {"callbacks": "Timer"}, "callbacks: expected a list of"),
        ("train_params", {"schedule": {"class_path": "a.B"}, "warmup_num_steps": 3}, "has its own warmup"),
        ("model_params", {"criterion": {"class_path": "a..B"}}, "criterion.class_path: expected a text"),
        ("model_params", {"loss": "a.B"}, "loss of a model of your own"),
        ("model_params", {"model": "B"}, "model.class_path: expected a text such as"),
    ],
)
def test_other_forms_are_refused_when_the_configuration_is_read(section, values, says):
    with pytest.raises(ConfigError, match=says):
        TrainingParams.from_cfg(small_config("vector_planner", **{section: values}))


def own_config(own, **train_params):
    return small_config(
        "vector_planner",
        model_params={"criterion": {"class_path": f"{own}.Relative"}},
        train_params={
            "max_num_steps": 5,
            "checkpoint_every_n_steps": 2,
            "log_every_n_steps": 1,
            "accelerator": "cpu",
            "optimizer": {"class_path": f"{own}.Sign", "init_args": {"momentum": 0.25}},
            "schedule": {"class_path": f"{own}.Halving"},
            "callbacks": [{"class_path": f"{own}.Counting", "init_args": {"first": 7}}],
            **train_params,
        },
    )


def test_a_killed_training_of_own_classes_goes_on_to_the_bit(own, city, tmp_path, monkeypatch):
    cfg = own_config(own)
    whole = read_checkpoint(train(cfg, tmp_path / "whole", data_folder=city).weights)
    module = sys.modules[own]
    monkeypatch.setattr(module.Counting, "stop_at", 7 + 4)
    with pytest.raises(RuntimeError, match="killed"):
        train(cfg, tmp_path / "killed", data_folder=city)
    monkeypatch.setattr(module.Counting, "stop_at", None)
    resumed = read_checkpoint(train(cfg, tmp_path / "killed", data_folder=city, resume=True).weights)
    assert all(torch.equal(value, resumed.state_dict[name]) for name, value in whole.state_dict.items())
    assert resumed.config["train_params"]["optimizer"]["class_path"] == f"{own}.Sign"
    changed = own_config(own, optimizer="SGD")
    with pytest.raises(ConfigError, match=r"train_params\.optimizer: 'SGD' differs"):
        train(changed, tmp_path / "killed", data_folder=city, resume=True)


@pytest.mark.parametrize(
    ("section", "key", "value", "says"),
    [
        ("train_params", "optimizer", {"class_path": "{own}.Signum"}, "did you mean 'Sign'"),
        ("train_params", "callbacks", ["{own}.Counting"], r"callbacks\[0\].init_args: .* needs first"),
        ("model_params", "criterion", {"class_path": "{own}.Mean"}, r"criterion: .* gives \(\) for two tensors"),
    ],
)
def test_nothing_is_written_for_classes_that_cannot_be_made(own, city, tmp_path, section, key, value, says):
    if isinstance(value, dict):
        value = {name: text.format(own=own) for name, text in value.items()}
    else:
        value = [text.format(own=own) for text in value]
    cfg = own_config(own)
    cfg[section][key] = value
    with pytest.raises(ConfigError, match=says):
        train(cfg, tmp_path / "out", data_folder=city)
    assert list((tmp_path / "out").iterdir()) == []
