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
    root = {name: name for name in lanes}
    for first, second in _pairs(lanes, followers):
        if _may_be_one(lanes[first], lanes[second]):
            root[_root_of(root, second)] = _root_of(root, first)
    members = defaultdict(list)
    for name in lanes:
        members[_root_of(root, name)].append(name)
    return [_group_of(names, lanes) for names in members.values()]


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


def _may_be_one(first: SourceLane, second: SourceLane) -> bool:
    if first.is_in_junction or second.is_in_junction:
        return bool(first.is_in_junction and second.is_in_junction)
    return first.speed_limit_mps == second.speed_limit_mps


def _root_of(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        root[name] = root[root[name]]
        name = root[name]
    return name


def _group_of(names: list[str], lanes: Mapping[str, SourceLane]) -> LaneGroup:
    if lanes[names[0]].is_in_junction:
        return LaneGroup(tuple(names), True)
    left: list[str] = []
    waiting = dict.fromkeys(names)
    while waiting:
        name = next((each for each in waiting if lanes[each].left_neighbour not in waiting), next(iter(waiting)))
        while name in waiting:
            del waiting[name]
            left.append(name)
            name = lanes[name].right_neighbour or ""
    return LaneGroup(tuple(left), False)
