"""Layers of a page with the elements of all frames, packed so that pages stay small."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int32Array
from l5kit.data.array_shapes import require_shapes, require_starts
from l5kit.errors import InvalidArgumentError

ColumnValues: TypeAlias = list[Any]
"""Values of a field: arrays of coordinates, texts or numbers."""


class LayerElement(Protocol):
    """Protocol of a named tuple with any fields."""

    @property
    def _fields(self) -> tuple[str, ...]: ...
    def __iter__(self) -> Iterator[object]: ...


@dataclass(frozen=True)
class PackedColumn:
    """A value for each of N elements.

    Attributes:
        values: Distinct values.
        codes: Index in ``values`` of each element, int32, shape (N,).
    """

    values: ColumnValues
    codes: Int32Array


@dataclass(frozen=True)
class PackedLayer:
    """The N elements of a layer, frame by frame; equal polygons and lines are stored once.

    Attributes:
        frame_starts: First element of each frame and the end of the last one, int32, shape (F + 1,).
        shapes: Index of the polygon or line of each element, int32, shape (N,).
        shape_starts: First point of each polygon or line and the end of the last one, int32, shape (S + 1,).
        xs: x of all points in metres from the origin, float32, shape (P,).
        ys: y of all points, shape (P,).
        columns: Other fields of the elements, by name.
    """

    frame_starts: Int32Array
    shapes: Int32Array
    shape_starts: Int32Array
    xs: Float32Array
    ys: Float32Array
    columns: dict[str, PackedColumn]

    def __post_init__(self) -> None:
        require_shapes(self, xs=(len(self.xs),), ys=(len(self.xs),), shapes=(len(self.shapes),))
        require_starts(self, "shape_starts", num_parts=len(self.shape_starts) - 1, end=len(self.xs))


def list_to_columns(elements: Sequence[LayerElement], null_element: LayerElement) -> dict[str, ColumnValues]:
    """Return the fields of named tuples as lists, by name.

    Args:
        elements: Named tuples with the same fields.
        null_element: Element that replaces an empty list.

    Raises:
        InvalidArgumentError: The elements have different fields (a ``ValueError``).
    """
    elements = elements or [null_element]
    names: tuple[str, ...] = elements[0]._fields
    others = {element._fields for element in elements} - {names}
    if others:
        raise InvalidArgumentError(
            f"the elements of a layer must have the same fields; found {names} and {sorted(others)}"
        )
    return {name: list(values) for name, values in zip(names, zip(*elements, strict=True), strict=True)}


def pack_layer(
    frames: Sequence[Sequence[LayerElement]], null_element: LayerElement, *, origin_m: tuple[float, float]
) -> PackedLayer:
    """Return a layer of named tuples with ``xs``, ``ys`` and any other fields.

    Args:
        frames: The elements of each frame, all with the same fields.
        null_element: Element of empty frames.
        origin_m: A nearby world position, so that float32 resolves under a millimetre.

    Raises:
        InvalidArgumentError: The elements have different fields, or an element has unequal numbers of xs and ys.
    """
    filled = [elements or [null_element] for elements in frames]
    columns = list_to_columns([element for elements in filled for element in elements], null_element)
    # bitwise equal polygons are stored once, as a lane is in many frames
    shape_indices: dict[bytes, int] = {}
    polygons: list[Float64Array] = []
    shapes = []
    for xs, ys in zip(columns.pop("xs"), columns.pop("ys"), strict=True):
        if len(xs) != len(ys):
            raise InvalidArgumentError(f"an element of a layer has {len(xs)} xs and {len(ys)} ys; give equal numbers")
        polygon = np.array((xs, ys), dtype=np.float64)
        key = polygon.tobytes()
        if key not in shape_indices:
            shape_indices[key] = len(polygons)
            polygons.append(polygon)
        shapes.append(shape_indices[key])
    points = np.concatenate(polygons, axis=1) - np.reshape(origin_m, (2, 1))
    # distinct values of other fields, in order of appearance
    packed_columns = {}
    for name, values in columns.items():
        codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
        packed_columns[name] = PackedColumn(list(codes), np.array([codes[value] for value in values], dtype=np.int32))
    return PackedLayer(
        frame_starts=_starts_of([len(elements) for elements in filled]),
        shapes=np.array(shapes, dtype=np.int32),
        shape_starts=_starts_of([polygon.shape[1] for polygon in polygons]),
        xs=points[0].astype(np.float32),
        ys=points[1].astype(np.float32),
        columns=packed_columns,
    )


def _starts_of(lengths: Sequence[int]) -> Int32Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
