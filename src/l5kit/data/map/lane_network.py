"""The road network of a map as arrays: which lane leads where, beside which it lies, and how fast one may go there."""

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
    """The L lanes of a map and where they lead; rows of lanes with geometry are those of ``MapArrays``.

    Behind them come the lanes without geometry, and behind all lanes what lanes name and no lane is.

    Attributes:
        ids: Ids of all rows, (R,), R at least L.
        ahead_starts: First of the ``ahead_rows`` of each lane and the end of the last one, int64 (L + 1,).
        ahead_rows: What follows each lane without a lane change, as stored.
        behind_starts: First of the ``behind_rows`` of each lane and the end of the last one, int64 (L + 1,).
        behind_rows: The lanes that each lane follows without a lane change, in file order.
        left_rows: Where one may change to on the left, -1 where that is not allowed, int64 (L,).
        right_rows: Where one may change to on the right, likewise.
        is_in_junction: Which lanes are part of a junction, bool (L,).
        speed_limits_mps: Metres per second, NaN where the map does not say, float64 (L,). A lane of a segment has the
            limit of its direction; a segment without one for the backward direction has one limit for both. A lane of a
            junction has the lowest known limit of the lanes outside that it connects, directly or over further lanes of
            junctions.
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
        """Return the rows of what follows a lane, a read-only view."""
        return self.ahead_rows[self.ahead_starts[lane] : self.ahead_starts[lane + 1]]

    def behind_of(self, lane: int) -> Int64Array:
        """Return the rows of the lanes that a lane follows, a read-only view."""
        return self.behind_rows[self.behind_starts[lane] : self.behind_starts[lane + 1]]


def read_network(
    elements: Sequence[MapElement], *, lanes: Int64Array, ids: Sequence[str], ids_to_el: dict[str, int], path: str
) -> LaneNetwork:
    """Return the network of a map.

    Args:
        elements: The messages of the map.
        lanes: Elements that are lanes, in the order of their rows, (L,).
        ids: Id of each element.
        ids_to_el: Element that each id stands for where it is not that of a lane.
        path: The file, for error texts.

    Raises:
        CorruptedDataError: A lane names an id that is no UTF-8 text.
    """
    order = np.argsort(lanes).tolist()  # of several lanes with one id the last of the file counts
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

    # the lanes that each lane follows, in file order and each once
    behind_sets: list[dict[int, None]] = [{} for _ in ahead]
    for row in order:
        if row in is_known:
            for following in ahead[row]:
                if following < len(ahead):
                    behind_sets[following][row] = None
    behind = [list(rows) for rows in behind_sets]

    # a lane of a junction has the lowest limit of the lanes outside that it connects, as no segment tells one
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
    """Return the id of an element that another one names.

    Args:
        content: The id as it stands in the map.
        holder: Which element of which file names it, for the error text.

    Raises:
        CorruptedDataError: It is not UTF-8 text.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptedDataError(
            f"{holder} names the id {content!r}, which is no UTF-8 text; the map is damaged, restore it"
        ) from error


@dataclass
class _Names:
    """Rows of ids: of lanes, and of what else lanes name."""

    row_of_id: dict[str, int]
    texts: list[str]
    path: str

    def text_of(self, row: int, reference: GlobalId) -> str:
        """Return an id that the lane in a row names."""
        return decode_reference(reference.id, f"map file {self.path}: lane {self.texts[row]!r}")

    def row_of(self, row: int, reference: GlobalId) -> int:
        """Return the row of what the lane in a row names."""
        text = self.text_of(row, reference)
        named_row = self.row_of_id.setdefault(text, len(self.texts))
        if named_row == len(self.texts):
            self.texts.append(text)
        return named_row


class _Parents:
    """Segments and junctions of lanes, each looked at once."""

    def __init__(self, elements: Sequence[MapElement], ids_to_el: dict[str, int]) -> None:
        self._elements = elements
        self._ids_to_el = ids_to_el
        self._known: dict[str, tuple[bool, float, float]] = {}

    def limit_of(self, lane: Lane, parent_id: str) -> tuple[bool, float]:
        """Return whether a lane is part of a junction, and the limit of its segment in its direction, NaN for none."""
        if parent_id not in self._known:
            position = self._ids_to_el.get(parent_id) if parent_id else None
            self._known[parent_id] = False, 0.0, 0.0
            if position is not None:
                # of what is no segment, both limits are 0, as for one without limits
                parent = self._elements[position].element
                forward_mps = parent.segment.speed_limit_meters_per_second
                backward_mps = parent.segment.backward_direction_speed_limit_meters_per_second
                self._known[parent_id] = parent.HasField("junction"), forward_mps, backward_mps
        is_junction, forward_mps, backward_mps = self._known[parent_id]
        # one limit holds for both directions where none is told for the backward one
        is_backward = lane.orientation_in_parent_segment == RoadNetworkSegment.ONE_WAY_BACKWARD
        limit_mps = (backward_mps or forward_mps) if is_backward else forward_mps
        return is_junction, limit_mps if limit_mps > 0 else np.nan


def first_lanes_outside(lane: int, neighbours: list[list[int]], is_in_junction: list[bool]) -> set[int]:
    """Return the lanes outside of junctions that are first met in one direction.

    Args:
        lane: Row of the lane to start from.
        neighbours: What follows each lane, or what each lane follows.
        is_in_junction: Which lanes are part of a junction.
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
    """Return where each list starts, the end included, and what is in all of them."""
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.array([row for rows in lists for row in rows], dtype=np.int64)
