"""Damage to the semantic map and to the aerial picture."""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image

from attack.target import Kinds, Target, cut, flip_bits
from l5kit.data.proto.road_network_pb2 import MapFragment

MAP = Kinds("map")
PICTURE = Kinds("picture")


def _edit_map(target: Target, change: Callable[[Any], str]) -> str:
    """Change the map as a message."""
    file, fragment = target.root / "semantic_map" / "semantic_map.pb", MapFragment()
    fragment.ParseFromString(file.read_bytes())
    said = change(fragment)
    file.write_bytes(fragment.SerializeToString(deterministic=True))
    return said


def _edit_map_bytes(target: Target, change: Callable[[bytes], bytes]) -> None:
    file = target.root / "semantic_map" / "semantic_map.pb"
    file.write_bytes(change(file.read_bytes()))


def _lane(target: Target, fragment: Any) -> tuple[str, Any]:
    lanes = [element for element in fragment.elements if element.element.HasField("lane")]
    chosen = target.pick(lanes)
    return chosen.id.id.decode(), chosen.element.lane


@MAP("truncated", weight=4)
def map_truncated(target: Target) -> str:
    file = target.root / "semantic_map" / "semantic_map.pb"
    size = file.stat().st_size
    _edit_map_bytes(target, lambda content: cut(content, target.rng))
    return f"the map is cut from {size} to {file.stat().st_size} bytes"


@MAP("flipped bits", weight=8)
def map_flipped_bits(target: Target) -> str:
    count = int(target.pick([1, 1, 2, 8, 64]))
    _edit_map_bytes(target, lambda content: flip_bits(content, target.rng, count))
    return f"{count} bits of the map are turned"


@MAP("random bytes", weight=4)
def map_random_bytes(target: Target) -> str:
    length = target.integer(1, 12)

    def change(content: bytes) -> bytes:
        start = target.integer(0, len(content) - length)
        return content[:start] + target.rng.bytes(length) + content[start + length :]

    _edit_map_bytes(target, change)
    return f"{length} bytes of the map are random ones"


@MAP("bytes inserted", weight=3)
def map_bytes_inserted(target: Target) -> str:
    inserted = target.pick(
        [b"\xff" * 10, b"\x80" * 20, b"\0", b"\x12\x00", b"\x0b", b"\x0c", b"\x7a\xff\xff\xff\xff\x0f"]
    )

    def change(content: bytes) -> bytes:
        start = target.integer(0, len(content))
        return content[:start] + inserted + content[start:]

    _edit_map_bytes(target, change)
    return f"{inserted!r} is inserted into the map"


@MAP("unknown fields", weight=3)
def map_unknown_fields(target: Target) -> str:
    more = target.pick(
        [
            b"\xf8\x3f\x05",  # a varint
            b"\xfa\x3f\x03abc",  # bytes
            b"\xf9\x3f" + bytes(8),
            b"\xfd\x3f" + bytes(4),
            b"\xfb\x3f\xfc\x3f",  # an empty group
            b"\xfb\x3f" * 50 + b"\xfc\x3f" * 50,
            b"\xfb\x3f" * 5000 + b"\xfc\x3f" * 5000,
            b"\xfb\x3f",  # a group that does not end
            b"\xfe\x3f",  # a wire type that does not exist
        ]
    )
    _edit_map_bytes(target, lambda content: content + more)
    return f"the map ends with {more[:12]!r}, {len(more)} bytes"


@MAP("no map", weight=2)
def map_no_map(target: Target) -> str:
    content = target.pick(
        [b"", bytes(100), b'{"elements": []}', b"\x0a\xff\xff\xff\xff\x07", b"\xff" * 100, b"\x89PNG\r\n"]
    )
    _edit_map_bytes(target, lambda _: content)
    return f"the map holds {content[:20]!r}"


@MAP("twice")
def map_twice(target: Target) -> str:
    _edit_map_bytes(target, lambda content: content + content)
    return "the map holds its bytes twice"


