"""Networks of trainings: the file of the weights, the configuration in it, and the loaded network."""

import dataclasses
import os
from pathlib import Path
from typing import Final

import torch
from torch import nn

from l5kit import __version__
from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import CheckpointMismatchError, read_checkpoint
from l5kit.planning.torch_files import CheckpointError
from l5kit.planning.weights_file import CONFIG_FILE, is_onnx, is_shipped, network_of
from l5kit.workflows.exported_network import POLICY, ExportedNetwork
from l5kit.workflows.workflow import TrainingConfig, make_model

WITHOUT_TRAINING: Final = {
    "train_data_loader": {"key": "none", "batch_size": 1},
    "train_params": {"max_num_steps": 1},
}
"""Defaults of the training sections that configurations of L5Kit 1.x lack."""


def configuration_of(checkpoint: str | os.PathLike[str], *, allow_pickle: bool = False) -> JsonObject:
    """Return the training configuration of a network: that in its file, or ``config.yaml`` next to it.

    Args:
        checkpoint: A file of weights, the folder of a training, or the name of a network that ships with l5kit.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.

    Raises:
        FileNotFoundError: There is no such file, or no weights in the folder.
        ConfigError: The file does not contain its configuration, and there is none next to it.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
    """
    file = network_of(checkpoint)
    if is_onnx(file):
        facts = ExportedNetwork(file).facts
        if facts.workflow == POLICY:
            raise CheckpointError(
                f"{file} is an exported policy of l5kit train-rl, which l5kit simulate --planner {file} takes, and "
                "open_session of l5kit.closedloop; name a network"
            )
        return dict(facts.config)
    config = read_checkpoint(file, allow_pickle=allow_pickle).config
    config_file = file.parent / CONFIG_FILE
    if not config and config_file.is_file():
        return load_config_data(str(config_file))
    if not config:
        raise ConfigError(
            f"{file} does not hold the configuration of its training, as the files of l5kit train do; name it with "
            "--config FILE (in Python: cfg), and what was trained with --workflow NAME if it does not say"
        )
    return dict(config)


def load_network(
    file: Path,
    config: TrainingConfig,
    samples: BaseEgoDataset | None = None,
    *,
    allow_pickle: bool,
    has_loss: bool = True,
) -> nn.Module:
    """Return a network with its weights, on the CPU and in eval mode; torch's global generator is not used.

    Args:
        file: The weights.
        config: The configuration of the training.
        samples: Samples of the predictions; None for those of the configuration.
        allow_pickle: As for :func:`configuration_of`.
        has_loss: Also create a loss or criterion whose class the configuration names, which runs its code; only needed
            to continue a training.

    Raises:
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights are those of another network; the message lists the mismatches.
    """
    if is_onnx(file):
        exported = ExportedNetwork(file)
        if exported.facts.workflow != config.params.workflow:
            raise CheckpointMismatchError(
                f"{file} is an exported network of {exported.facts.workflow}, and the configuration is of "
                f"{config.params.workflow}; omit the configuration to use the one in the file"
            )
        return exported
    # without pretrained weights, as all weights come from the file
    made = config if has_loss else config.without_own_loss()
    with torch.random.fork_rng():
        model = make_model(made.from_scratch(), samples)
    kept = read_checkpoint(file, allow_pickle=allow_pickle)
    if made.params != config.params:  # a loss with weights has them in the file
        of_loss = "criterion." if config.params.own.model is None else "loss."
        weights = kept.named_as(model.state_dict())
        weights = {name: value for name, value in weights.items() if not name.startswith(of_loss)}
        kept = dataclasses.replace(kept, state_dict=weights)
    mismatch = kept.mismatch_with(model)
    if mismatch:
        workflow = config.params.workflow
        raise CheckpointMismatchError(
            f"{file} does not fit {type(model).__name__}, as l5kit {__version__} makes it of this configuration.\n"
            f"{mismatch}\n"
            + (
                "Code and weights that ship together fit: the installation mixes two versions of l5kit. Reinstall it"
                if is_shipped(file)
                else "Take the configuration of its training; if this is it, another version of l5kit trained it: take "
                "that one"
            )
            + f", or train a network with this one (l5kit train {workflow})"
        )
    kept.load_into(model)
    return model.eval()
