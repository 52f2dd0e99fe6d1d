"""Road network of a map as arrays: successors, predecessors, neighbours and speed limits of lanes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.map.map_arrays import MapIds
from l5kit.data.proto.road_network_pb2 import GlobalId, Lane, MapElement, RoadNetworkSegment
from l5kit.errors import CorruptedDataError


@dataclass(frozen=True, eq=False)
class LaneNetwork(ReadOnlyArrays):
    """The L lanes of a map and their connections; rows of lanes with geometry are those of ``MapArrays``.

    Lanes without geometry follow them, then ids that lanes refer to but that are not lanes.

    Attributes:
        ids: Ids of all rows, (R,), R at least L.
        ahead_starts: Start of each lane in ``ahead_rows``, and the end of the last one, int64 (L + 1,).
        ahead_rows: Rows that follow each lane without a lane change, in stored order.
        behind_starts: Start of each lane in ``behind_rows``, and the end of the last one, int64 (L + 1,).
        behind_rows: Lanes from which each lane is entered without a lane change, in file order.
        left_rows: Lane that a vehicle may change to on the left, -1 if that is not allowed, int64 (L,).
        right_rows: Lane that a vehicle may change to on the right, likewise.
        is_in_junction: Whether each lane is part of a junction, bool (L,).
        speed_limits_mps: Metres per second, NaN if unknown, float64 (L,). A lane of a segment has the limit of its
            direction; if a segment has no limit for the backward direction, the forward one holds for both. A lane of a
            junction has the lowest known limit of the lanes outside that it connects, directly or via other junction
            lanes.
    """

    ids: MapIds
    ahead_starts: Int64Array
    ahead_rows: Int64Array
    behind_starts: Int64Array
    behind_rows: Int64Array
    left_rows: Int64Array
    right_rows: Int64Array
    is_in_junction: BoolArray
    speed_limits_mps: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.left_rows.shape
        require_shapes(self, left_rows=shape, right_rows=shape, is_in_junction=shape, speed_limits_mps=shape)
        for name in ("ahead", "behind"):
            require_starts(self, f"{name}_starts", num_parts=len(self), end=len(getattr(self, f"{name}_rows")))

    def __len__(self) -> int:
        return len(self.left_rows)

    def ahead_of(self, lane: int) -> Int64Array:
        """Return the rows that follow a lane, as a read-only view."""
        return self.ahead_rows[self.ahead_starts[lane] : self.ahead_starts[lane + 1]]

    def behind_of(self, lane: int) -> Int64Array:
        """Return the rows of the lanes that lead into a lane, as a read-only view."""
        return self.behind_rows[self.behind_starts[lane] : self.behind_starts[lane + 1]]


def read_network(
    elements: Sequence[MapElement], *, lanes: Int64Array, ids: Sequence[str], ids_to_el: dict[str, int], path: str
) -> LaneNetwork:
    """Return the network of a map.

    Args:
        elements: The messages of the map.
        lanes: Elements that are lanes, in the order of their rows, (L,).
        ids: Id of each element.
        ids_to_el: Position of the element with each id; the last one if several elements share an id.
        path: The file, for error texts.

    Raises:
        CorruptedDataError: A lane names an id that is not UTF-8 text.
    """
    order = np.argsort(lanes).tolist()  # in file order: the last of several lanes with one id counts
    names = _Names({ids[lanes[row]]: row for row in order}, [ids[element] for element in lanes.tolist()], path)
    parents = _Parents(elements, ids_to_el)
    ahead: list[list[int]] = []
    sides: list[tuple[int, int]] = []
    limits: list[tuple[bool, float]] = []
    for row, element in enumerate(lanes.tolist()):
        lane = elements[element].element.lane
        ahead.append([names.row_of(row, reference) for reference in lane.lanes_ahead])
        left, right = lane.adjacent_lane_change_left, lane.adjacent_lane_change_right
        sides.append((names.row_of(row, left) if left.id else -1, names.row_of(row, right) if right.id else -1))
        limits.append(parents.limit_of(lane, names.text_of(row, lane.parent_segment_or_junction)))
    is_in_junction = [is_inside for is_inside, _ in limits]
    is_known = set(names.row_of_id.values())

    # predecessors of each lane, in file order and without duplicates
    behind_sets: list[dict[int, None]] = [{} for _ in ahead]
    for row in order:
        if row in is_known:
            for following in ahead[row]:
                if following < len(ahead):
                    behind_sets[following][row] = None
    behind = [list(rows) for rows in behind_sets]

    # junctions have no limit of their own: use the lowest one of the lanes outside that the lane connects
    limits_mps = [limit_mps for _, limit_mps in limits]
    limits_of_segments_mps = list(limits_mps)
    for row in range(len(ahead)):
        if is_in_junction[row]:
            before, after = (first_lanes_outside(row, rows, is_in_junction) for rows in (behind, ahead))
            known_mps = [limits_of_segments_mps[other] for other in before | after if limits_of_segments_mps[other] > 0]
            limits_mps[row] = min(known_mps, default=np.nan)
    left_right = np.array(sides, dtype=np.int64).reshape(-1, 2)
    return LaneNetwork(
        MapIds.of_texts(names.texts),
        *_joined(ahead),
        *_joined(behind),
        left_right[:, 0].copy(),
        left_right[:, 1].copy(),
        np.array(is_in_junction, dtype=np.bool_),
        np.array(limits_mps, dtype=np.float64),
    )


def decode_reference(content: bytes, holder: str) -> str:
    """Return the id of a referenced element as text.

    Args:
        content: The id as stored in the map.
        holder: File and element with the reference, for the error text.

    Raises:
        CorruptedDataError: It is not UTF-8 text.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptedDataError(
            f"{holder} names the id {content!r}, which is not UTF-8 text; the map is damaged, restore it"
        ) from error


