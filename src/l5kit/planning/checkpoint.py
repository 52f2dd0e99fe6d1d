"""Weights on disk: saved as safetensors with their configuration, loaded from these and from files of L5Kit 1.5."""

import copy
import difflib
import json
import os
import stat
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file
from torch import nn

from l5kit._files import replaced_when_complete
from l5kit._types import Config
from l5kit.errors import InvalidArgumentError, L5KitError
from l5kit.planning.checkpoint_files import (
    CHECKSUM_KEY,
    CONFIG_KEY,
    FACTS_KEY,
    LENGTH_BYTES,
    MODEL_KEY,
    checksum_of,
    is_safetensors,
    object_of,
    read_pickle,
    read_safetensors,
    read_torchscript,
)
from l5kit.planning.own_network import own_network_in
from l5kit.planning.torch_files import CheckpointError, is_archive, is_torchscript
from l5kit.planning.weights_file import is_onnx

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")
"""Name parts that only ``torch.compile`` and other wrappers of modules insert."""

_HOLDERS = ("module.", "model.")
"""Prefixes of ``DistributedDataParallel`` and Lightning; networks may have such attributes, too."""

_BACKBONE_PREFIX = "model."
"""Prefixes of the backbone in raster networks; 1.5 trained backbones alone to predict agents."""

_MAX_LISTED = 10
"""Maximum number of names of one kind in a message."""


class CheckpointMismatchError(L5KitError, RuntimeError):
    """Weights do not fit a model; the message lists missing, unexpected and reshaped ones."""


@dataclass(frozen=True)
class WeightMismatch:
    """Differences between the weights of a file and those of a model; false if there are none.

    Attributes:
        missing: Names that the model has and the file lacks.
        unexpected: Names that the file has and the model lacks.
        reshaped: Name, shape in the file and shape in the model of weights whose shapes differ.
        nearest: For a missing name the most similar unexpected one, and vice versa.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    reshaped: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    nearest: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.reshaped)

    def __str__(self) -> str:
        """Return the lists as text, the first names of each."""
        shapes = [f"{name}: {theirs} in the file, {ours} in the model" for name, theirs, ours in self.reshaped]
        parts = (
            _listing("other shape", shapes),
            _listing("missing in the file", map(self._with_nearest, self.missing)),
            _listing("not in the model", map(self._with_nearest, self.unexpected)),
        )
        return "\n".join(part for part in parts if part)

    def _with_nearest(self, name: str) -> str:
        return f"{name} (nearest: {self.nearest[name]})" if name in self.nearest else name


@dataclass(frozen=True)
class Checkpoint:
    """Weights read from a file.

    Attributes:
        path: The file.
        kind: Format of the file.
        state_dict: The weights on the CPU.
        config: The configuration saved with them; empty for files of L5Kit 1.5.
        model_class: Module and name of the class of the model, if the file has it.
        facts: Facts saved about the weights, such as the step of their training and their score.
    """

    path: Path
    kind: Literal["safetensors", "TorchScript", "module", "state dict"]
    state_dict: Mapping[str, torch.Tensor] = field(repr=False)
    config: Config = field(default_factory=dict)
    model_class: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

    def load_into(self, model: nn.Module, *, strict: bool = True) -> WeightMismatch:
        """Load the weights into a model, in place, with a warning for non-finite ones.

        Args:
            model: The model; it keeps its device. One wrapped by ``torch.compile`` or for several devices is unwrapped.
            strict: Raise if anything does not fit. Otherwise the weights that fit are loaded.

        Returns:
            The differences.

        Raises:
            CheckpointMismatchError: ``strict``, and something does not fit; the model is unchanged.
        """
        inner = _unwrapped(model)
        wanted = inner.state_dict()
        weights = self.named_as(wanted)
        mismatch = _compare(weights, wanted)
        if mismatch and strict:
            raise CheckpointMismatchError(
                f"the {self.kind} {self.path} does not fit {type(inner).__name__}.\n{mismatch}\n"
                "Make the model with the settings that it was trained with (channels, frames, architecture), or pass"
                " strict=False to load only what fits"
            )
        reshaped = {name for name, _, _ in mismatch.reshaped}
        fitting = {name: value for name, value in weights.items() if name in wanted and name not in reshaped}
        infinite = [name for name, value in fitting.items() if not torch.isfinite(value).all()]
        if infinite:
            listed = ", ".join(infinite[:3]) + (f" and {len(infinite) - 3} more" if len(infinite) > 3 else "")
            warnings.warn(
                f"{self.path}: NaN or infinite values in {listed}; such a network predicts nothing, so take weights "
                "from before its training failed",
                UserWarning,
                stacklevel=3,
            )
        inner.load_state_dict(fitting, strict=False)
        return mismatch

    def mismatch_with(self, model: nn.Module) -> WeightMismatch:
        """Return the differences to a model, which may be on the device ``meta``, without loading anything."""
        wanted = _unwrapped(model).state_dict()
        return _compare(self.named_as(wanted), wanted)

    def named_as(self, wanted: Mapping[str, object]) -> dict[str, torch.Tensor]:
        """Return the weights under the names of a model, if these only differ in prefixes.

        Args:
            wanted: The state dict of the model.
        """
        named, num_fitting = _fitting_names(self.state_dict, wanted)
        # an inner `module`, of a part for several devices, is treated as a wrapper if more weights fit without it
        if num_fitting < len(wanted):
            others, num_others = _fitting_names(self.state_dict, wanted, _HOLDERS[0].rstrip("."))
            named = others if num_others > num_fitting else named
        return named


def save_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module,
    *,
    config: Mapping[str, object] | None = None,
    facts: Mapping[str, object] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Save the weights of a model as a safetensors file, with a configuration and a checksum in its metadata.

    The file is written atomically; an older one is replaced. Equal weights, configurations and facts give equal files.

    Args:
        path: Output file, such as ``planner.safetensors``.
        model: The model, on any device.
        config: JSON values, such as the configuration of the training.
        facts: JSON values about the weights, such as their step and score.
        weights: The weights by name, if they differ from those of the model or are only a part; None for those of the
            model.

    Raises:
        InvalidArgumentError: ``config`` or ``facts`` holds something that JSON cannot.
        FileNotFoundError: The folder of ``path`` does not exist.
    """
    inner = _unwrapped(model)
    save_weights(
        path,
        inner.state_dict() if weights is None else weights,
        model_class=class_path_of(inner),
        config=config,
        facts=facts,
    )


