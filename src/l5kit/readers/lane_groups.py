"""Which lanes make up a road or a junction, where a source tells of lanes only."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from l5kit.readers.source_map import SourceLane


@dataclass(frozen=True)
class LaneGroup:
    """Lanes that become one segment of a road, or one junction.

    Attributes:
        lanes: Their ids, of a road from left to right.
        is_junction: Whether it is a junction.
    """

    lanes: tuple[str, ...]
    is_junction: bool


def group_lanes(lanes: Mapping[str, SourceLane], followers: Mapping[str, Sequence[str]]) -> list[LaneGroup]:
    """Return the roads and junctions that lanes are of, each lane in one of them.

    Lanes of a road lie beside each other and have one speed limit. Lanes of a junction lie beside each other, follow
    each other, or come from or lead to the same lane.

    Args:
        lanes: Lanes by their ids.
        followers: The lanes after each.
    """
    # A forest: each lane names another of its group, and roots name themselves. Lanes of a junction and of a road are
    # never of one group.
    root = {name: name for name in lanes}
    for first, second in _pairs(lanes, followers):
        is_inside, is_other_inside = bool(lanes[first].is_in_junction), bool(lanes[second].is_in_junction)
        has_same_limit = lanes[first].speed_limit_mps == lanes[second].speed_limit_mps
        if is_inside == is_other_inside and (is_inside or has_same_limit):
            root[_root_of(root, second)] = _root_of(root, first)
    members = defaultdict(list)
    for name in lanes:
        members[_root_of(root, name)].append(name)

    # Lanes of a road stand from left to right: from one without a neighbour on the left among those that are left, or
    # from any where they go round in a circle.
    groups = []
    for names in members.values():
        if lanes[names[0]].is_in_junction:
            groups.append(LaneGroup(tuple(names), True))
            continue
        ordered: list[str] = []
        waiting = dict.fromkeys(names)
        while waiting:
            name = next((each for each in waiting if lanes[each].left_neighbour not in waiting), next(iter(waiting)))
            while name in waiting:
                del waiting[name]
                ordered.append(name)
                name = lanes[name].right_neighbour or ""
        groups.append(LaneGroup(tuple(ordered), False))
    return groups


def _pairs(lanes: Mapping[str, SourceLane], followers: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Yield lanes that may be of one group."""
    sources = defaultdict(list)
    for name, lane in lanes.items():
        for other in (lane.left_neighbour, lane.right_neighbour):
            if other in lanes and other is not None:
                yield name, other
        inside = [other for other in followers[name] if lanes[other].is_in_junction]
        yield from pairwise(inside)
        if lane.is_in_junction:
            yield from ((name, other) for other in inside)
            for other in followers[name]:
                sources[other].append(name)
    for names in sources.values():
        yield from pairwise(names)


def _root_of(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        root[name] = root[root[name]]  # halves the way for those who come after
        name = root[name]
    return name
