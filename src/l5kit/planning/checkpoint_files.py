"""File formats of weights: safetensors, state dicts, pickled modules, TorchScript archives."""

import hashlib
import json
import pickle
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from l5kit._types import JsonObject
from l5kit.planning.torch_files import ANOTHER_COPY, NESTED_KEYS, CheckpointError, check_archive, is_archive, one_line

CONFIG_KEY = "l5kit_config"
"""Metadata key of a safetensors file: the configuration as JSON."""

MODEL_KEY = "l5kit_model"
"""Metadata key of a safetensors file: module and name of the model's class."""

FACTS_KEY = "l5kit_facts"
"""Metadata key of a safetensors file: facts about the weights, such as their step and score, as JSON."""

CHECKSUM_KEY = "l5kit_sha256"
"""Metadata key of a safetensors file: SHA-256 of the weights and of the other metadata."""

_FORMAT_KEY = "format"
_KEYS_WITHOUT_CHECKSUM = ({_FORMAT_KEY, MODEL_KEY, CONFIG_KEY},)
"""Metadata keys of files written before there was a checksum."""

LENGTH_BYTES = 8
"""Bytes of the length of the header at the start of a safetensors file, little endian."""

_MAX_NESTING = 8
"""Keys of dicts that contain a state dict."""

_MOVED_MODULES = {"torchvision.models.resnet": "l5kit.planning.rasterized.backbones"}
"""Modules named in pickled models of L5Kit 1.5, and where their classes are now."""


class PickleRefusedError(CheckpointError):
    """A file holds more than plain weights, or is broken; loading it could run code in it."""


def is_safetensors(path: Path) -> bool:
    """Return whether a file starts like a safetensors file, or has its suffix and starts like no other checkpoint."""
    with path.open("rb") as file:
        start = file.read(LENGTH_BYTES + 1)
    if start[LENGTH_BYTES:] == b"{":
        return True
    return path.suffix == ".safetensors" and start[:2] not in (b"PK", b"\x80\x02")


def read_safetensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file, after verifying its checksum if it has one.

    Raises:
        CheckpointError: The file is truncated, its header is broken, or its content was changed.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is not a dict
            metadata = dict(file.metadata() or {})
    except PermissionError:
        raise
    except Exception as error:  # its errors are undocumented: SafetensorError, but also errors of torch
        raise CheckpointError(f"{path} is a broken safetensors file: {one_line(error)}; {ANOTHER_COPY}") from error
    # files of l5kit have a checksum, except for those of old versions, which are recognised by their keys
    is_ours = any("l5kit" in key for key in metadata)
    if CHECKSUM_KEY in metadata:
        is_whole = metadata[CHECKSUM_KEY] == checksum_of(tensors, metadata)
    else:
        is_whole = not is_ours or set(metadata) in _KEYS_WITHOUT_CHECKSUM
    if not is_whole:
        raise CheckpointError(f"{path} is broken: its checksum is not that of its content; {ANOTHER_COPY}")
    return tensors, metadata


