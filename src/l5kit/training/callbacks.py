"""What happens beside a training: files are written, and people are told how it goes."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from l5kit.planning.checkpoint import save_checkpoint
from l5kit.training.lightning_module import TrainingModule
from l5kit.training.step_batches import StepBatches

__all__ = ["LAST_CHECKPOINT", "CheckpointWriter", "TrainingProgress"]

LAST_CHECKPOINT = "last.ckpt"
"""File of Lightning that a training is taken up from."""


class CheckpointWriter(pl.Callback):
    """Writes the weights and the state of a training every so many steps, and the weights that scored best.

    Each file appears whole or not at all.

    Args:
        folder: Where to.
        name: First part of the names of the weights.
        every: Steps between two checkpoints.
        config: The configuration, which is saved with the weights.
        best_by: Name of the score whose smallest value is the best; None without evaluations.
    """

    def __init__(self, folder: Path, *, name: str, every: int, config: Mapping[str, Any], best_by: str | None) -> None:
        self._folder = folder
        self._name = name
        self._every = every
        self._config = config
        self._best_by = best_by
        self._best = float("inf")

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any, **__: Any) -> None:
        """Write both after the last of so many steps."""
        step = trainer.global_step
        if step % self._every == 0:
            self._save_weights(trainer, pl_module, f"{self._name}_{step}_steps")
            self.save_state(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the weights if they are the best so far."""
        value = pl_module.scores.get(self._best_by or "") if isinstance(pl_module, TrainingModule) else None
        if value is not None and value < self._best and not trainer.sanity_checking:
            self._best = value
            self._save_weights(trainer, pl_module, f"{self._name}_best")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the weights at the end of the training."""
        self._save_weights(trainer, pl_module, self._name)

    def save_state(self, trainer: pl.Trainer) -> None:
        """Write what Lightning takes a training up from; to be called in all processes."""
        part = self._folder / f".{LAST_CHECKPOINT}.part"
        trainer.save_checkpoint(part)
        if trainer.is_global_zero:
            os.replace(part, self._folder / LAST_CHECKPOINT)

    def state_dict(self) -> dict[str, Any]:
        """Return what is to be remembered: the best score."""
        return {"best": self._best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember it."""
        self._best = state_dict["best"]

    def _save_weights(self, trainer: pl.Trainer, pl_module: pl.LightningModule, name: str) -> None:
        if trainer.is_global_zero and isinstance(pl_module, TrainingModule):
            save_checkpoint(self._folder / f"{name}.safetensors", pl_module.model, config=self._config)


class TrainingProgress(pl.Callback):
    """Logs how fast a training is, shows a bar on a terminal, and tells the scores of each evaluation.

    Speed and the share of the time that steps wait for batches are those since the last point of the curves, without
    evaluations and checkpoints. The loss that is shown is the mean over the same steps.

    Args:
        batches: The batches of the training.
        batch_size: Samples of a step on all devices.
        tell: Takes a line for people.
        visible: Whether the bar is shown, if standard error is a terminal.
    """

    def __init__(
        self, batches: StepBatches, *, batch_size: int, tell: Callable[[str], None], visible: bool = True
    ) -> None:
        self._batches = batches
        self._batch_size = batch_size
        self._tell = tell
        self._visible = visible
        self._bar: Progress | None = None
        self._losses: list[float] = []
        self._num_steps = 0
        self._taken_s = 0.0
        self._mark_s = 0.0
        self._waited_s = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Start the clock and the bar."""
        self._restart_clock()
        self._waited_s = self._batches.waited_s
        if self._visible and trainer.is_global_zero and sys.stderr.isatty():
            columns = ("{task.description}", "loss {task.fields[loss]}", "{task.fields[speed]}")
            texts = [TextColumn(column) for column in columns]
            self._bar = Progress(
                texts[0], BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), *texts[1:],
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.add_task("Training", total=trainer.max_steps, completed=trainer.global_step, loss="-", speed="-")
            self._bar.start()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any, **__: Any
    ) -> None:
        """Count a step; log and show every few of them."""
        now_s = time.perf_counter()
        self._taken_s += now_s - self._mark_s
        self._mark_s = now_s
        self._num_steps += 1
        self._losses.append(outputs["loss"].detach())
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=trainer.global_step)
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            self._report(pl_module)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Stop the clock."""
        self._taken_s += time.perf_counter() - self._mark_s if trainer.training else 0.0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Tell the scores, and start the clock again."""
        if trainer.is_global_zero and isinstance(pl_module, TrainingModule) and pl_module.scores:
            scores = ", ".join(f"{name} {value:.3f}" for name, value in pl_module.scores.items())
            self._tell(f"step {trainer.global_step:,}: {scores}")
        self._restart_clock()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Take the bar away."""
        self._stop_bar()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Take the bar away."""
        self._stop_bar()

    def _report(self, pl_module: pl.LightningModule) -> None:
        taken_s = max(self._taken_s, 1e-9)
        waited_s = self._batches.waited_s - self._waited_s
        samples_per_s = self._num_steps * self._batch_size / taken_s
        share = min(waited_s / taken_s, 1.0)
        pl_module.log_dict({"samples_per_s": samples_per_s, "loader_share": share})
        if self._bar is not None:
            loss = sum(float(loss) for loss in self._losses) / len(self._losses)
            speed = f"{samples_per_s:,.0f} samples/s, loader {share:.0%}"
            self._bar.update(self._bar.task_ids[0], loss=f"{loss:.4f}", speed=speed)
        self._losses, self._num_steps, self._taken_s = [], 0, 0.0
        self._waited_s = self._batches.waited_s

    def _restart_clock(self) -> None:
        self._mark_s = time.perf_counter()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
