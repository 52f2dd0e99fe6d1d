"""Options of a training besides its workflow."""

import math

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from l5kit.data import FRAME_DTYPE, SCENE_DTYPE, ChunkedDataset
from l5kit.errors import ConfigError, MissingDependencyError
from l5kit.training import curves, train
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


class Watcher(pl.Callback):
    """Notes what the network does in each step."""

    def __init__(self):
        self.dtypes = set()
        self.norms = []
        self.rates = []

    def on_train_start(self, trainer, pl_module):
        def note(module, inputs, output):
            self.dtypes.add(output.dtype)

        pl_module.model.input_embed.register_forward_hook(note)

    def on_before_zero_grad(self, trainer, pl_module, optimizer):
        gradients = [parameter.grad for parameter in pl_module.parameters() if parameter.grad is not None]
        if gradients:
            self.norms.append(torch.stack([gradient.norm() for gradient in gradients]).norm().item())

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.rates.append(pl_module.optimizers().param_groups[0]["lr"])


def run(city, folder, **train_params):
    cfg = small_config("vector_planner")
    cfg["train_params"] = {"max_num_steps": 3, "accelerator": "cpu", **train_params}
    watcher = Watcher()
    return train(cfg, folder, data_folder=city, callbacks=(watcher,)), watcher


def test_mixed_precision(city, tmp_path):
    assert run(city, tmp_path / "full")[1].dtypes == {torch.float32}
    result, watcher = run(city, tmp_path / "half", precision="bf16-mixed")
    assert watcher.dtypes == {torch.bfloat16}
    assert math.isfinite(result.scores["val/ade_m/0.4s"])


def log_of_one_frame(folder, num_frames):
    """Write a log whose only scene has one frame and no agents, or one without frames."""
    log = ChunkedDataset(str(folder / "few.zarr"))
    log.initialize("w", num_scenes=num_frames, num_frames=num_frames, num_agents=0, num_tl_faces=0)
    if num_frames:
        scenes = np.zeros(1, SCENE_DTYPE)
        scenes["frame_index_interval"] = [[0, 1]]
        frames = np.zeros(1, FRAME_DTYPE)
        frames["ego_rotation"] = np.eye(3)
        log.scenes[:], log.frames[:] = scenes, frames
    return str(folder / "few.zarr")


@pytest.mark.filterwarnings("ignore:dataset path")
def test_an_evaluation_that_scores_nothing_loses_no_training(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 2, "eval_every_n_steps": 1})
    cfg["val_data_loader"] |= {"key": log_of_one_frame(tmp_path, 1), "batch_size": 1}
    with pytest.warns(
        RuntimeWarning, match=r"no evaluation has val/ade_m/0\.4s, .* no sample that val_data_loader"
    ) as told:
        result = train(cfg, tmp_path / "out", data_folder=city)
    assert sum("no evaluation has" in str(warning.message) for warning in told) == 1
    assert result.num_steps == 2
    assert result.best_weights is None
    assert result.weights.is_file()


@pytest.mark.filterwarnings("ignore:dataset path")
def test_an_empty_log_to_evaluate_on_is_told_before_the_first_step(city, tmp_path):
    cfg = small_config("vector_planner")
    cfg["val_data_loader"] |= {"key": log_of_one_frame(tmp_path, 0)}
    with pytest.raises(ConfigError, match=r"val_data_loader: .*few\.zarr gives no samples"):
        train(cfg, tmp_path / "out", data_folder=city)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_that_no_gpu_makes_batches_is_told(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1})
    cfg["train_data_loader"] |= {"on_device": True}
    with pytest.warns(UserWarning, match="on_device is true, but no GPU trains"):
        assert train(cfg, tmp_path / "out", data_folder=city).num_steps == 1


def test_gradients_are_clipped(city, tmp_path):
    _, free = run(city, tmp_path / "free")
    _, clipped = run(city, tmp_path / "clipped", gradient_clip_norm=1e-3)
    assert min(free.norms) > 2e-3
    assert clipped.norms == pytest.approx([1e-3] * len(clipped.norms), rel=1e-3)


def lines_of(city, folder, monkeypatch, *, every_s, **train_params):
    """Return the messages of a training of four steps, which contain the speed of this machine."""
    monkeypatch.setattr("l5kit.training.progress.TELL_EVERY_S", every_s)
    cfg = small_config("vector_planner")
    cfg["train_params"] = {"max_num_steps": 4, "log_every_n_steps": 2, "accelerator": "cpu", **train_params}
    told = []
    train(cfg, folder, data_folder=city, tell=told.append)
    return [line for line in told if "loss" in line]


