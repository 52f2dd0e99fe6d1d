"""Damaged checkpoints from a seed: safetensors, old and new torch files, TorchScript, states of Lightning.

The description of a file starts with ``exact:`` if the file itself reveals its damage, by a checksum: anything loaded
from it must then equal what was saved.
"""

import functools
import io
import itertools
import json
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from l5kit.planning.checkpoint import export_torchscript, save_checkpoint
from l5kit.planning.checkpoint_files import CHECKSUM_KEY, CONFIG_KEY, FACTS_KEY, MODEL_KEY, checksum_of

Make = Callable[[Random], bytes]

_CONFIG = {"workflow": "vector_planner", "model_params": {"future_num_frames": 4}}
_DEPTH = 20_000
_NUM_FILES = 620


def small_network() -> nn.Module:
    """Return the network whose weights the checkpoints hold, always the same."""
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with torch.no_grad():
        for number, value in enumerate(network.state_dict().values()):
            value.copy_(torch.arange(value.numel()).reshape(value.shape) * 0.25 + number)
    return network.eval()


def damaged_checkpoints(rng: Random, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield descriptions and files of damaged checkpoints, each written on demand and removed before the next.

    Args:
        rng: Decides the damage.
        folder: Where the files are written; created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seed = rng.random()
    for number, (said, suffix, make) in enumerate(itertools.islice(_cases(), _NUM_FILES)):
        path = folder / f"{number}{suffix}"
        path.write_bytes(make(Random(f"{seed} {number}")))
        yield said, path
        path.unlink(missing_ok=True)


def _cases() -> Iterator[tuple[str, str, Make]]:
    """Yield what is said, the suffix and how to make the bytes: odd contents once, then damage to bytes without end."""
    for name, header in _HEADERS.items():
        yield f"safetensors, {name}", ".safetensors", lambda rng, header=header: _with_header(header)
    for name, (key, text) in _METADATA.items():
        yield f"safetensors, {name}", ".safetensors", lambda rng, key=key, text=text: _with_metadata(key, text)
    for name, content in _CONTENTS.items():
        for is_new in (True, False):
            said = f"{'new' if is_new else 'old'} file of torch, {name}"
            yield said, ".pt", lambda rng, content=content, is_new=is_new: _saved(content(), is_new=is_new)
    for form in ("state dict", "TorchScript", "state of Lightning"):
        for name, change in _ARCHIVES.items():
            said = f"{form}, {name}"
            yield said, ".pt", lambda rng, form=form, change=change: _rewritten(_FORMS[form][2](), change)
    for name, text in _TEXTS.items():
        for suffix in (".safetensors", ".pt", ".ckpt"):
            yield f"{suffix} holds {name}", suffix, lambda rng, text=text: text
    while True:
        for form, (suffix, is_exact, write) in _FORMS.items():
            for name, damage in _DAMAGES.items():
                said = f"{'exact: ' if is_exact else ''}{form}, {name}"
                yield said, suffix, lambda rng, write=write, damage=damage: damage(write(), rng)


# --- whole files ---


def _weights() -> dict[str, torch.Tensor]:
    return dict(small_network().state_dict())


def _saved(content: Any, *, is_new: bool = True) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(content, file, _use_new_zipfile_serialization=is_new)
    return file.getvalue()


def _written(write: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        write(path)
        return path.read_bytes()


def _of_lightning() -> dict[str, Any]:
    return {
        "epoch": 0,
        "global_step": 3,
        "state_dict": {f"model.{name}": value for name, value in _weights().items()},
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {"CheckpointWriter": {"best": {"score": 1.0, "step": 2, "num_worse": 0}}},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]}],
        "lr_schedulers": [],
    }


def _form(suffix: str, is_exact: bool, write: Callable[[], bytes]) -> tuple[str, bool, Callable[[], bytes]]:
    return suffix, is_exact, functools.lru_cache(maxsize=1)(write)


_FORMS = {
    "safetensors of l5kit": _form(
        ".safetensors",
        True,
        lambda: _written(lambda path: save_checkpoint(path, small_network(), config=_CONFIG, facts={"step": 3})),
    ),
    "safetensors of others": _form(".safetensors", False, lambda: save(_weights(), {"format": "pt"})),
    "state dict": _form(".pt", True, lambda: _saved(_weights())),
    "old state dict": _form(".pt", False, lambda: _saved(_weights(), is_new=False)),
    "module": _form(".pt", True, lambda: _saved(small_network())),
    "old module": _form(".pt", False, lambda: _saved(small_network(), is_new=False)),
    "TorchScript": _form(".pt", True, lambda: _written(lambda path: export_torchscript(path, small_network()))),
    "state of Lightning": _form(".ckpt", True, lambda: _saved(_of_lightning())),
}
"""Suffix, whether the file knows itself, and the bytes."""


