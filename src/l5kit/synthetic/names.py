"""Ids of the elements of a made town, the same in its map and in its scenes."""

FACE_COLORS = ("red", "yellow", "green")
"""Colours of the faces of a signal head; the position is the state RED, YELLOW or GREEN."""


def light_id(head: int) -> str:
    """Return the id of a traffic light."""
    return f"tl{head:05d}"


def face_id(head: int, color: str) -> str:
    """Return the id of the face of one colour of a traffic light."""
    return f"{light_id(head)}-{color[0]}"


def crosswalk_id(crosswalk: int) -> str:
    """Return the id of a crosswalk."""
    return f"cw{crosswalk:05d}"


def lane_id(lane: int, piece: int) -> str:
    """Return the id of a piece of a lane."""
    return f"l{lane:05d}-{piece:02d}"


def segment_id(road: int) -> str:
    """Return the id of a road."""
    return f"sg{road:05d}"


def junction_id(node: int) -> str:
    """Return the id of an intersection."""
    return f"jn{node:05d}"
