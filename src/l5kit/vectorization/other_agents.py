"""Other agents: which ones around a target are in its vector sample, and where they were and will be."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import require_shapes
from l5kit.data.filter import kept_probability
from l5kit.data.relative_poses import PoseArrays, RelativePoses
from l5kit.data.set_order import order_in_set
from l5kit.data.windows import Targets, Windows
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy


class Candidates(NamedTuple):
    """The agents that may be chosen.

    Attributes:
        ids: Their tracks.
        distances_m: Their smallest distances.
        met_at: Where among the rows those were met.
        labels: Their most likely labels.
        places: Where they stand in the hash table.
        slots: Their rows of the sample, -1 for none.
    """

    ids: NumericArray
    distances_m: Float64Array
    met_at: Int64Array
    labels: Int64Array
    places: Int64Array
    slots: Int64Array


@dataclass(frozen=True)
class AgentChoice:
    """Which agents are chosen.

    Attributes:
        max_agents: How many at most, M.
        max_distance_m: Strict upper bound of their distance from the target.
        threshold: Strict lower bound of the summed probability of the kept classes.
        is_by_distance: Whether they come closest first; else in the order of L5Kit 1.5, that of a Python set.
    """

    max_agents: int
    max_distance_m: float
    threshold: float
    is_by_distance: bool


@dataclass(frozen=True)
class OtherAgents:
    """The M other agents of B windows, as seen by the targets.

    Attributes:
        past: Newest frame first, (B, M, H).
        future: Nearest frame first, (B, M, F).
        types: The most likely label of each, in the newest frame that it was chosen from, (B, M); 0 for no agent.
        track_ids: (B, M); 0 for no agent.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    past: RelativePoses
    future: RelativePoses
    types: Int64Array
    track_ids: Int64Array

    def __post_init__(self) -> None:
        shape = self.past.availabilities.shape[:2]
        require_shapes(self, types=shape, track_ids=shape)
        require_shapes(self.future, availabilities=(*shape, *self.future.availabilities.shape[2:]))

    @classmethod
    def of_none(cls, num_windows: int, num_agents: int, *, num_history: int, num_future: int) -> "OtherAgents":
        """Return windows without other agents."""
        return cls(
            RelativePoses.of_no_track(num_windows, num_agents, num_history),
            RelativePoses.of_no_track(num_windows, num_agents, num_future),
            np.zeros((num_windows, num_agents), np.int64),
            np.zeros((num_windows, num_agents), np.int64),
        )


_SeenTargets = tuple[bool, NumericArray, Float64Array, Float32Array, Float64Array]
"""Whether targets have tracks, these as uint64, positions, headings as float32, and frames of targets."""

_FoundArrays = tuple[PoseArrays, PoseArrays, Int64Array, Int64Array]
"""Past, future, labels and tracks of :class:`OtherAgents`."""


def write_other_agents(
    windows: Windows, targets: Targets, choice: AgentChoice, found: OtherAgents, *, num_kept: int
) -> None:
    """Choose agents around the targets and write where they are.

    An agent may be chosen if one of its rows in the history frames passes the label filter and comes closer than the
    largest distance to where the target is now. Those of the current frame come first, the closest before the others;
    then those of past frames, by their smallest distance. Where the chosen ones are is taken from all rows.

    Args:
        windows: B windows.
        targets: Whom they are about.
        choice: Which agents.
        found: Where to write; no agents yet.
        num_kept: History frames that are written.
    """
    track_ids = targets.track_ids
    seen = (
        track_ids is not None,
        np.zeros(len(windows), np.uint64) if track_ids is None else track_ids.astype(np.uint64),
        targets.centroids_m,
        targets.yaws_rad.astype(np.float32),
        targets.agent_from_world,
    )
    arrays = (found.past.as_arrays(), found.future.as_arrays(), found.types, found.track_ids)
    for rows, part in windows.agents.parts():
        _write_windows(
            rows,
            (part.start, part.stop),
            windows.agents.starts,
            windows.agents.stops,
            (windows.num_history, num_kept),
            seen,
            (float(choice.max_distance_m), np.float32(choice.threshold), choice.is_by_distance),
            arrays,
        )


