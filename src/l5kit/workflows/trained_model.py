"""Trained models: networks with their configuration, ready to predict from samples."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from l5kit._types import Config, NumericArray, Sample
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.display import html_card
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.batch_loader import IndexedSamples
from l5kit.dataset.loading import loader as make_loader
from l5kit.dataset.sample_batch import collate, tensors_of
from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_inputs import find_device, network_inputs, tensors_on
from l5kit.planning.weights_file import weights_of
from l5kit.workflows.samples import SampleSource, file_keys_of
from l5kit.workflows.trained_network import WITHOUT_TRAINING, configuration_of, load_network
from l5kit.workflows.workflow import TrainingConfig

Samples: TypeAlias = Mapping[str, Any] | Sequence[Sample] | IndexedSamples
"""A sample, a batch of samples as one array or tensor for each key, a list of samples, or a dataset of them."""


class TrainedModel(nn.Module):
    """A trained network in eval mode, with the configuration of its training; :func:`load_model` makes one.

    Called with a batch of tensors, it runs the network, which does not see the future; :meth:`predict` takes samples of
    any form and returns arrays.

    Args:
        network: The network.
        config: The configuration of its training.
        file: File of the weights.

    Attributes:
        network: The network.
        config: The configuration of its training.
        file: File of the weights.
    """

    def __init__(self, network: nn.Module, config: TrainingConfig, file: Path) -> None:
        super().__init__()
        self.network, self.config, self.file = network, config, file
        self._anchor: torch.Tensor
        self.register_buffer("_anchor", torch.empty(0), persistent=False)  # gives the device
        self.eval()

    @property
    def device(self) -> torch.device:
        """Device of the network; ``model.to(device)`` moves it."""
        return self._anchor.device

    def forward(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs of the network for a batch of tensors, on its device.

        Args:
            batch: Tensors (B, ...) on any device; tensors of the future are ignored.
        """
        outputs: dict[str, torch.Tensor] = self.network(network_inputs(tensors_on(self.device, batch)))
        return outputs

    @torch.inference_mode()
    def predict(self, samples: Samples, *, batch_size: int = 64) -> dict[str, NumericArray]:
        """Return the predictions of the network, as arrays.

        Planners and ``simnet`` return ``positions`` (B, T, 2) in metres and ``yaws`` (B, T, 1) in radians in the frame
        of the target of each sample; ``agent_motion`` and ``agent_motion_multimodal`` ``positions`` of the likeliest
        path, ``positions_all`` (B, M, T, 2) and ``mode_logits`` (B, M), whose softmax are probabilities;
        ``safepathnet`` ``agent_positions`` (B, A, T, 2), ``agent_yaws`` (B, A, T, 1) and those of all paths.

        Args:
            samples: A sample, whose prediction has no batch axis; a batch, a list of samples, or a dataset, all of
                whose samples are predicted.
            batch_size: Batch size for a list or a dataset.

        Raises:
            InvalidArgumentError: ``samples`` is none of these, empty, or lacks inputs of the network.
            SampleError: A sample of a dataset cannot be made; the cause is chained.
        """
        if isinstance(samples, Mapping):
            # convert arrays, tensors and numbers to arrays; ignore strings and other values
            kinds = (np.ndarray, np.generic, torch.Tensor, float, int)
            columns = {key: value for key, value in samples.items() if isinstance(value, kinds)}
            batch = tensors_of(
                {key: each if isinstance(each, torch.Tensor) else np.asarray(each) for key, each in columns.items()}
            )
            is_single = batch["world_from_agent"].ndim == 2 if "world_from_agent" in batch else False
            if is_single:
                batch = collate([samples])
            outputs = self._predict_batch(batch)
            return {key: value[0] for key, value in outputs.items()} if is_single else outputs
        if not hasattr(samples, "__getitem__") or not hasattr(samples, "__len__") or len(samples) == 0:
            raise InvalidArgumentError(
                f"samples are {type(samples).__name__}; pass a sample, a batch, a list of samples or a dataset of "
                "them, of at least one"
            )
        batches = make_loader(samples, batch_size, rank=0, world_size=1)
        parts = [self._predict_batch(batch) for batch in batches]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def _predict_batch(self, batch: Mapping[str, torch.Tensor]) -> dict[str, NumericArray]:
        """Return the predictions of a batch as arrays."""
        try:
            return {key: value.numpy(force=True) for key, value in self(batch).items()}
        except KeyError as error:
            if not error.args or error.args[0] in batch:
                raise  # a user network may return another mapping
            raise InvalidArgumentError(
                f"samples have no {error.args[0]!r}, which this network takes, but {sorted(batch) or 'nothing'}; "
                "pass those of samples_of(log), or of a dataset that is made with the configuration of the network"
            ) from error

    def samples_of(
        self, log: ChunkedDataset | str | os.PathLike[str], *, data_folder: str | os.PathLike[str] | None = None
    ) -> BaseEgoDataset:
        """Return the samples of a log that the network takes, as in its training, without perturbation.

        Args:
            log: An opened log, or the path of one.
            data_folder: Folder that the keys of the map in the configuration are relative to; None for the map in or
                near the log.

        Raises:
            FileNotFoundError: The map is missing.
            DatasetNotFoundError: There is no log at the path.
        """
        mapping = self.config.mapping
        if not isinstance(log, ChunkedDataset):
            log = ChunkedDataset(find_dataset_files(log).dataset).open()
        if data_folder is None and log.path and Path(log.path).exists():
            files = file_keys_of(find_dataset_files(log.path))
            mapping, data_folder = {**mapping, "raster_params": {**mapping["raster_params"], **files}}, ""
        loader = self.config.params.val_loader or self.config.params.train_loader
        return self.config.workflow.make_samples(SampleSource(mapping, log, loader, LocalDataManager(data_folder)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.config.params.workflow} of {str(self.file)!r} on {self.device}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        return html_card(type(self).__name__, self._card_facts)

    def _card_facts(self) -> dict[str, object]:
        params = self.config.params
        return {
            "file": self.file,
            "workflow": params.workflow,
            "network": type(self.network).__name__,
            "weights": sum(parameter.numel() for parameter in self.network.parameters()),
            "predicted steps": params.future_num_frames,
            "seconds between two steps": params.step_time_s,
            "device": self.device,
        }


def load_model(
    file: str | os.PathLike[str],
    *,
    cfg: Config | None = None,
    device: str | torch.device = "auto",
    allow_pickle: bool = False,
) -> TrainedModel:
    """Return a trained network, ready to predict from samples; ``l5kit.load_model`` is this function.

    Args:
        file: Weights written by ``l5kit train``, those of L5Kit 1.5 (TorchScript, a state dict, a module), the folder
            of a training, for its final weights, or the name of a network that ships with l5kit, such as
            ``route_planner``.
        cfg: The configuration of the training, with ``workflow``; None for that in the file, or in ``config.yaml`` next
            to it. Files of L5Kit 1.5 have none.
        device: Device of the network; ``auto`` for CUDA if available.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: There is no configuration, or a key is unknown, missing, of the wrong type or out of range.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights are those of another network; the message lists the mismatches.
        InvalidArgumentError: There is no such device.
    """
    weights = weights_of(file)
    given = configuration_of(weights, allow_pickle=allow_pickle) if cfg is None else cfg
    config = TrainingConfig.from_cfg({**WITHOUT_TRAINING, **given})
    target = find_device(device)
    model = TrainedModel(load_network(weights, config, allow_pickle=allow_pickle), config, weights)
    return model.to(target)
