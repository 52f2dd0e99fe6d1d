"""Metadata of record fields for other tools, and their columns in Arrow, pandas, polars and Parquet.

This module defines names of axes and coordinates, units and frames, and the columns of tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from l5kit._types import DType, JsonObject, NumericArray, RecordArray
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FRAME_ARRAY_KEY,
    FRAME_INTERVAL,
    SCENE_ARRAY_KEY,
    TL_FACE_ARRAY_KEY,
)
from l5kit.errors import InvalidArgumentError

ROW_AXES = {SCENE_ARRAY_KEY: "scene", FRAME_ARRAY_KEY: "frame", AGENT_ARRAY_KEY: "agent", TL_FACE_ARRAY_KEY: "face"}
"""Name of the row axis of each array on disk."""

AXES: dict[str, tuple[str, ...]] = {
    "bound": ("start", "end"),
    "xy": ("x", "y"),
    "xyz": ("x", "y", "z"),
    "world_axis": ("x", "y", "z"),
    "av_axis": ("x", "y", "z"),
    "size": ("length", "width", "height"),
    "label": tuple(PERCEPTION_LABELS),
    "status": tuple(TL_FACE_LABELS),
}
"""Names along each axis of the fields other than the row axis."""


@dataclass(frozen=True)
class FieldFacts:
    """Meaning of a field of the records.

    Attributes:
        meaning: Description.
        units: Short name of the unit; empty if there is none.
        frame: Frame of reference of the values; empty if there is none.
        axes: Names of the axes other than the row axis.
    """

    meaning: str
    units: str = ""
    frame: str = ""
    axes: tuple[str, ...] = ()

    def as_attributes(self) -> JsonObject:
        """Return the non-empty facts as attributes of an array."""
        named = {"long_name": self.meaning, "units": self.units, "frame_of_reference": self.frame}
        return {name: text for name, text in named.items() if text}


def _interval(rows: str) -> FieldFacts:
    return FieldFacts(f"rows of {rows}, from start up to and without end", axes=("bound",))


FIELDS: dict[str, FieldFacts] = {
    FRAME_INTERVAL: _interval(FRAME_ARRAY_KEY),
    "host": FieldFacts("name of the recording car"),
    "start_time": FieldFacts("start of the scene, by a clock that is not that of the frames", "ns"),
    "end_time": FieldFacts("end of the scene, by a clock that is not that of the frames", "ns"),
    "timestamp": FieldFacts("time of the frame", "ns"),
    AGENT_INTERVAL: _interval(AGENT_ARRAY_KEY),
    FACE_INTERVAL: _interval(TL_FACE_ARRAY_KEY),
    "ego_translation": FieldFacts("position of the AV", "m", "world", ("xyz",)),
    "ego_rotation": FieldFacts(
        "rotation matrix that maps axes of the AV to the world", "1", "world from AV", ("world_axis", "av_axis")
    ),
    "centroid": FieldFacts("position of the centre of the agent", "m", "world", ("xy",)),
    "extent": FieldFacts("length along the heading, width and height of the agent", "m", "agent", ("size",)),
    "yaw": FieldFacts("heading of the agent, counter-clockwise from +x", "rad", "world"),
    "velocity": FieldFacts("velocity of the agent", "m/s", "world", ("xy",)),
    "track_id": FieldFacts("identity of the agent within its scene"),
    "label_probabilities": FieldFacts("probability of each class", "1", axes=("label",)),
    "face_id": FieldFacts("id of the bulb, that of an element of the semantic map"),
    "traffic_light_id": FieldFacts("id of the traffic light of the bulb, that of an element of the semantic map"),
    "traffic_light_face_status": FieldFacts(
        "value of each state; the bulb is on where that of ACTIVE is above 0", "1", axes=("status",)
    ),
}
"""Facts about each field of the format; field names are unique across arrays."""


def axis_names(field: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the axes of a field other than the row axis; those of unknown fields are numbered.

    Args:
        field: Name of the field.
        shape: Shape of a single value.
    """
    axes = FIELDS[field].axes if field in FIELDS else ()
    if tuple(len(AXES[axis]) for axis in axes) == shape:
        return axes
    return tuple(f"{field}_axis_{number}" for number in range(len(shape)))


