"""Torch files: checks that they are complete, and their weights without values, read without running code."""

import functools
import io
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import torch

from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import L5KitError

_PICKLES = {"data.pkl": "data", "constants.pkl": "constants"}
"""Pickles in a torch archive, and the folders of their storages."""

_MARK_OF_FOLDER = 0x10
"""Torch reads no data for a record with this attribute, and leaves the tensor uninitialized."""

NESTED_KEYS = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts store the weights inside a larger dict."""

ANOTHER_COPY = "take another copy of the file, or write it again"

_MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C
"""First pickle of a torch file that is not an archive."""

_COUNT_BYTES = 8
"""Bytes of the number of values before each storage of such a file."""

_MAX_OBJECTS = 200_000
"""Maximum number of modules and dicts in a file, which bounds the time for malicious files."""

_MAX_DEPTH = 100
_MANGLED = re.compile(r"___torch_mangle_\d+\.")


class CheckpointError(L5KitError, ValueError):
    """A file is not a checkpoint, is broken, or cannot be read without a permission that the message names."""


@dataclass(frozen=True)
class CheckpointOutline:
    """Content of a file of ``torch.save`` or ``torch.jit.save``.

    Attributes:
        weights: Tensors without values (on the device ``meta``) by name, as in the state dict.
        model_class: Module and name of the class of a whole module or script; None for dicts.
        keys: Keys of the outermost dict; empty for modules.
    """

    weights: Mapping[str, torch.Tensor]
    model_class: str | None
    keys: tuple[str, ...] = ()


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, as torch writes them, or a truncated one."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(path)


def is_torchscript(path: Path) -> bool:
    """Return whether a zip archive is TorchScript; errors are those of :func:`check_archive`."""
    return any(name.endswith("/constants.pkl") for name in check_archive(path))


def check_archive(path: Path) -> list[str]:
    """Return the names in a torch zip archive, after checking that all records are complete and fit their tensors.

    Raises:
        CheckpointError: A record is broken or missing.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            USUAL_LIMITS.require_readable(archive)
            broken = archive.testzip()
            names = archive.namelist()
            short = None if broken else _short_storage(archive)
            # Torch reads no data of a file that is marked as a folder. Folders themselves, which other tools write, are
            # allowed (not ``ZipInfo.is_dir``, which raises an IndexError in Python 3.11 for a damaged empty name).
            parts = (part for part in archive.infolist() if not part.filename.endswith("/"))
            unread = next((part.filename for part in parts if part.external_attr & _MARK_OF_FOLDER), None)
    # zipfile raises these if headers contradict each other
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise CheckpointError(f"{path} is a broken archive: {one_line(error)}; {ANOTHER_COPY}") from error
    if broken is not None:
        raise CheckpointError(f"{path} is a broken archive: the checksum of {broken!r} is wrong; {ANOTHER_COPY}")
    if unread is not None:
        raise CheckpointError(f"{path} is a broken archive: {unread!r} is marked as a folder; {ANOTHER_COPY}")
    if short is not None:
        raise CheckpointError(f"{path} is a broken archive: {short!r} is shorter than its tensor; {ANOTHER_COPY}")
    return names


def _short_storage(archive: zipfile.ZipFile) -> str | None:
    """Return a record of an archive that is shorter than its pickle declares; torch would read beyond its end."""
    sizes = {part.filename: part.file_size for part in archive.infolist()}
    for name in sizes:
        folder, _, pickled = name.rpartition("/")
        if pickled not in _PICKLES:
            continue
        reader = _OutlineReader(io.BytesIO(archive.read(name)))
        # ignore what the reader does not understand; torch reports errors of the pickle
        with suppress(Exception):
            reader.load()
        for key, stored in reader.storages.items():
            storage = f"{folder}/{_PICKLES[pickled]}/{key}"
            if sizes.get(storage, stored.num_bytes) < stored.num_bytes:
                return storage
    return None


def outline_of(path: Path) -> CheckpointOutline:
    """Return the content of a pickled file without looking up or calling any class or function that it names.

    Args:
        path: File of ``torch.save``, old or new, or TorchScript archive.

    Raises:
        CheckpointError: The file is none of these, is broken, or holds neither a module nor a state dict.
    """
    archived = is_archive(path)
    if archived:
        check_archive(path)
    try:
        if not archived:
            with path.open("rb") as file:
                if file.read(1) != b"\x80":
                    raise CheckpointError(
                        f"{path} is not a checkpoint: neither safetensors, nor a zip archive, nor a pickle"
                    )
                file.seek(0)
                first = _OutlineReader(file).load()
                if first != _MAGIC_NUMBER or type(first) is not int:
                    raise CheckpointError(f"{path} is a pickle that torch did not write; save model.state_dict()")
                # five pickles in sequence: magic number, protocol, system, content, keys of the storages; then each
                # storage, preceded by the number of its values
                for _ in ("protocol", "system"):
                    _OutlineReader(file).load()
                reader = _OutlineReader(file)
                content: object = reader.load()
                keys = _OutlineReader(file).load()
                num_bytes = sum(_COUNT_BYTES + reader.storages[str(key)].num_bytes for key in keys)
                if path.stat().st_size - file.tell() < num_bytes:
                    raise CheckpointError(f"{path} is cut short; {ANOTHER_COPY}")
            return _outline(content, path)
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"), None)
            if name is None:
                raise CheckpointError(f"{path} is a zip archive, but none of torch: it has no data.pkl")
            with archive.open(name) as part:
                return _outline(_OutlineReader(part).load(), path)  # type: ignore[arg-type]
    except CheckpointError:
        raise
    except Exception as error:  # pickles raise any error of their opcodes
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {one_line(error)}; {ANOTHER_COPY}") from error


