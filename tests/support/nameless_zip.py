"""Zip files with a file that has no name, which Python's library does not write."""

import io
import struct
import zipfile

__all__ = ["with_nameless_file"]


def with_nameless_file(archive: bytes) -> bytes:
    """Return a zip file with one file more, of a byte, whose name is empty."""
    buffer = io.BytesIO(archive)
    with zipfile.ZipFile(buffer, "a") as opened:
        opened.writestr("Q", b"1")
    content = bytearray(buffer.getvalue())
    header, directory, end = (content.rindex(mark) for mark in (b"PK\3\4", b"PK\1\2", b"PK\5\6"))
    (start,) = struct.unpack_from("<I", content, end + 16)
    struct.pack_into("<II", content, end + 12, end - start - 1, start - 1)
    content[header + 26] = content[directory + 28] = 0
    del content[directory + 46], content[header + 30]
    return bytes(content)
