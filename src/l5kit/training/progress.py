"""Progress of a training: its clock, logged speed and learning rate, and lines or a bar for people."""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from l5kit.data.progress import TELL_EVERY_S, Bar, open_bar
from l5kit.training.lightning_module import TrainingModule
from l5kit.training.lightning_parts import LearningRateMonitor, pl
from l5kit.training.setup import TrainingSetup


class TrainingClock:
    """Clock of minutes since its creation.

    Args:
        minutes: Minutes before that.
    """

    def __init__(self, minutes: float = 0.0) -> None:
        self._before = minutes
        self._start_s = time.perf_counter()

    @property
    def minutes(self) -> float:
        """Total minutes."""
        return self._before + (time.perf_counter() - self._start_s) / 60


class RateCurve(LearningRateMonitor):
    """Monitor that logs the learning rate once for each step, however many batches it has."""

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Log the rate with the first batch of a step."""
        if batch_idx % trainer.accumulate_grad_batches == 0:
            super().on_train_batch_start(trainer, pl_module, batch, batch_idx)


class TrainingProgress(pl.Callback):
    """Callback that logs the speed of a training, shows a bar, and reports the scores of each evaluation.

    Speed, and the share of time that steps wait for batches, are measured since the last point of the curves, without
    evaluations and checkpoints. The loss shown is the mean over the same steps. Without a bar, as in batch jobs, a line
    is printed once a minute. A loss that is not finite gives a warning once.

    Args:
        setup: The training.
        tell: Function called with each human-readable line of progress.
        visible: Whether to show the bar, on a terminal or in a notebook, or the lines elsewhere.
    """

    def __init__(self, setup: TrainingSetup, *, tell: Callable[[str], None], visible: bool = True) -> None:
        self._batches = setup.batches
        self._batch_num_samples = setup.config.params.train_loader.batch_size * setup.world_size
        self._module = setup.module
        self._tell = tell
        self._visible = visible
        self._bar: Bar | None = None
        self._pace = "loss -"
        self._losses: list[torch.Tensor] = []
        self._num_batches = 0
        self._taken_s = 0.0
        self._mark_s = 0.0
        self._waited_s = 0.0
        self._reported_s = 0.0
        self._is_lost = False

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Start the clock and the bar."""
        self._restart_clock()
        self._reported_s = self._mark_s
        self._waited_s = self._batches.waited_s
        if self._visible and trainer.is_global_zero:
            self._bar = open_bar("Training", has_counts=True)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: object,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Count a batch; log and show the progress at intervals."""
        now_s = time.perf_counter()
        self._taken_s += now_s - self._mark_s
        self._mark_s = now_s
        self._num_batches += 1
        self._losses.append(outputs["loss"].detach() * self._module.batches_per_step)  # undo Lightning's division
        if not self._module.ends_step(batch_idx):
            return
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            # speed and loss since the last point of the curves
            taken_s = max(self._taken_s, 1e-9)
            waited_s = self._batches.waited_s - self._waited_s
            samples_per_s = self._num_batches * self._batch_num_samples / taken_s
            share = min(waited_s / taken_s, 1.0)
            pl_module.log_dict({"samples_per_s": samples_per_s, "loader_share": share})
            loss = self._mean_loss()
            self._warn_if_lost(trainer, loss)
            self._pace = f"loss {loss:.4f}, {samples_per_s:,.0f} samples/s, loader {share:.0%}"
            # without a bar print a line once a minute
            is_due = self._mark_s - self._reported_s >= TELL_EVERY_S
            if is_due and self._visible and self._bar is None and trainer.is_global_zero:
                self._tell(f"step {trainer.global_step:,} of {trainer.max_steps:,}: {self._pace}")
                self._reported_s = self._mark_s
            self._losses, self._num_batches, self._taken_s = [], 0, 0.0
            self._waited_s = self._batches.waited_s
        if self._bar is not None:
            self._bar.show(trainer.global_step, trainer.max_steps, self._pace)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Stop the clock."""
        self._taken_s += time.perf_counter() - self._mark_s if trainer.training else 0.0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the scores, and restart the clock."""
        if trainer.is_global_zero and isinstance(pl_module, TrainingModule) and pl_module.scores:
            scores = ", ".join(f"{name} {value:.3f}" for name, value in pl_module.scores.items())
            self._tell(f"step {trainer.global_step:,}: {scores}")
        self._restart_clock()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Remove the bar."""
        if self._losses:
            self._warn_if_lost(trainer, self._mean_loss())
        self._stop_bar()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Remove the bar."""
        self._stop_bar()

    def _mean_loss(self) -> float:
        return float(torch.stack(self._losses).mean())

    def _warn_if_lost(self, trainer: pl.Trainer, loss: float) -> None:
        """Warn once about a loss that is not finite, as weights rarely recover from it."""
        if math.isfinite(loss) or self._is_lost or not trainer.is_global_zero:
            return
        self._is_lost = True
        step = trainer.global_step
        warnings.warn(
            f"the loss is {loss} at step {step:,}, so that the weights may contain NaN; start again with a smaller "
            "train_params.learning_rate or with train_params.gradient_clip_norm, or look for such "
            "values in the samples or in your own classes",
            RuntimeWarning,
            stacklevel=2,
        )

    def _restart_clock(self) -> None:
        self._mark_s = time.perf_counter()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
