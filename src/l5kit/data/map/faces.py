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


def _color_of_member(name: str) -> TLFacesColors | None:
    """Return the colour of a member of ``TrafficControlElement.Type``: ``signal_left_arrow_red_face`` is red."""
    if not name.startswith("signal_"):
        return None
    return next((color for color in TLFacesColors if color.name.lower() in name.split("_")), None)


@cache
def face_colors() -> Mapping[int, TLFacesColors]:
    """Return the colour of each kind of face, by its field number in ``TrafficControlElement.Type``.

    Arrows and U-turn faces have the colour they are named after, flashing yellow is yellow and flashing red is red.
    """
    members = TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields
    colors = {member.number: _color_of_member(member.name) for member in members}
    return MappingProxyType({number: color for number, color in colors.items() if color is not None})
