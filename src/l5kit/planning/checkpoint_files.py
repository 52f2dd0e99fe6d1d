"""The forms in which weights are stored: safetensors, state dicts, pickled modules, TorchScript archives."""

import hashlib
import io
import json
import pickle
import types
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open
from torch import nn

from l5kit._types import JsonObject
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import L5KitError

CONFIG_KEY = "l5kit_config"
"""Metadata key of a safetensors file: the configuration as JSON."""

MODEL_KEY = "l5kit_model"
"""Metadata key of a safetensors file: module and name of the model's class."""

FACTS_KEY = "l5kit_facts"
"""Metadata key of a safetensors file: what is known of the weights, such as their step and score, as JSON."""

CHECKSUM_KEY = "l5kit_sha256"
"""Metadata key of a safetensors file: SHA-256 of the weights and of the other metadata."""

_FORMAT_KEY = "format"
_KEYS_WITHOUT_CHECKSUM = ({_FORMAT_KEY, MODEL_KEY, CONFIG_KEY},)
"""Metadata keys of files that were written before there was a checksum."""

_LENGTH_BYTES = 8
"""A safetensors file starts with the length of its header in so many bytes, in little endian."""

_PICKLES = {"data.pkl": "data", "constants.pkl": "constants"}
"""Pickles in an archive of torch, and the folders of their storages."""

_MAX_NESTING = 8
"""Dicts around a state dict."""

_ANOTHER_COPY = "take another copy of the file, or write it again"

_MARK_OF_FOLDER = 0x10
"""Of a part with this attribute, torch reads nothing, and leaves the tensor as memory happens to be."""

NESTED_KEYS = ("state_dict", "model_state_dict", "model")
"""Where training scripts keep the weights inside a larger dict."""

_MOVED_MODULES = {"torchvision.models.resnet": "l5kit.planning.rasterized.backbones"}
"""Modules whose classes pickled models of L5Kit 1.5 name, and where the same classes are here."""


class CheckpointError(L5KitError, ValueError):
    """A file is no checkpoint, is broken, or cannot be read without a permission that the message names."""


class PickleRefusedError(CheckpointError):
    """A file holds more than plain weights, or is broken; loading it could run code that is in it."""


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, as torch writes them, or what is left of one."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(path)


def is_torchscript(path: Path) -> bool:
    """Return whether a zip archive is one of TorchScript; see :func:`check_archive` for what it may raise."""
    return any(name.endswith("/constants.pkl") for name in check_archive(path))


def is_safetensors(path: Path) -> bool:
    """Return whether a file starts like a safetensors file, or is called one and starts like no other checkpoint."""
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES + 1)
    if start[_LENGTH_BYTES:] == b"{":
        return True
    return path.suffix == ".safetensors" and start[:2] not in (b"PK", b"\x80\x02")


