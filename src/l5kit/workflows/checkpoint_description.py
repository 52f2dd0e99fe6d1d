"""Descriptions of checkpoints: format, architecture of the weights, and matching configurations."""

import dataclasses
import os
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import torch

from l5kit._types import Config, JsonObject
from l5kit.configs.overrides import load_training_config, shipped_config_names
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import Checkpoint, WeightMismatch, read_checkpoint
from l5kit.planning.checkpoint_files import PickleRefusedError, is_safetensors
from l5kit.planning.torch_files import (
    NESTED_KEYS,
    CheckpointError,
    check_archive,
    is_archive,
    is_torchscript,
    one_line,
    outline_of,
)
from l5kit.planning.weights_file import POLICY_PARTS, weights_of
from l5kit.rasterization.rasterizer_builder import own_map_type
from l5kit.workflows.architectures import Architecture, architecture_of, is_buffer
from l5kit.workflows.trained_network import WITHOUT_TRAINING
from l5kit.workflows.workflow import TrainingConfig, make_model

_LIGHTNING = "pytorch-lightning_version"
_DRIVER_WEIGHTS = "policy.pth"
_DRIVER_VERSION = "_stable_baselines3_version"


@dataclass(frozen=True)
class CheckpointDescription:
    """Description of a checkpoint.

    Attributes:
        file: The file with the weights.
        kind: Format of the file, in words.
        needs_pickle: Whether loading it runs code in the file.
        weights: Weights by name; without values if the code of the file was not run.
        model_class: Module and name of the class of the network, if the file has it.
        config: The configuration in the file; empty if there is none.
        facts: Facts in the file about its weights, such as their step and score.
        architecture: Architecture of the weights; None for a network that l5kit does not know.
        fits: Configurations that ship with l5kit and fit the weights.
    """

    file: Path
    kind: str
    needs_pickle: bool
    weights: Mapping[str, torch.Tensor] = field(repr=False)
    model_class: str | None
    config: Config = field(repr=False)
    facts: Mapping[str, object]
    architecture: Architecture | None
    fits: tuple[str, ...] = ()

    @property
    def num_parameters(self) -> int:
        """Number of trainable values."""
        return sum(value.numel() for name, value in self.weights.items() if not is_buffer(name))

    @property
    def num_buffer_values(self) -> int:
        """Number of values that training does not change, such as scales and averages."""
        return sum(value.numel() for name, value in self.weights.items() if is_buffer(name))

    @property
    def dtypes(self) -> dict[str, int]:
        """Number of tensors by dtype, the most frequent first."""
        counts = Counter(str(value.dtype).removeprefix("torch.") for value in self.weights.values())
        return dict(counts.most_common())

    def as_dict(self) -> JsonObject:
        """Return everything except the values of the weights, as JSON."""
        architecture = self.architecture
        return {
            "file": str(self.file),
            "kind": self.kind,
            "num_bytes": self.file.stat().st_size,
            "needs_pickle": self.needs_pickle,
            "model_class": self.model_class,
            "num_tensors": len(self.weights),
            "num_parameters": self.num_parameters,
            "num_buffer_values": self.num_buffer_values,
            "dtypes": self.dtypes,
            "architecture": architecture
            and {
                "model_class": architecture.model_class,
                "workflows": list(architecture.workflows),
                "settings": dict(architecture.settings),
                "other_readings": [dict(reading) for reading in architecture.readings],
                "not_told": list(architecture.not_in_weights),
                "is_residual": architecture.is_residual,
            },
            "fits": list(self.fits),
            "workflow": self.config.get("workflow"),
            "facts": dict(self.facts),
            "config": dict(self.config),
        }


