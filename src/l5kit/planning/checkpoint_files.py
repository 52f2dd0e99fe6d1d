"""The forms in which weights are stored: safetensors, state dicts, pickled modules, TorchScript archives."""

import json
import pickle
import types
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from l5kit.errors import L5KitError

CONFIG_KEY = "l5kit_config"
"""Metadata key of a safetensors file: the configuration as JSON."""

MODEL_KEY = "l5kit_model"
"""Metadata key of a safetensors file: module and name of the model's class."""

_NESTED_KEYS = ("state_dict", "model_state_dict", "model")
"""Where training scripts keep the weights inside a larger dict."""

_MOVED_MODULES = {"torchvision.models.resnet": "l5kit.planning.rasterized.backbones"}
"""Modules whose classes pickled models of L5Kit 1.5 name, and where the same classes are here."""


class CheckpointError(L5KitError, ValueError):
    """A file is no checkpoint, or cannot be read without a permission that the message names."""


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript archive."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def is_safetensors(path: Path) -> bool:
    """Return whether a file starts like a safetensors file: the length of a JSON header, then the header."""
    with path.open("rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size - 8


def read_safetensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file.

    Raises:
        CheckpointError: The file is cut short or its header is broken.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
            return tensors, dict(file.metadata() or {})
    except SafetensorError as error:
        raise CheckpointError(f"{path} starts like a safetensors file but is broken: {error}") from error


def config_of(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    """Return the configuration in the metadata of a safetensors file, an empty dict if there is none.

    Raises:
        CheckpointError: It is no JSON object.
    """
    try:
        config = json.loads(metadata.get(CONFIG_KEY, "{}"))
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path}: the metadata {CONFIG_KEY} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: the metadata {CONFIG_KEY} is a {type(config).__name__}, not a JSON object")
    return config


def read_torchscript(path: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a TorchScript archive.

    Raises:
        CheckpointError: The archive is broken.
    """
    with warnings.catch_warnings():
        # The archives of 1.5 have no other reader; whoever loads one cannot do anything about the warning.
        warnings.filterwarnings("ignore", message=".*torch.jit.load.*deprecated", category=DeprecationWarning)
        try:
            module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise CheckpointError(f"{path} is a broken TorchScript archive: {error}") from error
    return dict(module.state_dict())


def read_pickle(path: Path, *, allow_pickle: bool) -> tuple[dict[str, torch.Tensor], type[nn.Module] | None]:
    """Return the weights in a file of ``torch.save``, and the class if it holds a module.

    Raises:
        CheckpointError: The file is broken, holds no weights, or holds more than weights and ``allow_pickle`` is False.
    """
    content = _unpickled(path) if allow_pickle else _weights_only(path)
    if isinstance(content, nn.Module):
        return dict(content.state_dict()), type(content)
    return _weights_in(content, path), None


def _weights_only(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).split("WeightsUnpickler error:")[-1].strip().splitlines() or [""]
        raise CheckpointError(
            f"{path} is no safetensors file and no plain state dict ({reason[0][:200]}). If it is a whole module or a"
            " checkpoint with other objects, reading it can run any code that is in it: pass allow_pickle=True if you"
            " trust where it comes from"
        ) from error
    except (RuntimeError, EOFError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error


def _unpickled(path: Path) -> Any:
    reader = types.SimpleNamespace(Unpickler=_OldNamesUnpickler, load=_load_with_old_names, __name__="l5kit")
    try:
        return torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error


class _OldNamesUnpickler(pickle.Unpickler):
    """Finds the classes of old modules where they are now, and a plain module in place of those that are gone."""

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return super().find_class(_MOVED_MODULES.get(module, module), name)
        except (ImportError, AttributeError):
            if module.partition(".")[0] not in ("l5kit", "torchvision"):
                raise
            return type(name, (nn.Module,), {})


def _load_with_old_names(file: Any, **options: Any) -> Any:
    return _OldNamesUnpickler(file, **options).load()


def _weights_in(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict that a loaded object is or has."""
    while isinstance(content, Mapping):
        if content and all(isinstance(value, torch.Tensor) for value in content.values()):
            return dict(content)
        nested = next((content[key] for key in _NESTED_KEYS if key in content), None)
        if isinstance(nested, nn.Module):
            return dict(nested.state_dict())
        if nested is None:
            found = ", ".join(map(str, list(content)[:10])) or "nothing"
            raise CheckpointError(
                f"{path} holds a dict without weights; it has {found}. A state dict maps names to tensors, or is under"
                f" one of {', '.join(_NESTED_KEYS)}"
            )
        content = nested
    raise CheckpointError(f"{path} holds a {type(content).__name__}, which has no weights; save model.state_dict()")