def check_archive(path: Path) -> list[str]:
    """Return the names in a zip archive of torch, all of whose parts are whole and as long as its tensors need.

    Raises:
        CheckpointError: A part is broken or missing.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            USUAL_LIMITS.require_readable(archive)
            broken = archive.testzip()
            names = archive.namelist()
            short = None if broken else _short_storage(archive)
            unread = _marked_as_folder(archive)
    # zipfile raises these where headers contradict each other
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise CheckpointError(f"{path} is a broken archive: {one_line(error)}; {_ANOTHER_COPY}") from error
    if broken is not None:
        raise CheckpointError(f"{path} is a broken archive: the checksum of {broken!r} is wrong; {_ANOTHER_COPY}")
    if unread is not None:
        raise CheckpointError(f"{path} is a broken archive: {unread!r} is marked as a folder; {_ANOTHER_COPY}")
    if short is not None:
        raise CheckpointError(f"{path} is a broken archive: {short!r} is shorter than its tensor; {_ANOTHER_COPY}")
    return names


def _marked_as_folder(archive: zipfile.ZipFile) -> str | None:
    """Return a file of an archive that is marked as a folder; folders themselves, which other tools write, may be."""
    # ``ZipInfo.is_dir`` of Python 3.11 raises an IndexError for a damaged name without a letter
    parts = (part for part in archive.infolist() if not part.filename.endswith("/"))
    return next((part.filename for part in parts if part.external_attr & _MARK_OF_FOLDER), None)


def _short_storage(archive: zipfile.ZipFile) -> str | None:
    """Return a part of an archive that is shorter than its pickle says, which torch would read beyond its end."""
    sizes = {part.filename: part.file_size for part in archive.infolist()}
    for name in sizes:
        folder, _, pickled = name.rpartition("/")
        if pickled not in _PICKLES:
            continue
        reader = _StorageReader(io.BytesIO(archive.read(name)))
        # the reader stops at what it does not understand; torch says what is wrong with the pickle
        with suppress(Exception):
            reader.load()
        for key, num_bytes in reader.num_bytes.items():
            storage = f"{folder}/{_PICKLES[pickled]}/{key}"
            if sizes.get(storage, num_bytes) < num_bytes:
                return storage
    return None


class _Inert:
    """Stands for any class or function in a pickle and does nothing."""

    def __new__(cls, *_: object, **__: object) -> "_Inert":
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        """Forget a value."""

    def extend(self, values: object) -> None:
        """Forget values."""


class _StorageReader(pickle._Unpickler):
    """Reads which storages a pickle of torch needs, without running code in it.

    It is the reader that is written in Python: the other one takes as much memory as a number in the file says.

    Attributes:
        num_bytes: Bytes of each storage by its key.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="latin1")
        self.num_bytes: dict[str, int] = {}

    def find_class(self, module: str, name: str, /) -> type:  # noqa: ARG002
        """Return something harmless of the same name."""
        return type(name, (_Inert,), {})

    def persistent_load(self, pid: Any) -> object:
        """Note a storage; torch says what is wrong with one whose length is no number."""
        _, kind, key, _, num_values = pid[:5]
        with warnings.catch_warnings():  # the classes in old files are deprecated
            warnings.simplefilter("ignore", UserWarning)
            dtype = getattr(getattr(torch, kind.__name__, None), "dtype", torch.uint8)
        if isinstance(num_values, int):
            self.num_bytes[key] = num_values * dtype.itemsize
        return _Inert()


def read_safetensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file, whose checksum is right if it has one.

    Raises:
        CheckpointError: The file is cut short, its header is broken, or its content is not what was written.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
            metadata = dict(file.metadata() or {})
    except PermissionError:
        raise
    except Exception as error:  # what it raises is not documented: SafetensorError, but also errors of torch
        raise CheckpointError(f"{path} is a broken safetensors file: {one_line(error)}; {_ANOTHER_COPY}") from error
    _check_checksum(path, tensors, metadata)
    return tensors, metadata