@MAP("references", weight=4)
def map_references(target: Target) -> str:
    def change(fragment: Any) -> str:
        name, lane = _lane(target, fragment)
        kind = str(target.pick(["missing", "cyclic", "to itself", "empty", "to a light", "many"]))
        ids = {
            "missing": [b"nowhere"],
            "cyclic": [b"L0", b"L1", b"L2"],
            "to itself": [name.encode()],
            "empty": [b""],
            "to a light": [b"T0", b"red"],
            "many": [b"L0"] * 5000,
        }[kind]
        field = str(target.pick(["lanes_ahead", "yield_to_lanes", "traffic_controls"]))
        del getattr(lane, field)[:]
        for identifier in ids:
            getattr(lane, field).add(id=identifier)
        for single in ("adjacent_lane_change_left", "adjacent_lane_change_right", "parent_segment_or_junction"):
            getattr(lane, single).id = ids[0]
        return f"the references of lane {name}, {field} too, are {kind}"

    return _edit_map(target, change)


@MAP("coordinates", weight=6)
def map_coordinates(target: Target) -> str:
    def change(fragment: Any) -> str:
        name, lane = _lane(target, fragment)
        boundary = target.pick([lane.left_boundary, lane.right_boundary])
        kind = str(
            target.pick(
                ["huge deltas", "one huge delta", "zeros", "one point", "none", "ragged", "20,000 km", "1e6 points"]
            )
        )
        deltas = [getattr(boundary, f"vertex_deltas_{axis}_cm") for axis in "xyz"]
        if kind == "huge deltas":
            for values in deltas:
                values[:] = [int(target.pick([2**31 - 1, -(2**31)]))] * len(values)
        elif kind == "one huge delta":
            deltas[target.integer(0, 2)][0] = int(target.pick([2**31 - 1, -(2**31)]))
        elif kind == "zeros":
            for values in deltas:
                values[:] = [0] * len(values)
        elif kind in ("one point", "none"):
            for values in deltas:
                values[:] = [0] * (1 if kind == "one point" else 0)
        elif kind == "ragged":
            deltas[target.integer(0, 2)].append(5)
        elif kind == "20,000 km":
            deltas[0][:], deltas[1][:], deltas[2][:] = [2**31 - 1, -(2**31)] * 47, [0] * 94, [0] * 94
            deltas[0][:] = [2**31 - 1] * 94
        else:
            for values, step in zip(deltas, (1, 0, 0), strict=True):
                values[:] = [step] * 1_000_000
        return f"a boundary of lane {name} has {kind}"

    return _edit_map(target, change)


@MAP("frames", weight=3)
def map_frames(target: Target) -> str:
    def change(fragment: Any) -> str:
        name, lane = _lane(target, fragment)
        frame = lane.geo_frame
        kind = str(target.pick(["latitude", "longitude", "altitude", "bearing", "none", "the poles"]))
        value = int(target.pick([2**31 - 1, -(2**31), 10**9, 900_000_000]))
        if kind == "latitude":
            frame.origin.lat_e7 = value
        elif kind == "longitude":
            frame.origin.lng_e7 = value
        elif kind == "altitude":
            frame.origin.altitude_cm = value
        elif kind == "bearing":
            frame.bearing_degrees = float(target.pick([np.nan, np.inf, 1e30, 90.0]))
        elif kind == "none":
            lane.ClearField("geo_frame")
        else:
            frame.origin.lat_e7, frame.origin.lng_e7 = 900_000_000, 0
        return f"the frame of lane {name}: {kind} {value}"

    return _edit_map(target, change)


@MAP("ids", weight=4)
def map_ids(target: Target) -> str:
    def change(fragment: Any) -> str:
        element = target.pick(fragment.elements)
        old = element.id.id
        element.id.id = target.pick(
            [b"", b"\xff\xfe", b"L0", b"T0", b"red", b"x" * 100_000, b"a\0b", "\u4e2d".encode()]
        )
        return f"the id {old!r} is {element.id.id[:20]!r}"

    return _edit_map(target, change)


