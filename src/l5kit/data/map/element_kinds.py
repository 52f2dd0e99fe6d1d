"""Kinds of map elements (lanes, segments, stop lines, buildings and so on) and colours of traffic light faces."""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from types import MappingProxyType

import numpy as np
from google.protobuf.message import Message

from l5kit._types import Int64Array
from l5kit.data.map.wire import KIND_TRAFFIC_CONTROL
from l5kit.data.proto.road_network_pb2 import AnnotatedShape, MapElement, TrafficControlElement
from l5kit.errors import InvalidArgumentError

KIND_ANNOTATED_SHAPE = 8
_KIND_ALIASES = {"crosswalk": "pedestrian_crosswalk"}


class TLFacesColors(IntEnum):
    """Colours a traffic light face may have."""

    RED = 0
    GREEN = 1
    YELLOW = 2


@cache
def face_colors() -> Mapping[int, TLFacesColors]:
    """Return the colour of each kind of face, by its field number in ``TrafficControlElement.Type``.

    Arrows and U-turn faces have the colour in their name, flashing yellow is yellow and flashing red is red.
    """
    colors = {}
    for name, number in _members(TrafficControlElement, "Type").items():
        words = name.split("_")  # such as signal_left_arrow_red_face
        color = next((color for color in TLFacesColors if color.name.lower() in words), None)
        if words[0] == "signal" and color is not None:
            colors[number] = color
    return MappingProxyType(colors)


@cache
def face_kinds() -> frozenset[int]:
    """Return the kinds of faces that L5Kit 1.5 knows: round ones and arrows, without U-turn and flashing faces."""
    return frozenset(
        number for name, number in _members(TrafficControlElement, "Type").items() if name.endswith("_face")
    )


def _members(message: type[Message], oneof: str) -> dict[str, int]:
    """Return names and field numbers of the members of a oneof."""
    return {member.name: member.number for member in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


def select_elements(
    elements: Sequence[MapElement], kind: str, *, kinds: Int64Array, control_kinds: Int64Array
) -> Iterator[MapElement]:
    """Return an iterator over the elements of one kind, in file order.

    Args:
        elements: The messages of the map.
        kind: A member of ``MapElement.Element``, ``TrafficControlElement.Type`` or ``AnnotatedShape.Type``, or
            ``crosswalk``.
        kinds: Field number in ``MapElement.Element`` of each element, 0 for none, (n,).
        control_kinds: Field number in ``TrafficControlElement.Type`` of each element, 0 for none, (n,).

    Raises:
        InvalidArgumentError: There is no such kind.
    """
    element_kinds, members = _members(MapElement.Element, "element"), _members(TrafficControlElement, "Type")
    shape_kinds = _members(AnnotatedShape, "Type")
    name = _KIND_ALIASES.get(kind, kind)
    if name in element_kinds:
        selected = np.flatnonzero(kinds == element_kinds[name])
    elif name in members:
        selected = np.flatnonzero((kinds == KIND_TRAFFIC_CONTROL) & (control_kinds == members[name]))
    elif name in shape_kinds:
        shapes = np.flatnonzero(kinds == KIND_ANNOTATED_SHAPE)
        selected = np.array(
            [i for i in shapes.tolist() if elements[i].element.annotated_shape.HasField(name)],
            dtype=np.int64,
        )
    else:
        allowed = [*element_kinds, *_KIND_ALIASES, *members, *shape_kinds]
        raise InvalidArgumentError(f"kind must be one of {', '.join(allowed)}, got {kind!r}")
    return (elements[i] for i in selected.tolist())
