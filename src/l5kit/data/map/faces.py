"""Colours of traffic light faces."""

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType

from l5kit.data.proto.road_network_pb2 import TrafficControlElement


class TLFacesColors(IntEnum):
    """Colours a traffic light face may have."""

    RED = 0
    GREEN = 1
    YELLOW = 2


@cache
def face_colors() -> Mapping[int, TLFacesColors]:
    """Return the colour of each kind of face, by its field number in ``TrafficControlElement.Type``.

    Arrows and U-turn faces have the colour they are named after, flashing yellow is yellow and flashing red is red.
    """
    colors = {}
    for member in TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields:
        words = member.name.split("_")  # as of signal_left_arrow_red_face
        color = next((color for color in TLFacesColors if color.name.lower() in words), None)
        if words[0] == "signal" and color is not None:
            colors[member.number] = color
    return MappingProxyType(colors)
