"""Damage to ``meta.json`` and to a YAML configuration."""

import json
from typing import Any

import numpy as np
import yaml

from attack.target import Kinds, Target, cut, flip_bits

META = Kinds("meta.json")
YAML = Kinds("YAML")
_DEPTH = 50_000
_MATRICES = ("world_to_ecef", "ecef_to_aerial")


def _write_meta(target: Target, name: str, value: Any) -> None:
    file = target.root / "meta.json"
    meta = json.loads(file.read_text())
    meta[name] = value
    file.write_text(json.dumps(meta))


def _matrix(target: Target, name: str) -> np.ndarray:
    return np.array(json.loads((target.root / "meta.json").read_text())[name])


@META("odd matrix", weight=4)
def odd_matrix(target: Target) -> str:
    name = str(target.pick(_MATRICES))
    matrix = _matrix(target, name)
    kinds: dict[str, Any] = {
        "of three rows": matrix[:3].tolist(),
        "of three columns": matrix[:, :3].tolist(),
        "flat": matrix.reshape(-1).tolist(),
        "ragged": [*matrix[:3].tolist(), [1.0]],
        "of texts": [[str(value) for value in row] for row in matrix],
        "of words": [["one"] * 4] * 4,
        "null": None,
        "empty": [],
        "a number": 5,
        "a text": "4x4",
        "a list of nulls": [[None] * 4] * 4,
        "of booleans": [[True, False, False, False]] * 4,
        "one level too deep": [matrix.tolist()],
        "of huge integers": [[10**400] * 4] * 4,
        "an object": {"0": matrix.tolist()},
        "huge": np.full((4, 4), 1e308).tolist(),
        "tiny": np.full((4, 4), 1e-308).tolist(),
    }
    kind = str(target.pick(kinds))
    _write_meta(target, name, kinds[kind])
    return f"{name} of meta.json is {kind}"


@META("not finite", weight=3)
def not_finite(target: Target) -> str:
    name, value = str(target.pick(_MATRICES)), float(target.pick([np.nan, np.inf, -np.inf]))
    matrix = _matrix(target, name)
    matrix[target.integer(0, 3), target.integer(0, 3)] = value
    _write_meta(target, name, matrix.tolist())
    return f"{name} of meta.json has an entry {value}"


@META("singular", weight=3)
def singular(target: Target) -> str:
    name = str(target.pick(_MATRICES))
    matrix, kind = (
        _matrix(target, name),
        str(target.pick(["zeros", "two rows alike", "a column of zeros", "no last row"])),
    )
    if kind == "zeros":
        matrix[:] = 0
    elif kind == "two rows alike":
        matrix[0] = matrix[1]
    elif kind == "a column of zeros":
        matrix[:, target.integer(0, 2)] = 0
    else:
        matrix[3] = 0
    _write_meta(target, name, matrix.tolist())
    return f"{name} of meta.json is singular: {kind}"


@META("scale", weight=4)
def scale(target: Target) -> str:
    factor = float(target.pick([50, 1 / 50, 1000, 1e-3, 1e6, 1e-6, 5, -1]))
    matrix = _matrix(target, "ecef_to_aerial")
    matrix[:2] *= factor
    _write_meta(target, "ecef_to_aerial", matrix.tolist())
    return f"ecef_to_aerial of meta.json is scaled by {factor:g}"


@META("world scale", weight=2)
def world_scale(target: Target) -> str:
    factor = float(target.pick([50, 1 / 50, 1e6, 1e-6, -1]))
    matrix = _matrix(target, "world_to_ecef")
    matrix[:3, :3] *= factor
    _write_meta(target, "world_to_ecef", matrix.tolist())
    return f"the rotation of world_to_ecef of meta.json is scaled by {factor:g}"


@META("shift", weight=2)
def shift(target: Target) -> str:
    name, by = str(target.pick(_MATRICES)), float(target.pick([1.0, 1e5, -1e9, 1e18]))
    matrix = _matrix(target, name)
    matrix[:2, 3] += by
    _write_meta(target, name, matrix.tolist())
    return f"{name} of meta.json is shifted by {by:g}"


@META("key missing", weight=2)
def key_missing(target: Target) -> str:
    name, file = str(target.pick(_MATRICES)), target.root / "meta.json"
    meta = json.loads(file.read_text())
    del meta[name]
    file.write_text(json.dumps(meta))
    return f"meta.json has no {name}"


@META("odd text", weight=4)
def odd_text(target: Target) -> str:
    file = target.root / "meta.json"
    text = file.read_text()
    kinds: dict[str, bytes] = {
        "nothing": b"",
        "a list": b"[]",
        "null": b"null",
        "a nest of lists": b"[" * _DEPTH,
        "a closed nest of lists": b"[" * _DEPTH + b"]" * _DEPTH,
        "a nest behind the matrices": text.encode()[:-1] + b', "x": ' + b"[" * _DEPTH + b"]" * _DEPTH + b"}",
        "UTF-16": text.encode("utf-16"),
        "a byte order mark first": b"\xef\xbb\xbf" + text.encode(),
        "not UTF-8": text.encode() + b"\xff",
        "zeros": bytes(500),
        "HTML": b"<html>404</html>",
        "a number of 5000 digits": text.encode()[:-1] + b', "x": ' + b"9" * 5000 + b"}",
        "half of a pair": text.encode()[:-1] + b', "\\ud800": 1}',
    }
    kind = str(target.pick(kinds))
    file.write_bytes(kinds[kind])
    return f"meta.json holds {kind}"