@dataclass
class _Names:
    """Rows of the ids of lanes and of other ids that lanes refer to."""

    row_of_id: dict[str, int]
    texts: list[str]
    path: str

    def text_of(self, row: int, reference: GlobalId) -> str:
        """Return an id that the lane in a row refers to."""
        return decode_reference(reference.id, f"map file {self.path}: lane {self.texts[row]!r}")

    def row_of(self, row: int, reference: GlobalId) -> int:
        """Return the row of an id that the lane in a row refers to."""
        text = self.text_of(row, reference)
        named_row = self.row_of_id.setdefault(text, len(self.texts))
        if named_row == len(self.texts):
            self.texts.append(text)
        return named_row


class _Parents:
    """Segments and junctions of lanes, each read once."""

    def __init__(self, elements: Sequence[MapElement], ids_to_el: dict[str, int]) -> None:
        self._elements = elements
        self._ids_to_el = ids_to_el
        self._known: dict[str, tuple[bool, float, float]] = {}

    def limit_of(self, lane: Lane, parent_id: str) -> tuple[bool, float]:
        """Return whether a lane is in a junction, and the limit of its segment in its direction, NaN if unknown."""
        if parent_id not in self._known:
            position = self._ids_to_el.get(parent_id) if parent_id else None
            self._known[parent_id] = False, 0.0, 0.0
            if position is not None:
                # both limits are 0 for anything but a segment, as for a segment without limits
                parent = self._elements[position].element
                forward_mps = parent.segment.speed_limit_meters_per_second
                backward_mps = parent.segment.backward_direction_speed_limit_meters_per_second
                self._known[parent_id] = parent.HasField("junction"), forward_mps, backward_mps
        is_junction, forward_mps, backward_mps = self._known[parent_id]
        # without a backward limit, the forward one holds for both directions
        is_backward = lane.orientation_in_parent_segment == RoadNetworkSegment.ONE_WAY_BACKWARD
        limit_mps = (backward_mps or forward_mps) if is_backward else forward_mps
        return is_junction, limit_mps if limit_mps > 0 else np.nan


def first_lanes_outside(lane: int, neighbours: list[list[int]], is_in_junction: list[bool]) -> set[int]:
    """Return the first lanes outside of junctions in one direction.

    Args:
        lane: Row of the lane to start from.
        neighbours: Successors of each lane, or predecessors.
        is_in_junction: Whether each lane is part of a junction.
    """
    outside, seen, open_lanes = set(), {lane}, [lane]
    while open_lanes:
        for neighbour in neighbours[open_lanes.pop()]:
            if neighbour in seen or neighbour >= len(neighbours):
                continue
            seen.add(neighbour)
            if is_in_junction[neighbour]:
                open_lanes.append(neighbour)
            else:
                outside.add(neighbour)
    return outside


def _joined(lists: list[list[int]]) -> tuple[Int64Array, Int64Array]:
    """Return the start of each list, with the end of the last one appended, and the concatenated lists."""
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.array([row for rows in lists for row in rows], dtype=np.int64)