# --- damage to bytes ---


def _cut(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _cut_start(content: bytes, rng: Random) -> bytes:
    return content[rng.randrange(1, len(content)) :]


def _flipped(count: int) -> Callable[[bytes, Random], bytes]:
    def flip(content: bytes, rng: Random) -> bytes:
        changed = bytearray(content)
        for place in rng.sample(range(len(changed)), count):
            changed[place] ^= 1 << rng.randrange(8)
        return bytes(changed)

    return flip


def _zeroed(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content))
    length = min(rng.choice([1, 8, 64, 512, len(content)]), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def _noisy(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content))
    length = min(rng.choice([2, 16, 128]), len(content) - start)
    return content[:start] + rng.randbytes(length) + content[start + length :]


def _missing(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.choice([1, 4, 64]) :]


def _inserted(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content))
    return content[:start] + rng.randbytes(rng.choice([1, 4, 64])) + content[start:]


def _swapped(content: bytes, rng: Random) -> bytes:
    size = rng.choice([4, 32, 256])
    blocks = [content[start : start + size] for start in range(0, len(content), size)]
    one, other = rng.sample(range(len(blocks)), 2)
    blocks[one], blocks[other] = blocks[other], blocks[one]
    return b"".join(blocks)


_DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "cut": _cut,
    "the last bytes cut": lambda content, rng: content[: -rng.randint(1, 32)],
    "cut near its start": lambda content, rng: content[: rng.randint(0, 80)],
    "its start missing": _cut_start,
    "one bit turned": _flipped(1),
    "two bits turned": _flipped(2),
    "eight bits turned": _flipped(8),
    "a bit of the start turned": lambda content, rng: _flipped(1)(content[:64], rng) + content[64:],
    "a bit of the end turned": lambda content, rng: content[:-64] + _flipped(1)(content[-64:], rng),
    "a part zeroed": _zeroed,
    "a part of noise": _noisy,
    "bytes missing": _missing,
    "bytes inserted": _inserted,
    "two blocks swapped": _swapped,
    "noise behind it": lambda content, rng: content + rng.randbytes(rng.choice([1, 100, 70_000])),
    "twice in one": lambda content, rng: content + content,
    "line ends changed": lambda content, rng: content.replace(b"\n", b"\r\n"),
    "as text": lambda content, rng: content.decode("utf-8", "replace").encode(),
}


# --- safetensors that say odd things ---


def _with_header(header: Any) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(64)


def _tensor(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64], **changes}}


_HEADERS: dict[str, Any] = {
    "no JSON": b"{",
    "a list": [],
    "a nest": b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH,
    "a nest of metadata": b'{"__metadata__":' + b"[" * _DEPTH + b"]" * _DEPTH + b"}",
    "metadata of numbers": {"__metadata__": {"a": 1}, **_tensor()},
    "no tensors": {},
    "no offsets": {"a": {"dtype": "F32", "shape": [16]}},
    "offsets behind the end": _tensor(data_offsets=[0, 6400]),
    "offsets the wrong way": _tensor(data_offsets=[64, 0]),
    "offsets below 0": _tensor(data_offsets=[-64, 0]),
    "a hole": _tensor(shape=[4], data_offsets=[16, 32]),
    "an unknown type": _tensor(dtype="F99"),
    "another type": _tensor(dtype="F16"),
    "a huge shape": _tensor(shape=[2**40, 2**40]),
    "a shape of fractions": _tensor(shape=[1.5, 2]),
    "a name twice": b'{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},'
    b'"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}}',
    "half a pair as name": b'{"\\ud800":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}}',
}


def _with_metadata(key: str, text: str) -> bytes:
    """Return a whole file of l5kit with its right checksum, and with odd metadata."""
    metadata = {"format": "pt", MODEL_KEY: "a.B", CONFIG_KEY: "{}", FACTS_KEY: "{}", key: text}
    return save(_weights(), {**metadata, CHECKSUM_KEY: checksum_of(_weights(), metadata)})


_METADATA = {
    f"{what} that is {name}": (key, text)
    for what, key in (("a configuration", CONFIG_KEY), ("facts", FACTS_KEY))
    for name, text in {
        "no JSON": "{",
        "a list": "[]",
        "a number": "3",
        "a number of 5000 digits": "9" * 5000,
        "a nest of lists": "[" * _DEPTH + "]" * _DEPTH,
        "a nest of objects": '{"a":' * _DEPTH + "1" + "}" * _DEPTH,
    }.items()
} | {"a key of l5kit that is unknown": ("l5kit_future", "1")}