def checksum_of(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of tensors and metadata, in hex digits, independent of their order."""
    digest = hashlib.sha256()
    entries = sorted((key, value) for key, value in metadata.items() if key != CHECKSUM_KEY)
    digest.update(json.dumps(entries).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def object_of(metadata: Mapping[str, str], key: str, path: Path) -> JsonObject:
    """Return the metadata of a safetensors file under a key, an empty dict if there is none.

    Raises:
        CheckpointError: It is not a JSON object.
    """
    try:
        value = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the metadata {key} is not JSON: {one_line(error)}; {ANOTHER_COPY}") from error
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path}: the metadata {key} is a {type(value).__name__}, not a JSON object; {ANOTHER_COPY}"
        )
    return value


def read_torchscript(path: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a TorchScript archive.

    Raises:
        CheckpointError: The archive is broken.
    """
    with warnings.catch_warnings():
        # archives of 1.5 have no other reader, so the deprecation warning is of no use to callers
        warnings.filterwarnings("ignore", message=".*torch.jit.load.*deprecated", category=DeprecationWarning)
        try:
            module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
            weights = dict(module.state_dict())
        except Exception as error:  # torch raises any error of its parser
            raise CheckpointError(
                f"{path} is a broken TorchScript archive: {one_line(error)}; {ANOTHER_COPY}"
            ) from error
    return _checked_weights(weights, path)


def read_pickle(path: Path, *, allow_pickle: bool) -> tuple[dict[str, torch.Tensor], type[nn.Module] | None]:
    """Return the weights in a file of ``torch.save``, and the class if it holds a module.

    Raises:
        CheckpointError: The file is broken, holds no weights, or holds more than weights and ``allow_pickle`` is False.
    """
    # torch accepts a module with the two names of ``pickle`` that it uses
    reader = types.SimpleNamespace(
        Unpickler=_OldNamesUnpickler,
        load=lambda file, **options: _OldNamesUnpickler(file, **options).load(),
        __name__="l5kit",
    )
    options: dict[str, Any] = (
        {"weights_only": False, "pickle_module": reader} if allow_pickle else {"weights_only": True}
    )
    try:
        content: object = torch.load(path, map_location="cpu", **options)
    except Exception as error:  # torch raises any error of its parser, pickles any error of their code
        if allow_pickle and isinstance(error, (ImportError, AttributeError)):
            raise CheckpointError(
                f"{path} needs a class or module that is not there: {one_line(error)}. Install or import what it was "
                "saved with, or save model.state_dict() there; if it never needed that, it is broken: "
                f"{ANOTHER_COPY}"
            ) from error
        if not allow_pickle and isinstance(error, pickle.UnpicklingError):
            raise PickleRefusedError(
                f"{path} is neither a safetensors file nor a plain state dict ({_reason(error)}). If it is a whole "
                "module or a checkpoint with other objects, reading it can run any code in it: pass allow_pickle=True "
                f"if you trust its source. If it should be a plain one, it is broken: {ANOTHER_COPY}"
            ) from error
        raise _unreadable(path, error) from error
    if isinstance(content, nn.Module):
        return _weights_of_module(content, path), type(content)
    return _weights_in(content, path), None


def read_plain_objects(path: Path) -> Any:
    """Return the tensors, dicts, lists, strings and numbers in a torch file, on the CPU, without running code in it.

    Raises:
        CheckpointError: The file is broken, or holds more than tensors, dicts, lists, strings and numbers.
    """
    if is_archive(path):
        check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises any error of its parser
        raise CheckpointError(f"{path} cannot be read: {_reason(error)}") from error


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {ANOTHER_COPY}")


def _reason(error: Exception) -> str:
    """Return the part of a torch message that is about the file."""
    return one_line(str(error).split("WeightsUnpickler error:")[-1].strip() or type(error).__name__)


class _OldNamesUnpickler(pickle.Unpickler):
    """Unpickler that maps old modules to their new paths, and missing classes to a plain module."""

    def find_class(self, module: str, name: str, /) -> object:
        try:
            return super().find_class(_MOVED_MODULES.get(module, module), name)
        except (ImportError, AttributeError):
            if module.partition(".")[0] not in ("l5kit", "torchvision"):
                raise
            return type(name, (nn.Module,), {})


def _weights_in(content: object, path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict that a loaded object is or has."""
    for _ in range(_MAX_NESTING):
        if not isinstance(content, Mapping):
            break
        if content and all(isinstance(value, torch.Tensor) for value in content.values()):
            return _checked_weights(content, path)
        nested = next((content[key] for key in NESTED_KEYS if key in content), None)
        if isinstance(nested, nn.Module):
            return _weights_of_module(nested, path)
        if nested is None:
            keys = ", ".join(one_line(key) for key in list(content)[:10]) or "nothing"
            raise CheckpointError(
                f"{path} holds a dict without weights; it has {keys}. A state dict maps names to tensors, or is under"
                f" one of {', '.join(NESTED_KEYS)}"
            )
        content = nested
    raise CheckpointError(f"{path} holds a {type(content).__name__}, which has no weights; save model.state_dict()")


def _weights_of_module(module: nn.Module, path: Path) -> dict[str, torch.Tensor]:
    try:
        weights = dict(module.state_dict())
    except Exception as error:  # a module unpickled from a broken file may lack any attribute
        raise _unreadable(path, error) from error
    return _checked_weights(weights, path)


def _checked_weights(weights: Mapping[Any, object], path: Path) -> dict[str, torch.Tensor]:
    """Return weights after checking that names are strings and tensors are plain."""
    for name, value in weights.items():
        if not isinstance(name, str):
            raise CheckpointError(
                f"{path} has a weight called {name!r} of type {type(name).__name__}; names of weights are strings: "
                "save model.state_dict()"
            )
        problem = _problem_of(value)
        if problem:
            raise CheckpointError(
                f"{path}: the weight {name!r} is {problem}, which no network of l5kit has; save plain dense tensors"
            )
    return dict(weights)


def _problem_of(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    if value.layout != torch.strided:
        return "sparse"
    if value.is_quantized:
        return "quantized"
    if value.is_complex():
        return "complex"
    return "without values" if value.is_meta else ""
