"""Conversion of checkpoints of any kind to safetensors files that include the configuration of their training."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from l5kit import __version__
from l5kit._files import replaced_when_complete
from l5kit._types import Config, JsonObject
from l5kit.data.download.fetching import file_digest
from l5kit.data.jobs.owned_outputs import require_own_file
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.checkpoint import class_path_of, read_checkpoint, save_weights
from l5kit.planning.torch_files import CheckpointError
from l5kit.planning.weights_file import weights_of
from l5kit.workflows.architectures import architecture_of
from l5kit.workflows.checkpoint_description import is_driver
from l5kit.workflows.trained_network import WITHOUT_TRAINING, configuration_of, load_network
from l5kit.workflows.workflow import TrainingConfig

_SUFFIXES = (".safetensors",)
_UNKNOWN_CLASS = "torch.nn.Module"


@dataclass(frozen=True)
class Conversion:
    """Result of a conversion.

    Attributes:
        source: The input file.
        file: The output file.
        kind: Format of the input.
        model_class: Module and name of the class of the network.
        num_tensors: Number of weights that were written, read again and found equal.
        has_config: Whether the file contains the configuration, so that :func:`load_model` needs nothing else.
    """

    source: Path
    file: Path
    kind: str
    model_class: str
    num_tensors: int
    has_config: bool


def convert_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    cfg: Config | None = None,
    allow_pickle: bool = False,
    overwrite: bool = False,
) -> Conversion:
    """Write the weights of a checkpoint as safetensors, with a configuration, and compare them with the source.

    With a configuration, its network is built and the weights are loaded into it, which detects mismatches and gives
    the weights the names of that network. The facts in the file name the source and its SHA-256.

    Args:
        source: A file of weights of any kind, or the folder of a training, for its final weights.
        target: Output file, which ends in ``.safetensors``.
        cfg: The configuration of the training; None for that in the file or next to it. Without any, the weights are
            written without configuration.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.
        overwrite: Replace an older file.

    Raises:
        FileNotFoundError: There is no such file, or no folder for the target.
        InvalidArgumentError: The target has the wrong suffix.
        FileExistsError: The target exists and ``overwrite`` is not set.
        ConfigError: A key of the configuration is unknown, missing, of the wrong type or out of range.
        CheckpointError: The source is not a checkpoint, is broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights do not fit the network of the configuration.
    """
    file, written = weights_of(source), Path(target)
    require_target(written, suffixes=_SUFFIXES, overwrite=overwrite)
    if is_driver(file):
        raise CheckpointError(
            f"{file} is a driver of stable-baselines3, which has no configuration of a training of networks; load it "
            "with stable_baselines3.PPO.load, or name a file of weights"
        )
    kept = read_checkpoint(file, allow_pickle=allow_pickle)
    config: JsonObject = dict(cfg or {})
    if cfg is None:
        with contextlib.suppress(ConfigError):  # files without a configuration inside or next to them
            config = configuration_of(file, allow_pickle=allow_pickle)
    weights, model_class = kept.state_dict, kept.model_class
    if config:
        network = load_network(file, TrainingConfig.from_cfg({**WITHOUT_TRAINING, **config}), allow_pickle=allow_pickle)
        weights, model_class = network.state_dict(), class_path_of(network)
    architecture = architecture_of({name: tuple(value.shape) for name, value in weights.items()}, model_class)
    model_class = model_class or (architecture.model_class if architecture else _UNKNOWN_CLASS)
    facts = {**kept.facts, "converted_from": {"name": file.name, "sha256": file_digest(file), "l5kit": __version__}}
    with replaced_when_complete(written, argument="target") as temporary:
        save_weights(temporary, weights, model_class=model_class, config=config, facts=facts)
        # read again and compare the bits with what was written and, in its dtypes, with the source
        again, theirs = read_checkpoint(temporary).state_dict, kept.named_as(weights)
        different = [name for name, value in weights.items() if name not in again or not _is_equal(again[name], value)]
        different += [name for name, value in theirs.items() if not _is_equal(weights[name].to(value.dtype), value)]
        if different:
            raise CheckpointError(
                f"{', '.join(different[:3])}: as {weights[different[0]].dtype} not the same as in the source, which "
                f"has {theirs[different[0]].dtype}; nothing was written"
            )
    return Conversion(file, written, kept.kind, model_class, len(weights), bool(config))


def require_target(target: Path, *, suffixes: Sequence[str], overwrite: bool) -> None:
    """Refuse an output file before any work is done.

    Args:
        target: The file.
        suffixes: Allowed suffixes.
        overwrite: Whether an older file may be replaced.

    Raises:
        InvalidArgumentError: The target has the wrong suffix.
        FileExistsError: The target exists and ``overwrite`` is not set.
    """
    if target.suffix not in suffixes:
        endings = " or ".join(suffixes)
        raise InvalidArgumentError(f"target is {str(target)!r}; give the name of a file that ends in {endings}")
    if overwrite:
        require_own_file(target, argument="target")
    elif target.exists():
        raise FileExistsError(f"{target} exists; choose another path, or replace it (overwrite=True)")


def _is_equal(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and bits, including NaN."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    return torch.equal(_bits(ours), _bits(theirs))


def _bits(value: torch.Tensor) -> torch.Tensor:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