class _Inert:
    """Placeholder for an object of any class, or for the result of any function, which keeps its state."""

    name = ""

    def __new__(cls, *_: object, **__: object) -> "_Inert":
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        self.state: Mapping[Any, Any] = {}

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, Mapping) else {}

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        """Forget a value."""

    extend = add = append


class _Dict(dict[Any, Any]):
    """Placeholder for an ordered dict, which may have attributes."""

    def __setstate__(self, state: object) -> None:
        pass


@dataclass(frozen=True)
class _Storage:
    """A storage of a file."""

    key: str
    dtype: torch.dtype
    num_values: int

    @property
    def num_bytes(self) -> int:
        return self.num_values * self.dtype.itemsize


class _OutlineReader(pickle._Unpickler):
    """Unpickler into plain dicts, tensors without values and inert objects.

    It is the Python implementation, whose memory does not grow with the numbers in the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="latin1")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        """Return a harmless placeholder for a class or function."""
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): _Dict,
            ("__builtin__", "set"): _texts,
            ("builtins", "set"): _texts,
            ("torch._utils", "_rebuild_tensor"): _tensor,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): _parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        }
        return known.get((module, name)) or _inert_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage; in old files also a class."""
        if pid[0] == "module":
            return pid[1]
        kind, key, num_values = pid[1].name.rpartition(".")[2], str(pid[2]), pid[4]
        if not isinstance(num_values, int) or num_values < 0:
            raise ValueError(f"storage {key} has {num_values!r} values")
        with warnings.catch_warnings():  # suppress the deprecation of the classes in old files
            warnings.simplefilter("ignore", UserWarning)
            dtype = getattr(getattr(torch, kind, None), "dtype", torch.uint8)
        return self.storages.setdefault(key, _Storage(key, dtype, num_values))


@functools.lru_cache(maxsize=256)
def _inert_class(module: str, name: str) -> type[_Inert]:
    return type("_InertOfFile", (_Inert,), {"name": f"{module}.{name}"})


def _tensor(storage: _Storage, offset: int, shape: tuple[int, ...], *_: object) -> torch.Tensor:
    """Return a tensor without values."""
    if not isinstance(storage, _Storage) or not isinstance(offset, int):
        raise TypeError("a tensor without storage")
    return torch.empty(tuple(int(size) for size in shape), dtype=storage.dtype, device="meta")


def _texts(values: object = ()) -> set[str]:
    """Return the strings of a set, such as the names of buffers that are not saved."""
    return {value for value in values if isinstance(value, str)} if isinstance(values, list) else set()


def _parameter(value: object, *_: object) -> object:
    return value


def _outline(content: object, path: Path) -> CheckpointOutline:
    if isinstance(content, _Inert):
        weights = _weights_of_module(content)
        if not weights:
            raise CheckpointError(f"{path} holds a {content.name}, which has no weights; save model.state_dict()")
        return CheckpointOutline(weights, _MANGLED.sub("", content.name).removeprefix("__torch__."))
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}, which has no weights; save model.state_dict()")
    keys = tuple(one_line(key) for key in content)
    inner: Any = content
    for _ in range(_MAX_DEPTH):
        if isinstance(inner, _Inert):
            return CheckpointOutline(_weights_of_module(inner), inner.name, keys)
        if not isinstance(inner, dict):
            break
        if inner and all(isinstance(value, torch.Tensor) for value in inner.values()):
            return CheckpointOutline({str(name): value for name, value in inner.items()}, None, keys)
        inner = next((inner[key] for key in NESTED_KEYS if key in inner), None)
    raise CheckpointError(f"{path} holds a dict without weights; it has {', '.join(keys[:10]) or 'nothing'}")


def _weights_of_module(module: _Inert) -> dict[str, torch.Tensor]:
    """Return parameters and buffers in the order of a state dict: own ones first, then those of submodules."""
    weights: dict[str, torch.Tensor] = {}
    todo, num_seen = [("", module, 0)], 0
    while todo:
        prefix, at, depth = todo.pop()
        num_seen += 1
        if num_seen > _MAX_OBJECTS or depth > _MAX_DEPTH:
            raise ValueError("it has more modules than any network, or one that holds itself")
        # a pickled module has dicts of its parts by kind, a script has them side by side
        own, inner = at.state, at.state
        if "_modules" in at.state:
            left_out = at.state.get("_non_persistent_buffers_set") or ()
            own = {**at.state.get("_parameters", {}), **at.state.get("_buffers", {})}
            own = {name: value for name, value in own.items() if name not in left_out}
            inner = at.state["_modules"]
        weights |= {f"{prefix}{name}": value for name, value in own.items() if isinstance(value, torch.Tensor)}
        # a stack, so push in reverse order
        modules = {str(name): value for name, value in inner.items() if isinstance(value, _Inert)}
        todo += [(f"{prefix}{name}.", module, depth + 1) for name, module in reversed(modules.items())]
    return weights


def one_line(error: object) -> str:
    """Return the first line of a text, up to 200 characters; the name of the type if there is none."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
