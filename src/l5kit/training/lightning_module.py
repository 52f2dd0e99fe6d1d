"""Lightning module of a network in training, and the moving average of its weights (EMA)."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from l5kit.errors import MissingDependencyError
from l5kit.kinematic.baselines import BASELINES
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.random.seeding import mix_seeds
from l5kit.training.lightning_parts import OptimizerLRScheduler, pl
from l5kit.training.optimizing import TrainingSchedule, make_course, make_optimizer
from l5kit.training.state_file import LightningState
from l5kit.workflows.driving_scores import DrivingEvaluation, means_of_driving
from l5kit.workflows.trajectories import Batch, TrajectoryScores, means_of
from l5kit.workflows.workflow import TrainingConfig

_AVERAGES = "averaged_weights"
"""Key of the averages in the state of a training."""


class WeightAverage:
    """Exponential moving average of the weights of a network.

    After step t, counted from 1, ``average = d * average + (1 - d) * weight`` with
    ``d = min(decay, (1 + t) / (10 + t))``, so that the untrained weights are soon forgotten; before the first step the
    average is equal to the weights. Buffers, such as the statistics of batch normalisation, and weights that are not
    floating point are not averaged: they are those of the last step.

    Args:
        model: The network; only changed within :meth:`swapped_in`.
        decay: Share of the average that is kept in each step, between 0 and 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self._averages = {name: value.detach().clone() for name, value in _averaged_of(model).items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the weights after a step, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        for name, value in _averaged_of(self._model).items():
            self._averages[name].lerp_(value.detach(), 1.0 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Use the averaged weights in the network within the block."""
        kept = {name: value.detach().clone() for name, value in _averaged_of(self._model).items()}
        self._fill(self._averages)
        try:
            yield
        finally:
            self._fill(kept)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the averages by name."""
        return dict(self._averages)

    def load_state_dict(self, averages: Mapping[str, torch.Tensor]) -> None:
        """Restore averages from :meth:`state_dict`, on the devices of the weights."""
        for name, value in self._averages.items():
            value.copy_(averages[name])

    @torch.no_grad()
    def _fill(self, values: Mapping[str, torch.Tensor]) -> None:
        for name, value in _averaged_of(self._model).items():
            value.copy_(values[name])


def _averaged_of(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the averaged weights by name; shared ones once."""
    return {name: value for name, value in model.named_parameters() if value.is_floating_point()}


class TrainingModule(pl.LightningModule):
    """Network with its optimizer, losses and scores.

    Random numbers of a step, such as those of dropout, depend only on seed, rank and step, so that a resumed training
    gives the same result as an uninterrupted one.

    Args:
        model: The network: losses in train mode, trajectories in eval mode.
        config: Scores, optimizer, and the seed of dropout.
        schedule: Schedule of the training.
        driving: Scenes to drive at each evaluation; None for none.

    Attributes:
        scores: Mean errors of the last evaluation by name, and scores of driving.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainingConfig,
        schedule: TrainingSchedule,
        *,
        driving: DrivingEvaluation | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.scores: dict[str, float] = {}
        self._params = config.params
        self._trajectories_of = config.workflow.trajectories_of
        self._schedule = schedule
        self._driving = driving
        self._gathered = self._new_scores()
        self._losses: list[dict[str, torch.Tensor]] = []
        self._is_sharded = False
        self._average: WeightAverage | None = None
        self._stored_average: Mapping[str, torch.Tensor] | None = None
        self._evaluation = ExitStack()

    @property
    def batches_per_step(self) -> int:
        """Number of batches in a step, whose gradients are averaged."""
        return self._params.scaling.accumulate_grad_batches

    def ends_step(self, batch_idx: int) -> bool:
        """Return whether a batch, counted from the first of the training, completes a step."""
        return (batch_idx + 1) % self.batches_per_step == 0

    def with_judged_weights(self) -> AbstractContextManager[None]:
        """Use the weights for evaluation and saving within the block: the averaged ones if there are any."""
        return nullcontext() if self._average is None else self._average.swapped_in()

    def configure_model(self) -> None:
        """Shard the weights over devices, if the strategy asks for it; only once.

        All processes start with the same weights; the network gathers them in each call.

        Raises:
            MissingDependencyError: torch is too old.
        """
        mesh = self._device_mesh
        if mesh is None or self._is_sharded:
            return
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError as error:
            raise MissingDependencyError(
                "train_params.strategy is 'fsdp', which needs torch 2.6 or later: pip install -U torch, or take 'ddp'"
            ) from error
        fully_shard(self.model, mesh=mesh["data_parallel"])
        self._is_sharded = True

    def on_fit_start(self) -> None:
        """Start the average of the weights, or restore that of a resumed training."""
        if self._params.scaling.ema_decay is None:
            return
        self._average = WeightAverage(self.model, self._params.scaling.ema_decay)
        if self._stored_average is not None:
            self._average.load_state_dict(self._stored_average)
            self._stored_average = None

    def on_save_checkpoint(self, checkpoint: LightningState) -> None:
        """Store the averaged weights in addition to the last ones."""
        if self._average is not None:
            checkpoint[_AVERAGES] = self._average.state_dict()

    def on_load_checkpoint(self, checkpoint: LightningState) -> None:
        """Remember the averaged weights until the network is on its device."""
        self._stored_average = checkpoint.get(_AVERAGES)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Seed the random numbers of the batch."""
        # by the number of the batch, so that a resumed training draws the same numbers
        number = self.global_step * self.batches_per_step + batch_idx % self.batches_per_step
        torch.manual_seed(mix_seeds(self._params.run.seed, number, self.global_rank))

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        """Return the loss of a batch; at the end of a step, log the means of all losses over its batches."""
        losses: dict[str, torch.Tensor] = self.model(batch)
        self._losses.append({f"train/{name}": loss.detach() for name, loss in losses.items()})
        if self.ends_step(batch_idx):
            means = {name: torch.stack([each[name] for each in self._losses]).mean() for name in self._losses[0]}
            self._losses = []
            self.log_dict(means, batch_size=len(batch["target_positions"]))
        return losses["loss"]

    def optimizer_step(self, *args: Any, **options: Any) -> None:
        """Update the weights and their average."""
        super().optimizer_step(*args, **options)
        if self._average is not None:
            self._average.update(self.global_step + 1)

    def on_validation_epoch_start(self) -> None:
        """Reset the scores, and switch to the weights for evaluation."""
        self._gathered = self._new_scores()
        self._evaluation.enter_context(self.with_judged_weights())

    def validation_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Score the trajectories of a batch, of which the model only gets the past."""
        self._gathered.add(self._trajectories_of(batch, self.model(network_inputs(batch))))

    def on_validation_epoch_end(self) -> None:
        """Log the mean errors over all processes, and those of the kinematic baselines.

        They are logged at the last trained step, whenever the evaluation runs.
        """
        with self._evaluation:  # the same weights drive
            self.scores = self._means(self._gathered) | self._drive()
        self.log_dict({**self.scores, "step": float(max(self.global_step - 1, 0))}, sync_dist=True)

    def scores_over(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return the scores of an evaluation without logging; must be called in all processes.

        Args:
            batches: Batches of the evaluation.
        """
        gathered, was_training, precision = self._new_scores(), self.model.training, self.trainer.precision_plugin
        self.model.eval()
        with torch.no_grad(), precision.val_step_context():
            for batch in batches:
                inputs = tensors_on(self.device, precision.convert_input(batch))
                gathered.add(self._trajectories_of(inputs, self.model(network_inputs(inputs))))
        self.model.train(was_training)
        return self._means(gathered) | self._drive()

    def transfer_batch_to_device(
        self,
        batch: Mapping[str, object],
        device: torch.device,
        dataloader_idx: int,  # noqa: ARG002
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch on a device, in float32 if it does not support float64."""
        return tensors_on(device, batch)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return the optimiser and its learning rate schedule, by steps."""
        optimizer = make_optimizer(self._params, self.model.parameters())
        course = make_course(self._params, optimizer, self._schedule)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": course, "interval": "step"}}

    def _means(self, gathered: TrajectoryScores) -> dict[str, float]:
        """Return the mean errors over all processes of the model and of the baselines."""
        # sum over processes first, as means of parts of different sizes cannot be averaged
        total: torch.Tensor = self.trainer.strategy.reduce(gathered.sums().float().to(self.device), reduce_op="sum")
        means: dict[str, float] = {}
        for name, sums in zip(("val", *BASELINES), total.cpu(), strict=True):
            means |= means_of(sums, self._params.horizons_s, name)
        return means

    def _drive(self) -> dict[str, float]:
        """Return the mean scores over all processes of scenes that the network drives with its current weights."""
        if self._driving is None:
            return {}
        rank = {"rank": self.global_rank, "world_size": self.trainer.world_size}
        sums = torch.from_numpy(self._driving.sums_of(self.model.state_dict(), self.device, **rank))
        total: torch.Tensor = self.trainer.strategy.reduce(sums.float().to(self.device), reduce_op="sum")
        return means_of_driving(total.cpu().double().numpy())

    def _new_scores(self) -> TrajectoryScores:
        params = self._params
        return TrajectoryScores(
            params.horizons_s, step_time_s=params.step_time_s, past_step_time_s=params.past_step_time_s
        )