def column_names(dtype: DType, field: str) -> list[str]:
    """Return the names of the columns with the numbers of a field in a table, such as ``centroid_x``.

    Args:
        dtype: Record type.
        field: Name of one of its fields. Its last axis varies fastest.
    """
    shape = dtype[field].shape
    axes = axis_names(field, shape)
    labels = [AXES.get(axis, tuple(map(str, range(size)))) for axis, size in zip(axes, shape, strict=True)]
    return ["_".join([field, *parts]) for parts in product(*labels)]


@dataclass(frozen=True)
class FieldColumn:
    """A column with the values of a field.

    Attributes:
        name: Name of the column.
        field: Name of the field.
        shape: Shape of one value of the column; empty for a number or text.
        number: Index of one number of a field of several values; None for all of them.
    """

    name: str
    field: str
    shape: tuple[int, ...] = ()
    number: int | None = None

    def values(self, rows: RecordArray) -> NumericArray:
        """Return the values of rows, (N, *shape), contiguous and in native byte order.

        They are a copy, unless the field is already stored like that, as in records of a single field.
        """
        column: NumericArray = rows[self.field]
        if self.number is not None:
            column = column.reshape(len(rows), prod(column.shape[1:]))[:, self.number]
        return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))


@dataclass(frozen=True)
class NameColumn:
    """A column with the name of the class of the highest probability, or of the state of the highest value.

    Attributes:
        name: Name of the column.
        field: Name of the field of probabilities or values.
        names: Name of each class or state.
    """

    name: str
    field: str
    names: tuple[str, ...]

    def codes(self, rows: RecordArray) -> NumericArray:
        """Return indices into the names, int8 (N,); -1 if all values are 0 or one is not a number."""
        values: NumericArray = rows[self.field]
        codes: NumericArray = values.argmax(axis=1).astype(np.int8)
        # NaN is not above 0 either
        codes[~(values.max(axis=1, initial=0) > 0)] = -1
        return codes


AnyColumn: TypeAlias = FieldColumn | NameColumn

_NAMED = {
    "label_probabilities": ("label", PERCEPTION_LABELS),
    "traffic_light_face_status": ("status", TL_FACE_LABELS),
}


def choose_columns(
    dtype: DType, wanted: Sequence[str] | None = None, *, nested: bool, label_names: bool
) -> list[AnyColumn]:
    """Return the columns of a table of records.

    Args:
        dtype: Record type.
        wanted: Names of fields, for all their columns, and of single columns, in the desired order; None for all.
        nested: Represent a field of several values by one column of lists; otherwise by a column per value.
        label_names: Add the columns ``label`` of agents and ``status`` of faces, after the others unless ``wanted``
            names them.

    Raises:
        InvalidArgumentError: There is no such column.
    """
    fields = dtype.names or ()
    of_fields: dict[str, list[AnyColumn]] = {}
    for name in fields:
        if nested or not dtype[name].shape:
            of_fields[name] = [FieldColumn(name, name, dtype[name].shape)]
        else:
            columns = column_names(dtype, name)
            of_fields[name] = [FieldColumn(column, name, (), number) for number, column in enumerate(columns)]
    for field, (name, names) in _NAMED.items():
        if field in of_fields and dtype[field].shape == (len(names),) and name not in fields and label_names:
            of_fields[name] = [NameColumn(name, field, tuple(names))]
    if wanted is None:
        return [column for columns in of_fields.values() for column in columns]
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"columns must be a list of names, got the single {wanted!r}; put it into a list")
    # a name is that of a field, which stands for all its columns, or of a single column
    single = {column.name: [column] for columns in of_fields.values() for column in columns}
    unknown = [name for name in wanted if name not in of_fields and name not in single]
    if unknown:
        raise InvalidArgumentError(
            f"columns has {unknown[0]!r}; there are {list(dict.fromkeys([*of_fields, *single]))}"
        )
    added = [name for name, columns in of_fields.items() if any(isinstance(c, NameColumn) for c in columns)]
    chosen = [column for name in (*wanted, *added) for column in of_fields.get(name) or single[name]]
    return list(dict.fromkeys(chosen))
