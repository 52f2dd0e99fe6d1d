"""The elements of a map that are of one kind: lanes, segments, stop lines, buildings, and so on."""

from collections.abc import Iterator, Sequence

import numpy as np
from google.protobuf.message import Message

from l5kit.data.map.content import MapContent
from l5kit.data.map.wire import KIND_TRAFFIC_CONTROL
from l5kit.data.proto.road_network_pb2 import AnnotatedShape, MapElement, TrafficControlElement
from l5kit.errors import InvalidArgumentError

KIND_ANNOTATED_SHAPE = 8
_KIND_ALIASES = {"crosswalk": "pedestrian_crosswalk"}


def _members(message: type[Message], oneof: str) -> dict[str, int]:
    """Return name and field number of the members of a oneof."""
    return {member.name: member.number for member in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


def select_elements(elements: Sequence[MapElement], content: MapContent, kind: str) -> Iterator[MapElement]:
    """Return an iterator over the elements of one kind, in file order.

    Args:
        elements: The messages of the map.
        content: Their kinds.
        kind: A member of ``MapElement.Element``, ``TrafficControlElement.Type`` or ``AnnotatedShape.Type``, or
            ``crosswalk``.

    Raises:
        InvalidArgumentError: There is no such kind.
    """
    element_kinds, control_kinds = _members(MapElement.Element, "element"), _members(TrafficControlElement, "Type")
    shape_kinds = _members(AnnotatedShape, "Type")
    name = _KIND_ALIASES.get(kind, kind)
    if name in element_kinds:
        selected = np.flatnonzero(content.kinds == element_kinds[name])
    elif name in control_kinds:
        selected = np.flatnonzero(
            (content.kinds == KIND_TRAFFIC_CONTROL) & (content.control_kinds == control_kinds[name])
        )
    elif name in shape_kinds:
        shapes = np.flatnonzero(content.kinds == KIND_ANNOTATED_SHAPE)
        selected = np.array(
            [i for i in shapes.tolist() if elements[i].element.annotated_shape.HasField(name)],
            dtype=np.int64,
        )
    else:
        allowed = [*element_kinds, *_KIND_ALIASES, *control_kinds, *shape_kinds]
        raise InvalidArgumentError(f"kind must be one of {', '.join(allowed)}, got {kind!r}")
    return (elements[i] for i in selected.tolist())