@njit(nogil=True, cache=True)
def _write_windows(
    rows: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    num_frames: tuple[int, int],
    targets: _SeenTargets,
    choice: tuple[float, np.float32, bool],
    found: _FoundArrays,
) -> None:
    """Write the other agents of the windows ``part``, whose agents are ``rows``.

    ``num_frames`` are the history frames and those of them that are written, ``choice`` is distance, threshold and
    order.
    """
    num_history, num_kept = num_frames
    has_track, target_ids, centroids_m, yaws_rad, agent_from_world = targets
    past, future, types, track_ids = found
    most_rows = _most_rows(starts[part[0] : part[1], :num_history], stops[part[0] : part[1], :num_history])
    table, candidates = np.full(_table_size(most_rows), -1, np.int64), _new_candidates(most_rows)
    for window in range(part[0], part[1]):
        num_candidates, num_current = _find_candidates(
            rows,
            starts[window, :num_history],
            stops[window, :num_history],
            centroids_m[window],
            choice[:2],
            (has_track, target_ids[window]),
            table,
            candidates,
        )
        order = _choose(candidates, num_candidates, num_current, types.shape[1], choice[2])
        _give_slots(order, num_candidates, candidates, types[window], track_ids[window])
        pose = agent_from_world[window], yaws_rad[window]
        for frame in range(num_kept):
            frame_rows = starts[window, frame], stops[window, frame]
            _write_frame(rows, frame_rows, table, candidates, pose, past, (window, frame))
        for frame in range(num_history, starts.shape[1]):
            frame_rows = starts[window, frame], stops[window, frame]
            _write_frame(rows, frame_rows, table, candidates, pose, future, (window, frame - num_history))
        for candidate in range(num_candidates):
            table[candidates.places[candidate]] = -1


@njit(nogil=True, cache=True)
def _most_rows(starts: Int64Array, stops: Int64Array) -> int:
    """Return the rows of the window (B, H) that has most."""
    most = 0
    for window in range(len(starts)):
        most = max(most, np.sum(stops[window] - starts[window]))
    return most


