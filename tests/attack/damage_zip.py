"""Damage to a log that is a zip file."""

import struct
import zipfile
from collections.abc import Callable

from attack.target import Kinds, Target, cut, flip_bits

ZIP = Kinds("zip")


def _rewrite(target: Target, change: Callable[[bytes], bytes]) -> None:
    target.zip_file.write_bytes(change(target.zip_file.read_bytes()))


def _directory_start(content: bytes) -> int:
    end = content.rfind(b"PK\x05\x06")
    return int(struct.unpack("<I", content[end + 16 : end + 20])[0])


def _member(target: Target) -> str:
    with zipfile.ZipFile(target.zip_file) as archive:
        return str(target.pick(archive.namelist()))


@ZIP("truncated", weight=3, needs="zip")
def truncated(target: Target) -> str:
    size = target.zip_file.stat().st_size
    _rewrite(target, lambda content: cut(content, target.rng))
    return f"the zip file is cut from {size} to {target.zip_file.stat().st_size} bytes"


@ZIP("central directory", weight=4, needs="zip")
def central_directory(target: Target) -> str:
    count = int(target.pick([1, 2, 8, 40]))
    _rewrite(target, lambda content: flip_bits(content, target.rng, count, first=_directory_start(content)))
    return f"{count} bits of the central directory are turned"


@ZIP("flipped bits", weight=3, needs="zip")
def flipped_bits(target: Target) -> str:
    count = int(target.pick([1, 2, 8, 64]))
    _rewrite(target, lambda content: flip_bits(content, target.rng, count))
    return f"{count} bits of the zip file are turned"


@ZIP("sizes", weight=3, needs="zip")
def sizes(target: Target) -> str:
    """Let the central directory claim another size of a member."""
    with zipfile.ZipFile(target.zip_file) as archive:
        number = target.integer(0, len(archive.namelist()) - 1)
    field = str(target.pick(["compressed size", "size", "offset", "method", "flags", "checksum"]))
    offset, kind = {
        "compressed size": (20, "<I"),
        "size": (24, "<I"),
        "offset": (42, "<I"),
        "method": (10, "<H"),
        "flags": (8, "<H"),
        "checksum": (16, "<I"),
    }[field]
    value = int(target.pick([0, 1, 5, 8, 9, 14, 99, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2]))

    def change(content: bytes) -> bytes:
        changed, place = bytearray(content), _directory_start(content)
        for _ in range(number):
            place = content.index(b"PK\x01\x02", place + 4)
        limit = 2 ** (8 * struct.calcsize(kind))
        struct.pack_into(kind, changed, place + offset, value % limit)
        return bytes(changed)

    _rewrite(target, change)
    return f"the central directory says {field} {value} of member {number}"


@ZIP("member twice", weight=2, needs="zip")
def member_twice(target: Target) -> str:
    name, size = _member(target), int(target.pick([0, 5, 300]))
    with zipfile.ZipFile(target.zip_file, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), target.rng.bytes(size))
    return f"the zip file has {name} twice, the second time with {size} random bytes"


@ZIP("odd names", weight=2, needs="zip")
def odd_names(target: Target) -> str:
    name = str(
        target.pick(
            ["../outside", "/etc/passwd", "agents/../../x", "agents\\0", "", "agents//0", "./.zgroup", "a" * 60_000]
        )
    )
    with zipfile.ZipFile(target.zip_file, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"{}")
    return f"the zip file has a member {name[:40]!r}"


@ZIP("members missing", weight=2, needs="zip")
def members_missing(target: Target) -> str:
    missing = _member(target)
    with zipfile.ZipFile(target.zip_file) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != missing}
    with zipfile.ZipFile(target.zip_file, "w") as archive:
        for name, content in kept.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return f"the zip file has no {missing}"


@ZIP("within a folder", needs="zip")
def within_a_folder(target: Target) -> str:
    with zipfile.ZipFile(target.zip_file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(target.zip_file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"log.zarr/{name}"), content)
    return "all members of the zip file lie within a folder"


@ZIP("compressed", weight=2, needs="zip")
def compressed(target: Target) -> str:
    """Compress the members, and turn bits of one of them."""
    method = int(target.pick([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
    with zipfile.ZipFile(target.zip_file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(target.zip_file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    count = int(target.pick([0, 1, 8]))
    if count:
        _rewrite(
            target,
            lambda content: (
                flip_bits(content[: _directory_start(content)], target.rng, count)
                + content[_directory_start(content) :]
            ),
        )
    return f"the members are compressed by method {method}, {count} of their bits turned"


@ZIP("no zip file", needs="zip")
def no_zip_file(target: Target) -> str:
    content = target.pick(
        [b"", b"PK", b"not a zip file", bytes(1000), b"PK\x05\x06" + bytes(18), b"\x1f\x8b" + bytes(50)]
    )
    target.zip_file.write_bytes(content)
    return f"the zip file holds {len(content)} bytes that are none: {content[:20]!r}"


@ZIP("bytes around it", needs="zip")
def bytes_around_it(target: Target) -> str:
    before, after = (target.rng.bytes(int(target.pick([0, 10, 5000]))) for _ in range(2))
    _rewrite(target, lambda content: before + content + after)
    return f"there are {len(before)} random bytes before the zip file and {len(after)} behind it"
