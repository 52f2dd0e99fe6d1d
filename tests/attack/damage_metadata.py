"""Damage to ``.zarray``, ``.zattrs`` and ``.zgroup``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.target import Kinds, Target, cut, flip_bits

METADATA = Kinds("metadata")
_DEPTH = 100_000


def _edit(target: Target, change: Callable[[dict[str, Any]], str], *, key: str | None = None) -> str:
    """Change the ``.zarray`` of an array as JSON."""
    key = key or str(target.pick(target.array_keys))
    file = target.log / key / ".zarray"
    metadata = json.loads(file.read_text())
    said = change(metadata)
    file.write_text(json.dumps(metadata))
    return f"{key}/.zarray: {said}"


def _set(target: Target, name: str, values: list[Any]) -> str:
    """Give one entry of a ``.zarray`` one of some values."""
    value = target.pick(values)

    def change(metadata: dict[str, Any]) -> str:
        metadata[name] = value
        return f"{name} is {json.dumps(value)[:80]}"

    return _edit(target, change)


@METADATA("shape shorter", weight=3)
def shape_shorter(target: Target) -> str:
    key = target.key()
    length = target.array(key).length
    shape = int(target.pick([0, 1, length - 1, length // 2, max(0, length - 7)]))
    return _edit(target, lambda metadata: f"shape is [{metadata['shape'].__setitem__(0, shape) or shape}]", key=key)


@METADATA("shape longer", weight=3)
def shape_longer(target: Target) -> str:
    key = target.key()
    length = target.array(key).length
    shape = length + int(target.pick([1, 2, 10, 1000]))
    return _edit(target, lambda metadata: f"shape is [{metadata['shape'].__setitem__(0, shape) or shape}]", key=key)


@METADATA("shape of millions", weight=2)
def shape_of_millions(target: Target) -> str:
    return _set(target, "shape", [[10**6], [10**7], [10**9]])


@METADATA("shape huge", weight=3)
def shape_huge(target: Target) -> str:
    sizes = [10**7, 10**9, 10**12, 10**15, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30]
    return _set(target, "shape", [[size] for size in sizes])


@METADATA("shape odd", weight=2)
def shape_odd(target: Target) -> str:
    odd = [[-1], [5, 5], [], [3.5], ["44"], None, 44, "44", [None], [[44]], [True], {"0": 44}, [44, 0], [float("nan")]]
    return _set(target, "shape", odd)


@METADATA("chunks", weight=3)
def chunks(target: Target) -> str:
    sizes = [0, 1, 2, 3, 6, 8, 100, 10**6, 10**9, 10**12, 2**31, 2**63 - 1, 2**63, 2**64, -1]
    odd = [[], None, 7, "7", [7.5], ["7"], [7, 7], [None], [True]]
    return _set(target, "chunks", [[size] for size in sizes] + odd)


@METADATA("dtype of a field", weight=5)
def dtype_of_a_field(target: Target) -> str:
    def change(metadata: dict[str, Any]) -> str:
        index = target.integer(0, len(metadata["dtype"]) - 1)
        old = list(metadata["dtype"][index])
        name = str(
            target.pick(
                ["big endian", "narrower", "wider", "other kind", "other shape", "object", "no type", "odd shape"]
            )
        )
        new = list(old)
        if name == "big endian":
            new[1] = ">" + old[1][1:]
        elif name == "narrower":
            new[1] = {"<i8": "<i4", "<f8": "<f4", "<f4": "<f2", "<u8": "<i4", "<U16": "<U8"}[old[1]]
        elif name == "wider":
            new[1] = {"<i8": "<i8", "<f8": "<f16", "<f4": "<f8", "<u8": "<u8", "<U16": "<U32"}[old[1]]
        elif name == "other kind":
            new[1] = {"<i8": "<f8", "<f8": "<i8", "<f4": "<i4", "<u8": "<f8", "<U16": "|S64"}[old[1]]
        elif name == "other shape":
            new = [*old[:2], target.pick([[1], [2, 2], [10**6], [0], [3, 3, 3]])]
        elif name == "odd shape":
            new = [*old[:2], target.pick([[-1], "x", [2.5], [2**63], None, [None]])]
        else:
            new[1] = (
                "|O" if name == "object" else target.pick(["<q99", "", None, "float", "<U99999999999", "<M8[ns]", 5])
            )
        metadata["dtype"][index] = new
        return f"field {old} is {new}"

    return _edit(target, change)


@METADATA("dtype of all fields", weight=3)
def dtype_of_all_fields(target: Target) -> str:
    def change(metadata: dict[str, Any]) -> str:
        fields = metadata["dtype"]
        name = str(
            target.pick(["big endian", "one missing", "one more", "renamed", "turned round", "twice", "none", "odd"])
        )
        index = target.integer(0, len(fields) - 1)
        if name == "big endian":
            metadata["dtype"] = [[field[0], ">" + field[1][1:], *field[2:]] for field in fields]
        elif name == "one missing":
            del fields[index]
        elif name == "one more":
            fields.insert(index, ["more", "<i8"])
        elif name == "renamed":
            fields[index][0] += "_"
        elif name == "turned round":
            fields.reverse()
        elif name == "twice":
            fields.append(fields[index])
        elif name == "none":
            metadata["dtype"] = []
        else:
            odd = [
                "<f8",
                "|V116",
                None,
                5,
                {"a": 1},
                [["x"]],
                [[]],
                [[["a", "b"], "<i8"]],
                "|O",
                [["", "<i8"]],
                [[5, "<i8"]],
            ]
            metadata["dtype"] = target.pick(odd)
        return f"the record type is {name}: {json.dumps(metadata['dtype'])[:120]}"

    return _edit(target, change)


@METADATA("compressor", weight=3)
def compressor(target: Target) -> str:
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    odd: list[Any] = [
        None,
        "blosc",
        5,
        {},
        {"id": None},
        {"id": "zlib", "level": 1},
        {"id": "unknown"},
        {"id": "pickle"},
    ]
    odd += [[blosc], blosc | {"cname": "what"}, blosc | {"clevel": 99}, blosc | {"more": 1}, blosc | {"shuffle": 99}]
    odd += [
        blosc | {"cname": "zstd"},
        blosc | {"blocksize": -5},
        blosc | {"blocksize": 2**63},
        {"id": "lz4"},
        {"id": "gzip"},
    ]
    return _set(target, "compressor", odd)


@METADATA("filters", weight=2)
def filters(target: Target) -> str:
    odd = [
        [],
        [{"id": "delta", "dtype": "|u1"}],
        [{"id": "unknown"}],
        "x",
        [None],
        [{"id": "zlib"}],
        [[]],
        {"id": "zlib"},
    ]
    return _set(target, "filters", odd)


@METADATA("fill value", weight=2)
def fill_value(target: Target) -> str:
    odd = [None, 0, 1, "", "AAAA", "not base64!", [0], {}, "NaN", float("nan"), "A" * 4000, True]
    return _set(target, "fill_value", odd)


@METADATA("other entries", weight=3)
def other_entries(target: Target) -> str:
    name = str(target.pick(["order", "zarr_format", "dimension_separator", "node_type", "attributes"]))
    odd = {
        "order": ["F", "X", None, 5, ["C"]],
        "zarr_format": [1, 3, "2", None, 2.0, -1, [2]],
        "dimension_separator": ["/", ".", "", None, "..", 5],
        "node_type": ["array", "group"],
        "attributes": [{}, 5, {"a": 1}],
    }[name]
    return _set(target, name, odd)


@METADATA("entry missing", weight=2)
def entry_missing(target: Target) -> str:
    def change(metadata: dict[str, Any]) -> str:
        name = str(target.pick(metadata))
        del metadata[name]
        return f"{name} is missing"

    return _edit(target, change)


def _files(target: Target) -> list[Path]:
    return [
        target.log / ".zgroup",
        target.log / ".zattrs",
        *(target.log / key / ".zarray" for key in target.array_keys),
    ]


def _name(target: Target, file: Path) -> str:
    return str(file.relative_to(target.log))


_ODD_TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "a text": b'"zarr"',
    "not JSON": b"{not json",
    "not UTF-8": b'{"zarr_format": "\xff\xfe"}',
    "UTF-16": '{"zarr_format": 2}'.encode("utf-16"),
    "behind a byte order mark": b'\xef\xbb\xbf{"zarr_format": 2}',
    "a nest of lists": b"[" * _DEPTH,
    "a closed nest of lists": b"[" * _DEPTH + b"]" * _DEPTH,
    "a nest of objects": b'{"a":' * _DEPTH,
    "a number of 5000 digits": b'{"zarr_format": ' + b"9" * 5000 + b"}",
    "an empty object": b"{}",
    "zeros": bytes(300),
    "HTML": b"<html><body>404 Not Found</body></html>",
    "half of a pair": b'{"zarr_format": 2, "\\ud800": 1}',
}


@METADATA("odd text", weight=5)
def odd_text(target: Target) -> str:
    file, name = target.pick(_files(target)), str(target.pick(_ODD_TEXTS))
    file.write_bytes(_ODD_TEXTS[name])
    return f"{_name(target, file)} holds {name}"


@METADATA("nested entry", weight=2)
def nested_entry(target: Target) -> str:
    file = target.pick(_files(target)[1:])
    text = file.read_text().rstrip()
    nest = "[" * _DEPTH + "]" * _DEPTH
    file.write_text(f'{text[:-1].rstrip()}, "nest": {nest}}}')
    return f"{_name(target, file)} has an entry of {_DEPTH} lists within each other"


@METADATA("truncated", weight=2)
def truncated(target: Target) -> str:
    file = target.pick(_files(target))
    content = cut(file.read_bytes(), target.rng)
    file.write_bytes(content)
    return f"{_name(target, file)} is cut to {len(content)} bytes"


@METADATA("flipped bits", weight=3)
def flipped_bits(target: Target) -> str:
    file, count = target.pick(_files(target)), int(target.pick([1, 1, 2, 8]))
    file.write_bytes(flip_bits(file.read_bytes(), target.rng, count))
    return f"{count} bits of {_name(target, file)} are turned: {file.read_bytes()[:60]!r}"


@METADATA("file missing", weight=2)
def file_missing(target: Target) -> str:
    file = target.pick(_files(target))
    file.unlink()
    return f"{_name(target, file)} is missing"


@METADATA("file is a folder")
def file_is_a_folder(target: Target) -> str:
    file = target.pick(_files(target))
    file.unlink()
    file.mkdir()
    return f"{_name(target, file)} is a folder"


@METADATA("array is a file")
def array_is_a_file(target: Target) -> str:
    key = target.pick(target.array_keys)
    folder = target.log / key
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_bytes(b"")
    return f"{key} is a file"


@METADATA("attributes", weight=2)
def attributes(target: Target) -> str:
    value = target.pick(
        [
            {"format_version": 3},
            {"format_version": None, "labels": None},
            {"format_version": [2]},
            {"format_version": "2", "labels": "CAR"},
            {"labels": []},
            {"labels": [[["CAR"]]]},
            {"format_version": 2, "labels": {"a": 1}},
            {"format_version": float("nan")},
            {"format_version": 10**400},
        ]
    )
    (target.log / ".zattrs").write_text(json.dumps(value))
    return f".zattrs is {json.dumps(value)[:80]}"


@METADATA("metadata of zarr 3")
def metadata_of_zarr_3(target: Target) -> str:
    place = target.pick(["", *target.array_keys])
    node = {"zarr_format": 3, "node_type": str(target.pick(["group", "array"])), "attributes": {}}
    (target.log / place / "zarr.json").write_text(json.dumps(node))
    return f"{place or 'the log'} has a zarr.json of a {node['node_type']} as well"


@METADATA("consolidated metadata")
def consolidated_metadata(target: Target) -> str:
    content = target.pick([b"{}", b"[", b'{"zarr_consolidated_format": 1, "metadata": {}}', b"\xff"])
    (target.log / ".zmetadata").write_bytes(content)
    return f".zmetadata holds {content!r}"


@METADATA("array within an array")
def array_within_an_array(target: Target) -> str:
    key = target.pick(target.array_keys)
    file = target.log / key / ".zarray"
    text = file.read_text()
    file.unlink()
    (target.log / key / ".zgroup").write_text('{"zarr_format": 2}')
    (target.log / key / "inner").mkdir()
    (target.log / key / "inner" / ".zarray").write_text(text)
    return f"{key} is a group with an array in it"


@METADATA("stored mask", weight=2)
def stored_mask(target: Target) -> str:
    """Put an agents mask inside the log that is damaged itself."""
    folder = target.log / "agents_mask"
    (folder / "0.5").mkdir(parents=True)
    (folder / ".zgroup").write_text(str(target.pick(['{"zarr_format": 2}', "{", '{"zarr_format": 3}', "[]"])))
    length = target.array("agents").length
    metadata: dict[str, Any] = {
        "chunks": [10000, 2],
        "compressor": None,
        "dtype": "<u4",
        "fill_value": 0,
        "filters": None,
        "order": "C",
        "shape": [length, 2],
        "zarr_format": 2,
    }
    name, value = target.pick(
        [
            ("shape", [length]),
            ("shape", [length + 1, 2]),
            ("shape", [10**12, 2]),
            ("shape", [2**63, 2]),
            ("dtype", "<f8"),
            ("dtype", "|O"),
            ("dtype", ">u4"),
            ("compressor", {"id": "unknown"}),
            ("chunks", [0, 2]),
            ("chunks", [1, 2]),
            ("order", "X"),
            ("zarr_format", 3),
        ]
    )
    metadata[name] = value
    (folder / "0.5" / ".zarray").write_text(json.dumps(metadata))
    (folder / "0.5" / "0.0").write_bytes(target.rng.bytes(int(target.pick([0, 5, 80_000]))))
    return f"agents_mask/0.5 is there with {name} {json.dumps(value)}"
