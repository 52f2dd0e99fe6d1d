"""Texts of records and files, which may be invalid, and of durations."""

import sys

import numpy as np

from l5kit._types import BoolArray, NumericArray, UInt32Array

_ENCODING = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"


def shown_texts(column: NumericArray) -> list[str]:
    """Return texts of fixed width (N,) for display, with invalid characters replaced."""
    native = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
    if native.dtype.itemsize and is_text(native).all():
        texts: list[str] = native.tolist()
        return texts
    contents = native.view(f"V{native.dtype.itemsize}").tolist()
    return [content.decode(_ENCODING, "replace").rstrip("\0") for content in contents]


def is_text(column: NumericArray) -> BoolArray:
    """Return which texts of fixed width (N,) are valid, bool (N,)."""
    codes = code_points(column)
    is_valid = ((codes <= sys.maxunicode) & ((codes < 0xD800) | (codes > 0xDFFF))).all(axis=1)
    goes_on_after_its_end = ((codes[:, 1:] > 0) & (codes[:, :-1] == 0)).any(axis=1)
    is_whole: BoolArray = is_valid & ~goes_on_after_its_end
    return is_whole


def code_points(column: NumericArray) -> UInt32Array:
    """Return the code points of texts (N,), padded with 0, (N, length); a view of texts of fixed width."""
    native = column.astype(column.dtype.newbyteorder("=") if column.dtype.kind == "U" else np.str_, copy=False)
    return native[:, None].view(np.uint32)


def decoded_text(content: bytes) -> str | None:
    """Return the text of bytes in a record, in the byte order of this machine; None if it is invalid.

    Unpaired surrogates, inner NULs and codes beyond Unicode are invalid; NumPy would make strings of them that fail on
    use.
    """
    try:
        text = content.decode(_ENCODING).rstrip("\0")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def as_unicode(text: str) -> str:
    """Return a text that UTF-8 can encode: unpaired surrogates, as from invalid bytes of file names, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def duration_text(seconds: float) -> str:
    """Return a duration for display: in seconds below two minutes, in minutes below two hours, otherwise in hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