@MAP("elements", weight=2)
def map_elements(target: Target) -> str:
    def change(fragment: Any) -> str:
        kind = str(target.pick(["all gone", "10,000 copies", "without content", "turned round", "one gone"]))
        elements = list(fragment.elements)
        if kind == "all gone":
            del fragment.elements[:]
        elif kind == "10,000 copies":
            fragment.elements.extend([elements[0]] * 10_000)
        elif kind == "without content":
            target.pick(fragment.elements).ClearField("element")
        elif kind == "one gone":
            del fragment.elements[target.integer(0, len(elements) - 1)]
        else:
            copies = [type(element).FromString(element.SerializeToString()) for element in reversed(elements)]
            del fragment.elements[:]
            fragment.elements.extend(copies)
        return f"the elements of the map are {kind}"

    return _edit_map(target, change)


def _picture(target: Target) -> Any:
    return target.root / "aerial_map" / "aerial_map.png"


def _with_header(content: bytes, **fields: int) -> bytes:
    """Return a PNG with other entries in its header, whose checksum is right."""
    names = ("width", "height", "depth", "color", "compression", "filter", "interlace")
    values = dict(zip(names, struct.unpack(">IIBBBBB", content[16:29]), strict=True)) | fields
    header = b"IHDR" + struct.pack(">IIBBBBB", *values.values())
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


@PICTURE("truncated", weight=4)
def picture_truncated(target: Target) -> str:
    content = _picture(target).read_bytes()
    kept = cut(content, target.rng)
    _picture(target).write_bytes(kept)
    return f"the aerial picture is cut from {len(content)} to {len(kept)} bytes"


@PICTURE("flipped bits", weight=4)
def picture_flipped_bits(target: Target) -> str:
    count = int(target.pick([1, 1, 8, 64]))
    _picture(target).write_bytes(flip_bits(_picture(target).read_bytes(), target.rng, count))
    return f"{count} bits of the aerial picture are turned"


@PICTURE("size in the header", weight=5)
def picture_size(target: Target) -> str:
    sizes = [0, 1, 319, 321, 32_767, 65_535, 10**6, 2**30, 2**31 - 1, 2**31, 2**32 - 1]
    fields = {name: int(target.pick(sizes)) for name in ("width", "height") if target.rng.random() < 0.7}
    fields = fields or {"width": 10**6}
    _picture(target).write_bytes(_with_header(_picture(target).read_bytes(), **fields))
    return f"the header of the aerial picture says {fields}"


@PICTURE("header", weight=3)
def picture_header(target: Target) -> str:
    field = str(target.pick(["depth", "color", "compression", "filter", "interlace"]))
    value = int(target.pick([0, 1, 2, 3, 4, 6, 16, 255]))
    _picture(target).write_bytes(_with_header(_picture(target).read_bytes(), **{field: value}))
    return f"the header of the aerial picture says {field} {value}"


@PICTURE("other colours", weight=4)
def picture_colours(target: Target) -> str:
    picture = cv2.imread(str(_picture(target)))
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    alpha = np.dstack([picture, np.full(grey.shape, 255, np.uint8)])
    kinds: dict[str, np.ndarray] = {
        "16 bit": picture.astype(np.uint16) * 257,
        "grey": grey,
        "16 bit grey": grey.astype(np.uint16) * 257,
        "with alpha": alpha,
        "with an alpha of zero": np.dstack([picture, np.zeros(grey.shape, np.uint8)]),
        "16 bit with alpha": alpha.astype(np.uint16) * 257,
        "one pixel": picture[:1, :1],
        "one row": picture[:1],
    }
    kind = str(target.pick([*kinds, "palette", "black and white", "grey with alpha", "interlaced"]))
    if kind in kinds:
        cv2.imwrite(str(_picture(target)), kinds[kind])
    else:
        mode = {"palette": "P", "black and white": "1", "grey with alpha": "LA"}.get(kind)
        rgb = Image.fromarray(picture[:, :, ::-1].copy())
        (rgb.convert(mode) if mode else rgb).save(_picture(target))
    return f"the aerial picture is {kind}"