def save_weights(
    path: str | os.PathLike[str],
    weights: Mapping[str, torch.Tensor],
    *,
    model_class: str,
    config: Mapping[str, object] | None = None,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Save weights without their model, like :func:`save_checkpoint`.

    Args:
        path: Output file.
        weights: The weights by name, on any device.
        model_class: Module and name of the class of the model.
        config: JSON values, such as the configuration of the training.
        facts: JSON values about the weights, such as their step and score.

    Raises:
        InvalidArgumentError: ``config`` or ``facts`` holds something that JSON cannot.
        FileNotFoundError: The folder of ``path`` does not exist.
        CheckpointError: The sorted header is longer than the original one.
    """
    metadata = {
        "format": "pt",
        MODEL_KEY: model_class,
        CONFIG_KEY: _as_json(config or {}, "config"),
        FACTS_KEY: _as_json(facts or {}, "facts"),
    }
    on_cpu = {name: value.detach().cpu() for name, value in weights.items()}
    with replaced_when_complete(path, argument="path") as temporary:
        # copies, because safetensors accepts neither strided tensors nor shared memory
        copies = {name: value.clone(memory_format=torch.contiguous_format) for name, value in on_cpu.items()}
        temporary.touch()
        permissions = stat.S_IMODE(temporary.stat().st_mode)
        save_file(copies, temporary, {**metadata, CHECKSUM_KEY: checksum_of(copies, metadata)})
        temporary.chmod(permissions)  # safetensors creates files that only their owner can read

        # sort the keys of the header, so that equal contents give equal files
        with temporary.open("r+b") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            header = json.loads(file.read(length))
            ordered = dict(sorted(header.pop("__metadata__", {}).items()))
            text = json.dumps({"__metadata__": ordered, **header}, separators=(",", ":"), ensure_ascii=False).encode()
            if len(text) > length:  # the same content in JSON cannot be shorter
                raise CheckpointError(
                    f"{temporary}: its header has {length} bytes, and needs {len(text)} with its keys in order"
                )
            file.seek(LENGTH_BYTES)
            file.write(text.ljust(length))


def read_checkpoint(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Checkpoint:
    """Read weights from a safetensors file, a TorchScript archive, or a file of ``torch.save``.

    A file of ``torch.save`` may hold a state dict, a dict that has one under ``state_dict``, ``model_state_dict`` or
    ``model``, or a whole module of L5Kit 1.5 or later.

    Args:
        path: The file.
        allow_pickle: Also read whole modules and other pickled objects, which can run any code in the file.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path {str(file)!r} is not a file; name a checkpoint")
    if is_onnx(file) or file.suffix == ".pt2":
        raise CheckpointError(
            f"{file} is an exported network, which has no weights to load into another one; "
            + ("l5kit.load_model runs it" if is_onnx(file) else "torch.export.load(FILE).module() runs it")
        )
    if is_safetensors(file):
        tensors, metadata = read_safetensors(file)
        config, facts = object_of(metadata, CONFIG_KEY, file), object_of(metadata, FACTS_KEY, file)
        return Checkpoint(file, "safetensors", tensors, config, metadata.get(MODEL_KEY), facts)
    if is_archive(file) and is_torchscript(file):
        return Checkpoint(file, "TorchScript", read_torchscript(file))
    weights, module = read_pickle(file, allow_pickle=allow_pickle)
    if module is None:
        return Checkpoint(file, "state dict", weights)
    return Checkpoint(file, "module", weights, model_class=f"{module.__module__}.{module.__qualname__}")


def load_checkpoint(
    model: nn.Module, path: str | os.PathLike[str], *, strict: bool = True, allow_pickle: bool = False
) -> WeightMismatch:
    """Load weights of any kind that :func:`read_checkpoint` reads into a model, in place.

    Args:
        model: The model; it keeps its device.
        path: The file.
        strict: Raise if anything does not fit. Otherwise the weights that fit are loaded.
        allow_pickle: Also read whole modules and other pickled objects, which can run any code in the file.

    Returns:
        The differences; false if there are none.

    Raises:
        CheckpointMismatchError: ``strict``, and something does not fit; the message lists it with the nearest names.
        FileNotFoundError: There is no such file.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
    """
    return read_checkpoint(path, allow_pickle=allow_pickle).load_into(model, strict=strict)


def export_torchscript(path: str | os.PathLike[str], model: nn.Module) -> None:
    """Save a model as a TorchScript archive that ``torch.jit.load`` opens without l5kit.

    The archive is on the CPU and in the mode (train or eval) of the model, which is not changed. It is written
    atomically.

    Args:
        path: Output file.
        model: One of the models of l5kit, on any device.

    Raises:
        FileNotFoundError: The folder of ``path`` does not exist.
    """
    with replaced_when_complete(path, argument="path") as temporary, warnings.catch_warnings():
        # TorchScript was requested by name, so suppress the advice to use something else
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated", category=DeprecationWarning)
        torch.jit.save(torch.jit.script(copy.deepcopy(_unwrapped(model)).cpu()), temporary)


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside the wrappers of ``torch.compile`` and of training on several devices."""
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def class_path_of(model: nn.Module) -> str:
    """Return module and name of the class of a model; for a user model, as its configuration names it."""
    own = own_network_in(model)

    # the class of a model, not the one that fully_shard derives from it
    bases = type(model).__bases__
    kind = bases[-1] if any(base.__name__ == "FSDPModule" for base in bases) else type(model)
    return f"{kind.__module__}.{kind.__qualname__}" if own is None else own.class_path


def _as_json(value: Mapping[str, object], argument: str) -> str:
    """Return JSON with sorted keys, as JSON spells them."""
    try:
        return json.dumps(json.loads(json.dumps(value)), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{argument} cannot be saved as JSON: {error}; give dicts, lists, texts, numbers, True, False and None only"
        ) from error


def without_wrappers(name: str, *others: str) -> str:
    """Return the name of a weight without the parts that ``torch.compile`` and other wrappers insert.

    Args:
        name: The name, its parts separated by dots.
        others: Further parts to leave out.
    """
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS and part not in others)


def _fitting_names(
    weights: Mapping[str, torch.Tensor], wanted: Mapping[str, object], *wrappers: str
) -> tuple[dict[str, torch.Tensor], int]:
    """Return the weights under other names, with or without prefixes, and how many of them a model has.

    The removed prefixes are those with which most names fit, the longest of several.
    """
    own_names = {without_wrappers(name, *wrappers): name for name in wanted}
    named = {without_wrappers(name, *wrappers): value for name, value in weights.items()}
    if len(named) < len(weights) or len(own_names) < len(wanted):  # names that are equal without wrappers
        named, own_names = dict(weights), {name: name for name in wanted}
    # prefixes of wrappers that all names share, one after the other
    candidates = [named]
    while prefixes := [each for each in _HOLDERS if named and all(name.startswith(each) for name in candidates[-1])]:
        candidates.append({name.removeprefix(prefixes[0]): value for name, value in candidates[-1].items()})
    # if nothing else fits, try it as a backbone that was trained alone
    backbones = [{f"{_BACKBONE_PREFIX}{name}": value for name, value in each.items()} for each in candidates]
    best, num_best = named, 0
    for each in (*candidates, *([] if any(each.keys() & own_names.keys() for each in candidates) else backbones)):
        num_fitting = len(each.keys() & own_names.keys())
        if num_fitting >= max(1, num_best):
            best, num_best = each, num_fitting
    return {own_names.get(name, name): value for name, value in best.items()}, num_best


def _compare(weights: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> WeightMismatch:
    missing = [name for name in wanted if name not in weights]
    unexpected = [name for name in weights if name not in wanted]
    reshaped = tuple(
        (name, tuple(weights[name].shape), tuple(value.shape))
        for name, value in wanted.items()
        if name in weights and weights[name].shape != value.shape
    )
    nearest = _nearest(missing[:_MAX_LISTED], unexpected) | _nearest(unexpected[:_MAX_LISTED], missing)
    return WeightMismatch(tuple(missing), tuple(unexpected), reshaped, nearest)


def _nearest(names: list[str], others: list[str]) -> dict[str, str]:
    closest = {name: difflib.get_close_matches(name, others, n=1, cutoff=0.6) for name in names}
    return {name: matches[0] for name, matches in closest.items() if matches}


def _listing(title: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    if not listed:
        return ""
    more = [f"... and {len(listed) - _MAX_LISTED} more"] if len(listed) > _MAX_LISTED else []
    return f"{title} ({len(listed)}):" + "".join(f"\n  {line}" for line in [*listed[:_MAX_LISTED], *more])
