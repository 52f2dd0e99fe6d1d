"""Tables of nuScenes: JSON lists of records, read piece by piece, as the largest files have gigabytes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias, TypeVar

import msgspec

from l5kit.configs.texts import require_regular_file
from l5kit.readers.reader import SourceDataError, naming_source
from l5kit.readers.source_bounds import LONGEST_TEXT

TABLES = (
    "attribute",
    "calibrated_sensor",
    "category",
    "ego_pose",
    "instance",
    "log",
    "map",
    "sample",
    "sample_annotation",
    "sample_data",
    "scene",
    "sensor",
    "visibility",
)
"""Tables that every version has; ``map`` and ``visibility`` are not needed."""

PIECE_BYTES = 8 << 20
"""Bytes of a file that are read at once."""

_MOST_PIECES = 4
"""A record longer than this many pieces is treated as damaged."""

_END_OF_RECORD = re.compile(rb"\}\s*,\s*(?=\{)")
_START = re.compile(rb"\s*\[\s*")
_SPACES = b" \t\r\n"

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
"""Text for NumPy arrays, whose memory use depends on the longest item, hence the limit."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class _Record(msgspec.Struct, frozen=True, gc=False):
    """A record of a table; fields that are not declared are skipped."""

    token: Text


class SceneRecord(_Record, frozen=True, gc=False):
    """A scene: a drive of about 20 s."""

    name: Text
    log_token: Text
    nbr_samples: Count
    first_sample_token: Text


class LogRecord(_Record, frozen=True, gc=False):
    """A recording, from which scenes are cut, and its city."""

    location: Text


class Sample(_Record, frozen=True, gc=False):
    """A key frame, with the token of the next one (empty for none); time in microseconds."""

    scene_token: Text
    timestamp: int
    next: Text


class SampleData(_Record, frozen=True, gc=False):
    """A measurement of a sensor."""

    sample_token: Text
    ego_pose_token: Text
    calibrated_sensor_token: Text
    is_key_frame: bool


class EgoPose(_Record, frozen=True, gc=False):
    """Pose of the AV: the middle of its rear axle, on the ground; metres, rotation w, x, y, z."""

    translation: Vector
    rotation: Quaternion


class CalibratedSensor(_Record, frozen=True, gc=False):
    """A sensor as mounted on the car."""

    sensor_token: Text


class Sensor(_Record, frozen=True, gc=False):
    """A sensor and its channel name."""

    channel: Text


class Category(_Record, frozen=True, gc=False):
    """A class of road users and objects."""

    name: Text


class Attribute(_Record, frozen=True, gc=False):
    """A variable state of a road user, such as whether a bicycle has a rider."""

    name: Text


class Instance(_Record, frozen=True, gc=False):
    """A road user in one scene."""

    category_token: Text
    nbr_annotations: Count


class Annotation(_Record, frozen=True, gc=False):
    """A box in a key frame: centre, width, length and height in metres, rotation w, x, y, z."""

    sample_token: Text
    instance_token: Text
    attribute_tokens: list[Text]
    translation: Vector
    size: Vector
    rotation: Quaternion


Kind = TypeVar("Kind", bound=_Record)


def read_table(folder: Path, name: str, kind: type[Kind]) -> list[Kind]:
    """Return the records of a small table.

    Args:
        folder: Folder of the tables.
        name: Name of the table.
        kind: Type of its records.

    Raises:
        SourceDataError: The file is missing or damaged, a record lacks a field, or two have the same token.
    """
    by_token: dict[str, Kind] = {}
    for first, records in table_pieces(folder, name, kind):
        for number, record in enumerate(records, first):
            if by_token.setdefault(record.token, record) is not record:
                problem = f"token {record.token!r} is that of a record before, too; copy the file again"
                raise SourceDataError(file_name(folder, name), f"record {number}", problem)
    return list(by_token.values())


def table_pieces(folder: Path, name: str, kind: type[Kind]) -> Iterator[tuple[int, list[Kind]]]:
    """Yield the records of a table, some thousands at a time, with the index of the first.

    Args:
        folder: Folder of the tables.
        name: Name of the table.
        kind: Type of its records.

    Raises:
        SourceDataError: The file is missing or damaged, or a record lacks a field.
    """
    path, called = folder / f"{name}.json", file_name(folder, name)
    with naming_source(called):
        require_regular_file(path, called="table")
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise SourceDataError(called, "", "the table is missing; unpack the metadata again") from error
    except OSError as error:
        raise SourceDataError(called, "", f"the table cannot be read: {error.strerror}") from error
    decoder: msgspec.json.Decoder[list[Kind]] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    num_records = 0
    with file:
        held = file.read(PIECE_BYTES)
        start = _START.match(held)
        if not start:
            raise SourceDataError(called, "", f"must hold a list of records in JSON, begins with {held[:20]!r}")
        try:
            for text in _pieces_of(file, held[start.end() :]):
                records = decoder.decode(b"[" + text + b"]")
                yield num_records, records
                num_records += len(records)
        except msgspec.ValidationError as error:
            match = re.search(r"\$\[(\d+)\]", str(error))  # the record within the piece
            raise SourceDataError(
                called, f"record {num_records + int(match[1] if match else 0)}", str(error)
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = f"or one after it is no JSON ({error}); copy the file again"
            raise SourceDataError(called, f"record {num_records}", problem) from error
        except EOFError as error:
            raise SourceDataError(called, f"record {num_records}", str(error)) from error


def file_name(folder: Path, name: str) -> str:
    """Return the name of a table in errors."""
    return f"{folder.name}/{name}.json"


def _pieces_of(file: BinaryIO, held: bytes) -> Iterator[bytes]:
    """Yield the contents of a list in pieces of whole records.

    Args:
        file: The file, read up to somewhere in the list.
        held: The part of the list that was already read.

    Raises:
        EOFError: The list or a record does not end.
    """
    while True:
        more = file.read(PIECE_BYTES)
        if not more:
            held = held.rstrip(_SPACES)
            if not held.endswith(b"]"):
                raise EOFError("is not followed by the end of the list; the file is cut off, copy it again")
            yield held[:-1]
            return
        held += more

        # Cut after the last whole record, searching backwards from the end. A text field could contain the separator of
        # records; the cut would then give invalid JSON, which is reported. No real table has such texts.
        for size in (1 << 16, len(more), len(held)):
            ends = list(_END_OF_RECORD.finditer(held, max(0, len(held) - size)))
            if ends:
                break
        if ends:
            piece, held = held[: ends[-1].start() + 1], held[ends[-1].end() :]
            yield piece
        elif len(held) > _MOST_PIECES * PIECE_BYTES:
            raise EOFError("has no end within 32 MB; the file is damaged")