# --- files of torch that hold odd things ---


class Vanished:
    """A class that cannot be found any more when a file names it."""


class Failing:
    """Raises when it is unpickled."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def _vanished() -> Any:
    Vanished.__qualname__ = Vanished.__name__ = "Vanished"
    return {"state_dict": _weights(), "hook": Vanished()}


def _in_itself() -> dict[str, Any]:
    content: dict[str, Any] = {}
    content["state_dict"] = content
    return content


def _nest(depth: int) -> Any:
    content: Any = _weights()
    for _ in range(depth):
        content = {"state_dict": content}
    return content


def _changed(change: Callable[[torch.Tensor], Any], name: str = "0.weight") -> dict[str, Any]:
    weights: dict[str, Any] = _weights()
    weights[name] = change(weights[name])
    return weights


def _quantized(value: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(value, 0.5, 0, torch.qint8)


_CONTENTS: dict[str, Callable[[], Any]] = {
    "a number": lambda: 3,
    "nothing": lambda: None,
    "a text": lambda: "weights",
    "a list of tensors": lambda: list(_weights().values()),
    "a tensor": lambda: torch.zeros(3),
    "no weights": dict,
    "numbers as names": lambda: dict(enumerate(_weights().values())),
    "numbers among the names": lambda: {**_weights(), 7: torch.zeros(1)},
    "tuples as names": lambda: {(name, 1): value for name, value in _weights().items()},
    "a dict in itself": _in_itself,
    "a nest of dicts": lambda: _nest(60),
    "arrays": lambda: {name: np.asarray(value) for name, value in _weights().items()},
    "lists": lambda: {name: value.tolist() for name, value in _weights().items()},
    "a weight that is nothing": lambda: _changed(lambda _: None),
    "a weight that is a dict": lambda: _changed(lambda value: {"value": value}),
    "a sparse weight": lambda: _changed(lambda value: value.to_sparse()),
    "a complex weight": lambda: _changed(lambda value: value.to(torch.complex64)),
    "a quantized weight": lambda: _changed(_quantized),
    "a weight without values": lambda: _changed(lambda value: value.to("meta")),
    "a weight of another shape": lambda: _changed(lambda value: value.T),
    "a name less": lambda: dict(list(_weights().items())[1:]),
    "a name more": lambda: {**_weights(), "9.weight": torch.zeros(2)},
    "other prefixes": lambda: {f"network.{name}": value for name, value in _weights().items()},
    "a failing object": lambda: {"state_dict": _weights(), "hook": Failing()},
    "an object of a class": _vanished,
    "a part of a module": lambda: {"model": small_network()[0]},
    "an optimizer": lambda: torch.optim.Adam(small_network().parameters()).state_dict(),
}


# --- zip archives that were written again, with right checksums ---


def _rewritten(content: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return file.getvalue()


def _part(parts: dict[str, bytes], end: str) -> str:
    return next(name for name in parts if name.endswith(end))


def _removing(end: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.pop(_part(parts, end)) and None


def _replacing(end: str, change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.update({_part(parts, end): change(parts[_part(parts, end)])})


_ARCHIVES: dict[str, Callable[[dict[str, bytes]], None]] = {
    "without its pickle": _removing("data.pkl"),
    "without a tensor": _removing("data/0"),
    "without its version": _removing("/version"),
    "without anything": lambda parts: parts.clear(),
    "an empty tensor": _replacing("data/0", lambda part: b""),
    "half a tensor": _replacing("data/0", lambda part: part[: len(part) // 2]),
    "half a pickle": _replacing("data.pkl", lambda part: part[: len(part) // 2]),
    "an empty pickle": _replacing("data.pkl", lambda part: b""),
    "a pickle of noise": _replacing("data.pkl", lambda part: bytes(range(256))),
    "an odd order of bytes": _replacing("byteorder", lambda part: b"middle"),
    "an odd version": _replacing("/version", lambda part: b"three"),
    "a version of the future": _replacing("/version", lambda part: b"9999"),
    "all in another folder": lambda parts: _rename(parts, lambda name: f"other/{name}"),
    "all without a folder": lambda parts: _rename(parts, lambda name: name.rpartition("/")[2]),
}


def _rename(parts: dict[str, bytes], change: Callable[[str], str]) -> None:
    renamed = {change(name): part for name, part in parts.items()}
    parts.clear()
    parts.update(renamed)


_TEXTS = {
    "nothing": b"",
    "a byte": b"\x80",
    "zeros": bytes(5000),
    "a page": b"<!DOCTYPE html><html><body>404</body></html>",
    "a pointer of git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "a text": b"weights: none\n" * 20,
    "JSON": b'{"a": [1, 2, 3]}',
}