@META("truncated", weight=2)
def truncated(target: Target) -> str:
    file = target.root / "meta.json"
    content = cut(file.read_bytes(), target.rng)
    file.write_bytes(content)
    return f"meta.json is cut to {len(content)} bytes"


@META("flipped bits", weight=3)
def flipped_bits(target: Target) -> str:
    file, count = target.root / "meta.json", int(target.pick([1, 2, 8]))
    file.write_bytes(flip_bits(file.read_bytes(), target.rng, count))
    return f"{count} bits of meta.json are turned"


@META("is a folder")
def is_a_folder(target: Target) -> str:
    file = target.root / "meta.json"
    file.unlink()
    file.mkdir()
    return "meta.json is a folder"


_ODD_VALUES: tuple[Any, ...] = (
    None,
    "text",
    "",
    -1,
    0,
    1,
    0.5,
    2.5,
    10**7,
    10**12,
    2**63,
    10**30,
    1e300,
    float("nan"),
    float("inf"),
    True,
    [],
    [1],
    [0, 0],
    [-5, 5],
    [32, 24, 3],
    [10**6, 10**6],
    [10**5, 10],
    [2**40, 2**40],
    [float("nan"), 1.0],
    [1e-300, 1e-300],
    [1e300, 1e300],
    ["32", "24"],
    [[32], [24]],
    {"a": 1},
    "../../etc/passwd",
    "a\0b",
)


@YAML("odd value", weight=10)
def odd_value(target: Target) -> str:
    file = target.root / "config.yaml"
    cfg = yaml.safe_load(file.read_text())
    section = str(target.pick(["model_params", "raster_params"]))
    key, value = str(target.pick(sorted(cfg[section]))), target.pick(_ODD_VALUES)
    cfg[section][key] = value
    file.write_text(yaml.safe_dump(cfg))
    return f"{section}.{key} of the configuration is {value!r}"


@YAML("key missing", weight=3)
def yaml_key_missing(target: Target) -> str:
    file = target.root / "config.yaml"
    cfg = yaml.safe_load(file.read_text())
    section = str(target.pick(["model_params", "raster_params"]))
    key = str(target.pick(sorted(cfg[section])))
    del cfg[section][key]
    file.write_text(yaml.safe_dump(cfg))
    return f"the configuration has no {section}.{key}"


@YAML("odd text", weight=6)
def yaml_odd_text(target: Target) -> str:
    file = target.root / "config.yaml"
    text = file.read_text()
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    kinds: dict[str, bytes] = {
        "nothing": b"",
        "a list": b"- 1\n- 2\n",
        "a text": b"hello",
        "not UTF-8": text.encode() + b"\nx: \xff\xfe\n",
        "Latin-1": text.encode() + "\nname: caf\xe9\n".encode("latin-1"),
        "UTF-16": text.encode("utf-16"),
        "a byte order mark first": b"\xef\xbb\xbf" + text.encode(),
        "tabs": text.replace("  ", "\t").encode(),
        "a nest of lists": b"x: " + b"[" * 5000 + b"]" * 5000,
        "an open nest of lists": b"x: " + b"[" * 5000,
        "a nest of mappings": b"x: " + b"{a: " * 3000 + b"1" + b"}" * 3000,
        "aliases of aliases": (text + "\n" + bomb).encode(),
        "an alias of itself": (text + "\nx: &x [*x]\n").encode(),
        "a section of itself": b"model_params: &m\n  future_num_frames: *m\nraster_params: *m\n",
        "a Python object": (text + "\nx: !!python/object/apply:os.getcwd []\n").encode(),
        "an unknown tag": (text + "\nx: !what 5\n").encode(),
        "a key twice": (text + "\nmodel_params:\n  step_time: 5\n").encode(),
        "a list as key": (text + "\n? [a, b]\n: 5\n").encode(),
        "a mapping as key": (text + "\n? {a: b}\n: 5\n").encode(),
        "two documents": (text + "\n---\nx: 1\n").encode(),
        "zeros": bytes(300),
        "control characters": text.encode() + b"\nx: \x01\x02\n",
        "a date that is none": (text + "\nx: 2020-99-99\n").encode(),
        "a number of 5000 digits": (text + "\nx: " + "9" * 5000 + "\n").encode(),
        "a section that is a list": b"model_params: [1, 2]\nraster_params: []\n",
        "a section that is null": b"model_params:\nraster_params:\n",
        "an int with underscores": (text + "\nx: 1__0\ny: 0x\nz: 0b\nw: 190:20:30\n").encode(),
        "merge keys": (text + "\nx:\n  <<: [1, 2]\n").encode(),
    }
    kind = str(target.pick(kinds))
    file.write_bytes(kinds[kind])
    return f"the configuration holds {kind}"


@YAML("flipped bits", weight=3)
def yaml_flipped_bits(target: Target) -> str:
    file, count = target.root / "config.yaml", int(target.pick([1, 2, 8]))
    file.write_bytes(flip_bits(file.read_bytes(), target.rng, count))
    return f"{count} bits of the configuration are turned"


@YAML("truncated", weight=2)
def yaml_truncated(target: Target) -> str:
    file = target.root / "config.yaml"
    content = cut(file.read_bytes(), target.rng)
    file.write_bytes(content)
    return f"the configuration is cut to {len(content)} bytes"