def test_a_training_without_a_bar_tells_how_it_goes_in_lines(city, tmp_path, monkeypatch):
    lines = lines_of(city, tmp_path / "often", monkeypatch, every_s=0.0)
    assert [line.partition(":")[0] for line in lines] == ["step 2 of 4", "step 4 of 4"]
    assert all("samples/s, loader " in line for line in lines)
    assert lines_of(city, tmp_path / "rarely", monkeypatch, every_s=1e9) == []


@pytest.mark.parametrize("log_every_n_steps", [1, 100])
def test_a_loss_that_is_no_number_is_warned_of_once(log_every_n_steps, city, tmp_path):
    with pytest.warns(
        RuntimeWarning, match=r"the loss is (nan|inf) at step \d.*train_params\.gradient_clip_norm"
    ) as caught:
        run(city, tmp_path / "out", learning_rate=1e6, weight_decay=1e30, log_every_n_steps=log_every_n_steps)
    assert sum("the loss is" in str(warning.message) for warning in caught) == 1


def test_the_rate_follows_its_course(city, tmp_path):
    _, watcher = run(city, tmp_path / "out", learning_rate=0.5, schedule="cosine", warmup_num_steps=1, max_num_steps=3)
    assert watcher.rates == pytest.approx([0.5, 0.5, 0.25])


def test_early_stopping_ends_a_training_that_gets_no_better(city, tmp_path):
    result, _ = run(
        city, tmp_path / "out", max_num_steps=50, eval_every_n_steps=1, early_stopping_patience=2, learning_rate=1e-12
    )
    assert result.num_steps == 3  # the first is the best, two more are not better
    assert (tmp_path / "out" / "vector_planner_best.safetensors").is_file()


def test_checkpoints_come_at_their_steps(city, tmp_path):
    run(city, tmp_path / "out", max_num_steps=5, checkpoint_every_n_steps=2)
    names = {path.name for path in (tmp_path / "out").glob("*.safetensors")}
    assert names == {f"vector_planner{end}.safetensors" for end in ("", "_best", "_2_steps", "_4_steps")}
    assert torch.load(tmp_path / "out" / "last.ckpt", weights_only=False)["global_step"] == 4


def test_several_horizons(city, tmp_path):
    result, _ = run(city, tmp_path / "out", horizons_s=[0.4, 0.2])
    assert {name.rpartition("/")[2] for name in result.scores} == {"0.2s", "0.4s"}
    with pytest.raises(ConfigError, match="multiple of the"):
        run(city, tmp_path / "odd", horizons_s=[0.25])


def test_the_same_seed_gives_the_same_weights_and_another_other_ones(city, tmp_path):
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    weights = [
        (tmp_path / name, run(city, tmp_path / name, seed=seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert torch.equal(torch.random.get_rng_state(), before)
    contents = [(path / "vector_planner.safetensors").read_bytes()[-4000:] for path, _ in weights]
    assert contents[0] == contents[1] != contents[2]


def test_curves_go_on_in_the_folder_of_the_highest_number(tmp_path):
    for name in ("version_2", "version_10", "version_11_backup", "version_0x", "version_"):
        (tmp_path / "curves" / name).mkdir(parents=True)
    assert curves._folder_of_curves(tmp_path) == tmp_path / "curves" / "version_10"


def test_tensorboard_gets_the_curves(city, tmp_path):
    pytest.importorskip("tensorboard")
    run(city, tmp_path / "out", logger="tensorboard", log_every_n_steps=1)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (tmp_path / "out" / "curves").iterdir()
    events = EventAccumulator(str(folder)).Reload()
    assert len(events.Scalars("train/loss")) == 3


@pytest.mark.parametrize("logger", ["tensorboard", "wandb", "mlflow"])
def test_a_missing_logger_is_told(logger, city, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=f"pip install {logger}, or use 'csv'"):
        run(city, tmp_path / "out", logger=logger)


def test_what_the_database_of_mlflow_needs_is_told(city, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(curves, "find_spec", lambda name: None if name == "sqlalchemy" else True)
    with pytest.raises(MissingDependencyError, match=r"sqlalchemy, .* is not installed: pip install mlflow, or set"):
        run(city, tmp_path / "out", logger="mlflow")


def test_keys_of_1_5_without_effect_are_named(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    cfg["model_params"] |= {"use_kinematic": False, "unroll_num_frames": 3}
    with pytest.warns(UserWarning, match=r"no effect .*unroll_num_frames, model_params\.use_kinematic"):
        train(cfg, tmp_path / "out", data_folder=city)
