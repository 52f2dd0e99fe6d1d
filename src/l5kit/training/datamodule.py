"""Data modules: the batches of a configuration, for your own trainings on Lightning."""

import os
from collections.abc import Iterable, Mapping
from typing import Self

import torch
from torch import nn

from l5kit._types import Config
from l5kit.configs.runs import LoaderParams
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset.batch_loader import BatchLoader
from l5kit.dataset.loading import loader as make_loader
from l5kit.dataset.rank_sampler import SceneChoice
from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_inputs import tensors_on
from l5kit.training.batches import EvaluationBatches
from l5kit.training.lightning_parts import pl
from l5kit.workflows.scenarios import open_choice
from l5kit.workflows.trajectories import Batch
from l5kit.workflows.workflow import Samples, TrainingConfig, make_model, open_samples


class SampleDataModule(pl.LightningDataModule):
    """The samples of a configuration as batches for a Lightning module of your own.

    ``train_data_loader`` and ``val_data_loader`` define logs, batch size, order and perturbation, as for
    ``l5kit train``. The order differs between epochs and depends only on ``train_params.seed`` and the epoch. Each
    process of a distributed training gets its own samples, so pass ``use_distributed_sampler=False`` to Lightning's
    trainer.

    Args:
        config: The configuration.
        data_folder: Folder that the keys of the data are relative to; None for the environment variable
            ``L5KIT_DATA_FOLDER``.

    Attributes:
        config: The configuration.
        train_samples: Samples of the training; after :meth:`setup`.
        val_samples: Samples of evaluations; None without a ``val_data_loader``.
    """

    def __init__(self, config: TrainingConfig, data_folder: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self.config = config
        self._data_manager = LocalDataManager(data_folder)
        self._train_samples: Samples | None = None
        self.val_samples: Samples | None = None
        self._choice = SceneChoice()

    @classmethod
    def from_cfg(cls, cfg: Config, data_folder: str | os.PathLike[str] | None = None) -> Self:
        """Return the data module of a configuration in the format of ``l5kit train``.

        Raises:
            ConfigError: A key is missing, unknown, of the wrong type or out of range.
        """
        return cls(TrainingConfig.from_cfg(cfg), data_folder)

    @property
    def train_samples(self) -> Samples:
        """Samples of the training.

        Raises:
            InvalidArgumentError: :meth:`setup` was not called.
        """
        if self._train_samples is None:
            raise InvalidArgumentError("the data is not open yet; call setup(), or let Lightning's trainer do it")
        return self._train_samples

    def setup(self, stage: str | None = None) -> None:  # noqa: ARG002
        """Open the logs, on the first call only, for any stage.

        Raises:
            FileNotFoundError: A log or the map is missing.
            ConfigError: A key for datasets or rasterizers is missing or of the wrong type.
        """
        params = self.config.params
        if self._train_samples is not None:
            return
        if params.val_loader is not None:
            self.val_samples = open_samples(self.config, params.val_loader, self._data_manager, perturbed=False)
        self._choice = open_choice(params.train_loader, self.config.mapping, self._data_manager)
        self._train_samples = open_samples(self.config, params.train_loader, self._data_manager, perturbed=True)

    def make_network(self) -> nn.Module:
        """Return the untrained network of the configuration: losses in train mode, trajectories in eval mode.

        Weights are drawn from torch's global generator.
        """
        return make_model(self.config, self._train_samples)

    def train_dataloader(self) -> BatchLoader:
        """Return the batches of an epoch, the same number in all processes."""
        loader = self.config.params.train_loader
        return make_loader(
            self.train_samples,
            loader.batch_size,
            shuffle=loader.shuffle,
            shuffle_by=self._choice.shuffle_by,
            fraction=self._choice.fraction,
            subset_seed=self._choice.subset_seed,
            scene_weights=self._choice.weights,
            seed=self.config.params.run.seed,
            drop_last=True,
            num_workers=loader.num_workers,
            threads=1 if loader.num_workers else loader.threads,
            device=_device_of(loader),
        )

    def val_dataloader(self) -> Iterable[Batch]:
        """Return ``max_num_batches`` evenly spread batches of an evaluation; none without a loader."""
        loader = self.config.params.val_loader
        if loader is None or self.val_samples is None:
            return []
        return EvaluationBatches(self.val_samples, loader, pin_memory=False, device=_device_of(loader))

    def predict_dataloader(self) -> Iterable[Batch]:
        """Return the batches of an evaluation."""
        return self.val_dataloader()

    def transfer_batch_to_device(
        self,
        batch: Mapping[str, object],
        device: torch.device,
        dataloader_idx: int,  # noqa: ARG002
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch on a device, in float32 if it does not support float64."""
        return tensors_on(device, batch)


def _device_of(loader: LoaderParams) -> str | None:
    """Return the device for batches built on a GPU: the current GPU, or None."""
    return "cuda" if loader.on_device and torch.cuda.is_available() else None