@njit(nogil=True, cache=True)
def _new_candidates(count: int) -> Candidates:
    """Return memory for so many candidates."""
    return Candidates(
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


@njit(nogil=True, cache=True)
def _give_slots(
    order: Int64Array, num_candidates: int, candidates: Candidates, types: Int64Array, track_ids: Int64Array
) -> None:
    """Give the chosen candidates the rows of a sample, (M,), in their order, and all others none."""
    candidates.slots[:num_candidates] = -1
    for slot, candidate in enumerate(order):
        candidates.slots[candidate] = slot
        types[slot], track_ids[slot] = candidates.labels[candidate], candidates.ids[candidate]


@njit(nogil=True, cache=True)
def _table_size(num_ids: int) -> int:
    """Return the size of a hash table of so many ids, a power of 2."""
    size = 16
    while size < 2 * num_ids:
        size *= 2
    return size


@njit(nogil=True, cache=True)
def _place_of(track_id: int, table: Int64Array, ids: NumericArray) -> np.int64:
    """Return where an id stands in a hash table of rows of ``ids``, or where it would come."""
    mask = np.uint64(len(table) - 1)
    place = (np.uint64(track_id) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
    while table[place] >= 0 and ids[table[place]] != track_id:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@njit(nogil=True, cache=True)
def _find_candidates(
    rows: RecordArray,
    starts: Int64Array,
    stops: Int64Array,
    centroid_m: Float64Array,
    limits: tuple[float, np.float32],
    target: tuple[bool, int],
    table: Int64Array,
    candidates: Candidates,
) -> tuple[int, int]:
    """Write the agents of one window that may be chosen; return their number, and how many are in the first frame.

    ``limits`` are distance and threshold. The smallest distance of an agent of the first frame is that in this frame.
    """
    max_distance_m, threshold = limits
    ids, distances_m, met_at, labels, places, _ = candidates
    num_candidates = num_current = 0
    for frame in range(len(starts)):
        for row in range(starts[frame], stops[frame]):
            agent = rows[row]
            x, y = agent.centroid[0] - centroid_m[0], agent.centroid[1] - centroid_m[1]
            distance_m = math.sqrt(x * x + y * y)
            if not distance_m < max_distance_m or (target[0] and agent.track_id == target[1]):
                continue
            if not kept_probability(agent.label_probabilities) > threshold:
                continue
            place = _place_of(agent.track_id, table, ids)
            candidate = table[place]
            if candidate < 0:
                candidate = num_candidates
                num_candidates += 1
                table[place], places[candidate], ids[candidate] = candidate, place, agent.track_id
                distances_m[candidate], labels[candidate] = np.inf, np.argmax(agent.label_probabilities)
            if (frame == 0 or candidate >= num_current) and distance_m < distances_m[candidate]:
                distances_m[candidate], met_at[candidate] = distance_m, frame * len(rows) + row
        if frame == 0:
            num_current = num_candidates
    return num_candidates, num_current


@njit(nogil=True, cache=True)
def _choose(
    candidates: Candidates, num_candidates: int, num_current: int, max_agents: int, is_by_distance: bool
) -> Int64Array:
    """Return the chosen candidates in their order."""
    ids, distances_m, met_at = candidates.ids, candidates.distances_m, candidates.met_at
    order = np.arange(num_candidates)
    _sort_by_distance(order[:num_current], distances_m, met_at)
    _sort_by_distance(order[num_current:], distances_m, met_at)
    chosen = order[:max_agents]
    return chosen if is_by_distance else chosen[order_in_set(ids[chosen])]


@njit(nogil=True, cache=True)
def _sort_by_distance(order: Int64Array, distances_m: Float64Array, met_at: Int64Array) -> None:
    """Sort a few candidates by their smallest distance, those at the same distance as they were met."""
    for end in range(1, len(order)):
        candidate, i = order[end], end
        while i > 0 and _comes_before(candidate, order[i - 1], distances_m, met_at):
            order[i] = order[i - 1]
            i -= 1
        order[i] = candidate


@njit(nogil=True, cache=True)
def _comes_before(one: int, other: int, distances_m: Float64Array, met_at: Int64Array) -> Any:
    if distances_m[one] == distances_m[other]:
        return met_at[one] < met_at[other]
    return distances_m[one] < distances_m[other]


@njit(nogil=True, cache=True)
def _write_frame(
    rows: RecordArray,
    frame_rows: tuple[int, int],
    table: Int64Array,
    candidates: Candidates,
    pose: tuple[Float64Array, np.float32],
    tracks: PoseArrays,
    place: tuple[int, int],
) -> None:
    """Write the chosen agents among the rows of one frame; of several rows of a track the first counts."""
    positions_m, yaws_rad, extents_m, availabilities = tracks
    window, frame = place
    for row in range(frame_rows[0], frame_rows[1]):
        agent = rows[row]
        candidate = table[_place_of(agent.track_id, table, candidates.ids)]
        slot = candidates.slots[candidate] if candidate >= 0 else -1
        if slot < 0 or availabilities[window, slot, frame]:
            continue
        x, y = transform_xy(pose[0], agent.centroid[0], agent.centroid[1])
        positions_m[window, slot, frame, 0], positions_m[window, slot, frame, 1] = x, y
        yaws_rad[window, slot, frame, 0] = angular_distance_float32(agent.yaw, pose[1])
        extents_m[window, slot, frame, 0] = agent.extent[0]
        extents_m[window, slot, frame, 1] = agent.extent[1]
        availabilities[window, slot, frame] = True