@PICTURE("other format", weight=3)
def picture_format(target: Target) -> str:
    picture = Image.fromarray(cv2.imread(str(_picture(target)))[:, :, ::-1].copy())
    kind = str(target.pick(["JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    content = buffer.getvalue()
    count = int(target.pick([0, 0, 4, 50]))
    if count:
        content = flip_bits(content, target.rng, count)
    _picture(target).write_bytes(content)
    return f"the aerial picture is a {kind} with {count} bits turned"


@PICTURE("header of another format", weight=3)
def picture_other_header(target: Target) -> str:
    size = int(target.pick([0, 1, 10**5, 2**31 - 1]))
    kinds = {
        "BMP": b"BM"
        + struct.pack("<IHHI", 1000, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, size, size, 1, 24, 0, 0, 0, 0, 0, 0),
        "PPM": f"P6\n{size} {size}\n255\n".encode() + bytes(100),
        "PPM with an odd depth": b"P6\n10 10\n99999999\n" + bytes(300),
        "GIF": b"GIF89a" + struct.pack("<HHBBB", size % 65536, size % 65536, 0xF7, 0, 0) + bytes(900),
        "Radiance": f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {size} +X {size}\n".encode() + bytes(100),
        "TIFF": b"II*\0\x08\0\0\0"
        + struct.pack("<H", 2)
        + struct.pack("<HHII", 256, 4, 1, size)
        + struct.pack("<HHII", 257, 4, 1, size)
        + bytes(4),
        "PFM": f"PF\n{size} {size}\n-1.0\n".encode() + bytes(100),
        "PAM": f"P7\nWIDTH {size}\nHEIGHT {size}\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n".encode() + bytes(100),
        "Sun": struct.pack(">IIIIIIII", 0x59A66A95, size, size, 24, 0, 1, 0, 0) + bytes(100),
    }
    kind = str(target.pick(kinds))
    _picture(target).write_bytes(kinds[kind])
    return f"the aerial picture starts as a {kind} of {size} x {size}"


@PICTURE("no picture", weight=2)
def picture_none(target: Target) -> str:
    content = target.pick([b"", b"text", bytes(1000), b"\x89PNG\r\n\x1a\n", b"<svg></svg>", target.rng.bytes(2000)])
    _picture(target).write_bytes(content)
    return f"the aerial picture holds {content[:16]!r}"


@PICTURE("is a folder")
def picture_is_a_folder(target: Target) -> str:
    _picture(target).unlink()
    _picture(target).mkdir()
    return "the aerial picture is a folder"


@PICTURE("parts of the PNG", weight=3)
def picture_parts(target: Target) -> str:
    """Repeat, leave out or add chunks of the PNG."""
    content = _picture(target).read_bytes()
    place, parts = 8, []
    while place < len(content):
        length = struct.unpack(">I", content[place : place + 4])[0]
        parts.append(content[place : place + 12 + length])
        place += 12 + length
    kind = str(target.pick(["no end", "header twice", "no data", "data twice", "a bomb of text", "header last"]))
    body = zlib.compress(bytes(50_000_000))
    text = b"zTXt" + b"a\0\0" + body
    bomb = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    data = [part for part in parts if part[4:8] == b"IDAT"]
    parts = {
        "no end": parts[:-1],
        "header twice": [parts[0], *parts],
        "no data": [part for part in parts if part[4:8] != b"IDAT"],
        "data twice": [*parts[:-1], *data, parts[-1]],
        "a bomb of text": [parts[0], bomb, *parts[1:]],
        "header last": [*parts[1:], parts[0]],
    }[kind]
    _picture(target).write_bytes(content[:8] + b"".join(parts))
    return f"the PNG of the aerial picture: {kind}"
