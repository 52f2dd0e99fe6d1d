"""The course of a training: its steps, when it is evaluated and saved, and its learning rate at each step."""

import math
from dataclasses import dataclass

from l5kit.configs.training import TrainingParams


@dataclass(frozen=True)
class TrainingSchedule:
    """The course of a training in steps.

    Attributes:
        num_steps: Steps of the whole training.
        steps_per_epoch: Steps after which samples come anew.
        checkpoint_every: Steps between two checkpoints.
        eval_every: Steps between two evaluations.
        warmup_num_steps: Steps in which the learning rate rises.
        is_cosine: Whether it falls like half a cosine after them.
    """

    num_steps: int
    steps_per_epoch: int
    checkpoint_every: int
    eval_every: int
    warmup_num_steps: int
    is_cosine: bool

    @classmethod
    def of(cls, params: TrainingParams, *, num_batches: int, schedule: str) -> "TrainingSchedule":
        """Return the course of a training whose epochs have so many batches, each for a step.

        Args:
            params: The training.
            num_batches: Batches of an epoch on each device; those whose gradients are averaged count as one.
            schedule: That of the workflow, where the configuration names none.
        """
        run, optimizer = params.run, params.optimizer
        if run.num_epochs is None:
            steps_per_epoch, num_steps = num_batches, run.max_num_steps or num_batches
        else:
            steps_per_epoch = min(num_batches, run.max_num_steps or num_batches)
            num_steps = run.num_epochs * steps_per_epoch
        warmup = optimizer.warmup_num_steps
        if warmup is None:  # a fifth of the epochs for SafePathNet, as in L5Kit 1.5
            is_workflows = optimizer.schedule is None and schedule == "cosine"
            warmup = (run.num_epochs or 0) // 5 * steps_per_epoch if is_workflows else 0
        return cls(
            num_steps=num_steps,
            steps_per_epoch=steps_per_epoch,
            checkpoint_every=_interval(
                run.checkpoint_every_n_steps, run.checkpoint_every_n_epochs, steps_per_epoch, num_steps
            ),
            eval_every=_interval(run.eval_every_n_steps, run.eval_every_n_epochs, steps_per_epoch, num_steps),
            warmup_num_steps=warmup,
            is_cosine=(optimizer.schedule or schedule) == "cosine",
        )


def learning_rate_factor(step: int, schedule: TrainingSchedule) -> float:
    """Return the learning rate of a step, counted from 0, as a share of its peak."""
    if step < schedule.warmup_num_steps:
        return (step + 1) / schedule.warmup_num_steps
    if not schedule.is_cosine:
        return 1.0
    num_falling = max(schedule.num_steps - schedule.warmup_num_steps, 1)
    # half a cosine, from the peak at the end of the warmup to 0 at the last step
    passed = min((step - schedule.warmup_num_steps) / num_falling, 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * passed))


def _interval(num_steps: int | None, num_epochs: int | None, steps_per_epoch: int, end: int) -> int:
    """Return an interval in steps, of at most the whole training."""
    if num_steps is None:
        num_steps = end if num_epochs is None else num_epochs * steps_per_epoch
    return min(num_steps, end)
