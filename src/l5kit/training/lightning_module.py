"""A network in training, as Lightning sees it."""

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from l5kit.kinematic.baselines import BASELINES
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.random.seeding import mix_seeds
from l5kit.training.lightning_parts import OptimizerLRScheduler, pl
from l5kit.training.schedule import TrainingSchedule, learning_rate_factor
from l5kit.workflows.trajectories import Batch
from l5kit.workflows.trajectory_scores import TrajectoryScores, means_of
from l5kit.workflows.workflow import TrainingConfig

__all__ = ["TrainingModule"]


class TrainingModule(pl.LightningModule):
    """A network with its optimizer, its losses and its scores.

    Random numbers of a step, those of dropout, depend on the seed, the rank and the step only, so that a training that
    is taken up again goes on as if it had never ended.

    Args:
        model: The network: losses in train mode, trajectories in eval mode.
        config: What is scored, how weights are changed, and the seed, which decides dropout.
        schedule: The course of the training.

    Attributes:
        scores: Mean errors of the last evaluation by name.
    """

    def __init__(self, model: nn.Module, config: TrainingConfig, schedule: TrainingSchedule) -> None:
        super().__init__()
        self.model = model
        self.scores: dict[str, float] = {}
        self._params = config.params
        self._trajectories_of = config.workflow.trajectories_of
        self._schedule = schedule
        self._gathered = self._new_scores()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Seed what the step draws."""
        torch.manual_seed(mix_seeds(self._params.run.seed, self.global_step, self.global_rank))

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:  # noqa: ARG002
        """Return the loss of a batch and log all losses."""
        losses: dict[str, torch.Tensor] = self.model(batch)
        size = len(batch["target_positions"])
        self.log_dict({f"train/{name}": loss.detach() for name, loss in losses.items()}, batch_size=size)
        return losses["loss"]

    def on_validation_epoch_start(self) -> None:
        """Forget the scores of the last evaluation."""
        self._gathered = self._new_scores()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Score the trajectories of a batch, of which the model sees the past only."""
        self._gathered.add(self._trajectories_of(batch, self.model(network_inputs(batch))))

    def on_validation_epoch_end(self) -> None:
        """Log the mean errors over all processes, and those of the kinematic baselines.

        They stand at the step that has just been trained, wherever the evaluation is made.
        """
        self.scores = self._means(self._gathered)
        self.log_dict({**self.scores, "step": float(max(self.global_step - 1, 0))}, sync_dist=True)

    def scores_over(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return what an evaluation would find, and log nothing; to be called in all processes.

        Args:
            batches: Those of the evaluation.
        """
        gathered, was_training, precision = self._new_scores(), self.model.training, self.trainer.precision_plugin
        self.model.eval()
        with torch.no_grad(), precision.val_step_context():
            for batch in batches:
                inputs = tensors_on(self.device, precision.convert_input(batch))
                gathered.add(self._trajectories_of(inputs, self.model(network_inputs(inputs))))
        self.model.train(was_training)
        return self._means(gathered)

    def transfer_batch_to_device(
        self,
        batch: Mapping[str, object],
        device: torch.device,
        dataloader_idx: int,  # noqa: ARG002
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch on a device, in float32 where that knows no float64."""
        return tensors_on(device, batch)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return Adam, or AdamW with a weight decay, and the course of its learning rate by steps."""
        rate, decay = self._params.optimizer.learning_rate, self._params.optimizer.weight_decay
        parameters = self.model.parameters()
        adam = torch.optim.AdamW(parameters, rate, weight_decay=decay) if decay else torch.optim.Adam(parameters, rate)
        course = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: learning_rate_factor(step, self._schedule))
        return {"optimizer": adam, "lr_scheduler": {"scheduler": course, "interval": "step"}}

    def _means(self, gathered: TrajectoryScores) -> dict[str, float]:
        """Return the mean errors over all processes of the model and of the baselines."""
        total: torch.Tensor = self.trainer.strategy.reduce(gathered.sums().float().to(self.device), reduce_op="sum")
        means: dict[str, float] = {}
        for who, sums in zip(("val", *BASELINES), total.cpu(), strict=True):
            means |= means_of(sums, self._params.horizons_s, who)
        return means

    def _new_scores(self) -> TrajectoryScores:
        params = self._params
        return TrajectoryScores(
            params.horizons_s, step_time_s=params.step_time_s, past_step_time_s=params.past_step_time_s
        )