def describe_checkpoint(checkpoint: str | os.PathLike[str], *, allow_pickle: bool = False) -> CheckpointDescription:
    """Return a description of a checkpoint, without running or importing anything in it unless allowed.

    Args:
        checkpoint: A safetensors file, a file of ``torch.save`` or TorchScript, a Lightning checkpoint, a driver of
            stable-baselines3, or the folder of a training, for its final weights.
        allow_pickle: Load whole modules and other pickled objects, which can run any code in the file, instead of
            reading their structure.

    Raises:
        FileNotFoundError: There is no such file, or no final weights in the folder.
        CheckpointError: The file is not a checkpoint, or is broken.
    """
    file = weights_of(checkpoint)
    is_zip = not is_safetensors(file) and file.suffix != ".pt2" and is_archive(file)
    if is_zip and is_driver(file):
        # a driver has the weights of its policy in a nested zip file
        try:
            with zipfile.ZipFile(file) as archive:
                part = archive.getinfo(_DRIVER_WEIGHTS)
                USUAL_LIMITS.require_readable(archive)
                version = archive.read(_DRIVER_VERSION)[:40].decode("ascii", "replace").strip()
                content = archive.read(part)
            with zipfile.ZipFile(BytesIO(content)) as archive:
                USUAL_LIMITS.require_readable(archive)
            weights = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
            weights = {str(name): value for name, value in weights.items() if isinstance(value, torch.Tensor)}
        except Exception as error:  # torch raises any error of its parser
            raise CheckpointError(f"{file} is a broken driver of stable-baselines3: {one_line(error)}") from error
        kind = f"driver of stable-baselines3 {version} (l5kit train-rl)"
        return CheckpointDescription(file, kind, True, weights, None, {}, {}, None)
    if is_zip and is_torchscript(file):
        outline = outline_of(file)
        kept = Checkpoint(file, "TorchScript", outline.weights, model_class=outline.model_class)
        return _described(kept, "TorchScript archive")
    try:
        kept = read_checkpoint(file)
    except PickleRefusedError:  # loading it runs code in the file
        outline = outline_of(file)
        kept = Checkpoint(file, "module", outline.weights, model_class=outline.model_class)
        if allow_pickle:
            kept = read_checkpoint(file, allow_pickle=True)
        return _described(kept, _kind_of_pickle(outline.keys), needs_pickle=True)
    if kept.kind == "safetensors":
        return _described(kept, "safetensors of l5kit" if kept.model_class else "safetensors")
    return _described(kept, _kind_of_pickle(outline_of(file).keys, has_weights_only=True))


def is_driver(file: Path) -> bool:
    """Return whether a file is a driver of stable-baselines3, as written by l5kit train-rl.

    Raises:
        CheckpointError: It is a broken zip archive.
    """
    return is_archive(file) and set(check_archive(file)) >= POLICY_PARTS


def mismatch_with_config(description: CheckpointDescription, cfg: Config) -> WeightMismatch:
    """Return the mismatch between the weights of a checkpoint and the network of a configuration, without loading them.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range, or names a user class.
    """
    # checked first, as the channels of some networks need a rasterizer
    named = own_map_type(cfg)
    if named is not None:
        raise _not_imported("raster_params.map_type", named)
    config = TrainingConfig.from_cfg({**WITHOUT_TRAINING, **cfg})
    own = config.params.own_criterion or config.params.own.model
    if own is not None:
        raise _not_imported(own.key, own.class_path)
    with torch.random.fork_rng(devices=()), torch.device("meta"):
        model = make_model(config.from_scratch())
    return Checkpoint(description.file, "state dict", description.weights).mismatch_with(model)


def _not_imported(key: str, named: str) -> ConfigError:
    return ConfigError(
        f"{key}: the configuration names {named}, which is not imported to look at a file; "
        "l5kit.load_model(FILE, cfg=...) imports it and says what does not fit"
    )


def _kind_of_pickle(keys: tuple[str, ...], *, has_weights_only: bool = False) -> str:
    if _LIGHTNING in keys:
        return "checkpoint of Lightning"
    if not keys:
        return "whole pickled module"
    nested = next((key for key in NESTED_KEYS if key in keys), None)
    if nested is not None:
        return (
            f"dict with a state dict under {nested!r}"
            if has_weights_only
            else f"dict with objects, weights under {nested!r}"
        )
    return "state dict"


def _described(kept: Checkpoint, kind: str, *, needs_pickle: bool = False) -> CheckpointDescription:
    shapes = {name: tuple(value.shape) for name, value in kept.state_dict.items()}
    model_params = kept.config.get("model_params")
    # a user class may have weights of any name
    is_own = isinstance(model_params, Mapping) and model_params.get("model") is not None
    architecture = None if is_own else architecture_of(shapes, kept.model_class)
    description = CheckpointDescription(
        kept.path, kind, needs_pickle, kept.state_dict, kept.model_class, kept.config, kept.facts, architecture
    )
    # shipped configurations of its workflows whose networks accept the weights
    names = [name for name in shipped_config_names() if architecture is not None and name in architecture.workflows]
    fits = tuple(name for name in names if not mismatch_with_config(description, load_training_config(name)))
    return dataclasses.replace(description, fits=fits)
