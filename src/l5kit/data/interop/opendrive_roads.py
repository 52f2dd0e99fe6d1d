"""Which lanes make up a road of OpenDRIVE, and how roads and junctions lead to each other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from l5kit._types import Float64Array
from l5kit.data.interop.exchanged_map import ExchangedLane, lane_changes
from l5kit.data.interop.lanelet2_sharing import SHARED_M, distance_between
from l5kit.data.interop.opendrive_geometry import RoadCourse, fit_course

LARGEST_ERROR_M: Final = 0.05
"""Lanes side by side become one road if boundaries stay this near; and worse ones are listed."""


@dataclass(frozen=True, eq=False)
class Road:
    """A road: lanes side by side in one direction, from left to right, so that lane i has the id -(i + 1)."""

    lanes: tuple[str, ...]
    course: RoadCourse
    junction: str = ""


@dataclass
class RoadNet:
    """How roads lead to each other, by their numbers.

    Attributes:
        roads: The roads.
        ahead: Pairs of lanes, as indices in their roads, by the road and the road after it.
        junction_of: Junction of each road; roads that part without one have a made up one.
        made_up: Junctions that the map does not have.
        successor: What follows each road: the number of a road or the name of a junction.
        predecessor: What is before each road, likewise.
        connections: From a road into one of a junction, with pairs of lanes.
    """

    roads: list[Road]
    ahead: dict[tuple[int, int], list[tuple[int, int]]]
    junction_of: dict[int, str] = field(default_factory=dict)
    made_up: set[str] = field(default_factory=set)
    successor: dict[int, int | str] = field(default_factory=dict)
    predecessor: dict[int, int | str] = field(default_factory=dict)
    connections: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of_roads(cls, roads: list[Road], lanes: Mapping[str, ExchangedLane]) -> "RoadNet":
        """Return the net of some roads: a road leads to one road, or through a junction to several."""
        index_of = {name: (row, index) for row, road in enumerate(roads) for index, name in enumerate(road.lanes)}
        ahead: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for name, (row, index) in index_of.items():
            for following in lanes[name].ahead:
                if following in index_of:
                    ahead[row, index_of[following][0]].append((index, index_of[following][1]))
        net = cls(roads, ahead, {row: road.junction for row, road in enumerate(roads) if road.junction})
        after: dict[int, list[int]] = defaultdict(list)
        before: dict[int, list[int]] = defaultdict(list)
        for row, other in ahead:
            after[row].append(other)
            before[other].append(row)

        # Where a road parts outside of a junction, those after it become roads of a junction that is made up.
        for others in after.values():
            if len(others) > 1 and not any(other in net.junction_of for other in others):
                junction = f"made up {len(net.made_up)}"
                net.made_up.add(junction)
                net.junction_of |= dict.fromkeys(others, junction)
        for row, others in after.items():
            inside = [net.junction_of[other] for other in others if other in net.junction_of]
            if not inside:
                net.successor[row] = others[0]
                continue
            net.successor[row] = inside[0]
            net.connections[inside[0]] += [(row, other) for other in others]
        for row, others in before.items():
            through = {net.junction_of[other] for other in others if other in net.junction_of}
            if row not in net.junction_of and len(through) == 1 and len(others) > 1:
                net.predecessor[row] = through.pop()
            elif row in net.junction_of or len(others) == 1:
                net.predecessor[row] = others[0]
        return net


def make_roads(lanes: Mapping[str, ExchangedLane]) -> list[Road]:
    """Return the roads of lanes: those between which one may change and that share boundaries lie in one road."""
    # lanes between which one may change, in either direction; the first that says so counts
    right_of: dict[str, str] = {}
    for left, right in lane_changes(lanes):
        right_of.setdefault(left, right)
    left_ones = {right: left for left, right in right_of.items()}
    roads, seen = [], set()
    for name in lanes:
        # to the leftmost lane beside it, and from there all lanes to the right; lanes in a ring end where they began
        first = name
        while left_ones.get(first) is not None and left_ones[first] != name:
            first = left_ones[first]
        chain = []
        while first not in seen and first not in chain:
            chain.append(first)
            first = right_of.get(first, "")
            if first not in lanes or left_ones.get(first) != chain[-1]:
                break
        seen.update(chain)

        # a road has one junction at most, and boundaries that two of its lanes share
        groups: list[list[ExchangedLane]] = []
        for lane in (lanes[each] for each in chain):
            last = groups[-1][-1] if groups else None
            if (
                last is not None
                and (last.is_in_junction, last.parent) == (lane.is_in_junction, lane.parent)
                and distance_between(lane.left_m, last.right_m) <= SHARED_M
            ):
                groups[-1].append(lane)
            else:
                groups.append([lane])

        # lanes that fit no one reference line are roads by themselves
        for group in groups:
            course = fit_course(_boundaries(group))
            if len(group) > 1 and course.error_m > LARGEST_ERROR_M:
                roads += [_road([lane], fit_course(_boundaries([lane]))) for lane in group]
            else:
                roads.append(_road(group, course))
    return roads


def _road(lanes: Sequence[ExchangedLane], course: RoadCourse) -> Road:
    first = lanes[0]
    junction = (first.parent or f"of {first.lane_id}") if first.is_in_junction else ""
    return Road(tuple(lane.lane_id for lane in lanes), course, junction)


def _boundaries(lanes: Sequence[ExchangedLane]) -> list[Float64Array]:
    return [lanes[0].left_m, *(lane.right_m for lane in lanes)]