def checksum_of(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of tensors and metadata, whatever their order; in hex digits."""
    digest = hashlib.sha256()
    entries = sorted((key, value) for key, value in metadata.items() if key != CHECKSUM_KEY)
    digest.update(json.dumps(entries).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def sort_header(path: Path) -> None:
    """Put the keys in the header of a safetensors file in order, so that equal contents are equal files.

    Raises:
        CheckpointError: The header in order is longer than it was.
    """
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
        metadata = dict(sorted(header.pop("__metadata__", {}).items()))
        text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > length:  # no JSON of the same is shorter
            raise CheckpointError(
                f"{path}: its header has {length} bytes, and needs {len(text)} with its keys in order"
            )
        file.seek(_LENGTH_BYTES)
        file.write(text.ljust(length))


def _check_checksum(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    is_ours = any("l5kit" in key for key in metadata)
    if CHECKSUM_KEY in metadata:
        is_whole = metadata[CHECKSUM_KEY] == checksum_of(tensors, metadata)
    else:
        is_whole = not is_ours or set(metadata) in _KEYS_WITHOUT_CHECKSUM
    if not is_whole:
        raise CheckpointError(f"{path} is broken: its checksum is not that of its content; {_ANOTHER_COPY}")


def config_of(metadata: Mapping[str, str], path: Path) -> JsonObject:
    """Return the configuration in the metadata of a safetensors file, an empty dict if there is none.

    Raises:
        CheckpointError: It is no JSON object.
    """
    return _object_of(metadata, CONFIG_KEY, path)


def facts_of(metadata: Mapping[str, str], path: Path) -> JsonObject:
    """Return what the metadata of a safetensors file tells about its weights, an empty dict if that is nothing.

    Raises:
        CheckpointError: It is no JSON object.
    """
    return _object_of(metadata, FACTS_KEY, path)


def _object_of(metadata: Mapping[str, str], key: str, path: Path) -> JsonObject:
    try:
        value = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the metadata {key} is no JSON: {one_line(error)}; {_ANOTHER_COPY}") from error
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path}: the metadata {key} is a {type(value).__name__}, not a JSON object; {_ANOTHER_COPY}"
        )
    return value


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
            weights = dict(module.state_dict())
        except Exception as error:  # torch raises what its parser stumbles over
            raise CheckpointError(
                f"{path} is a broken TorchScript archive: {one_line(error)}; {_ANOTHER_COPY}"
            ) from error
    return _checked_weights(weights, path)


def read_pickle(path: Path, *, allow_pickle: bool) -> tuple[dict[str, torch.Tensor], type[nn.Module] | None]:
    """Return the weights in a file of ``torch.save``, and the class if it holds a module.

    Raises:
        CheckpointError: The file is broken, holds no weights, or holds more than weights and ``allow_pickle`` is False.
    """
    content = _unpickled(path) if allow_pickle else _weights_only(path)
    if isinstance(content, nn.Module):
        return _weights_of_module(content, path), type(content)
    return _weights_in(content, path), None


def read_plain_objects(path: Path) -> Any:
    """Return what :func:`write_plain_objects` wrote, on the CPU, without running code in the file.

    Raises:
        CheckpointError: The file is broken, or holds more than tensors, dicts, lists, texts and numbers.
    """
    if is_archive(path):
        check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its parser stumbles over
        raise CheckpointError(f"{path} cannot be read: {_reason(error)}") from error


def write_plain_objects(content: object, path: Path) -> None:
    """Write tensors, dicts, lists, texts and numbers as a file of torch; warn of what could not be read again."""
    torch.save(content, path)
    find = getattr(torch.serialization, "get_unsafe_globals_in_checkpoint", None)  # from torch 2.6 on
    others = find(str(path)) if find is not None else ()
    if others:
        warnings.warn(
            f"the state holds {', '.join(sorted(others))}, and could not be read again, since that could run any code; "
            "let the state of your callbacks be dicts, lists, texts, numbers and tensors",
            UserWarning,
            stacklevel=2,
        )


def _weights_only(path: Path) -> object:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PickleRefusedError(
            f"{path} is no safetensors file and no plain state dict ({_reason(error)}). If it is a whole module or a"
            " checkpoint with other objects, reading it can run any code that is in it: pass allow_pickle=True if you"
            f" trust where it comes from. If it should be a plain one, it is broken: {_ANOTHER_COPY}"
        ) from error
    except Exception as error:  # of broken files, torch raises what its parser stumbles over
        raise _unreadable(path, error) from error


def _unpickled(path: Path) -> object:
    reader = types.SimpleNamespace(Unpickler=_OldNamesUnpickler, load=_load_with_old_names, __name__="l5kit")
    try:
        return torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
    except (ImportError, AttributeError) as error:
        raise CheckpointError(
            f"{path} needs a class or module that is not there: {one_line(error)}. Install or import what it was saved"
            f" with, or save model.state_dict() there; if it never needed that, it is broken: {_ANOTHER_COPY}"
        ) from error
    except Exception as error:  # pickles raise what the code in them does
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {_ANOTHER_COPY}")


def _reason(error: Exception) -> str:
    """Return the part of a message of torch that says something about the file."""
    return one_line(str(error).split("WeightsUnpickler error:")[-1].strip() or type(error).__name__)


def one_line(error: object) -> str:
    """Return the first line of a text, up to 200 characters; the name of the type if there is none."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


class _OldNamesUnpickler(pickle.Unpickler):
    """Finds the classes of old modules where they are now, and a plain module in place of those that are gone."""

    def find_class(self, module: str, name: str, /) -> object:
        try:
            return super().find_class(_MOVED_MODULES.get(module, module), name)
        except (ImportError, AttributeError):
            if module.partition(".")[0] not in ("l5kit", "torchvision"):
                raise
            return type(name, (nn.Module,), {})


def _load_with_old_names(file: BinaryIO, **options: Any) -> object:
    return _OldNamesUnpickler(file, **options).load()


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
    except Exception as error:  # a module that was unpickled from a broken file may lack any of its parts
        raise _unreadable(path, error) from error
    return _checked_weights(weights, path)


def _checked_weights(weights: Mapping[Any, object], path: Path) -> dict[str, torch.Tensor]:
    """Return weights whose names are texts and whose tensors are plain."""
    for name, value in weights.items():
        if not isinstance(name, str):
            raise CheckpointError(
                f"{path} has a weight called {name!r} of type {type(name).__name__}; names of weights are texts: save "
                "model.state_dict()"
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
