"""Which agents around a target are in its vector sample, and where they were and will be."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.filter import kept_probability
from l5kit.data.set_order import order_in_set
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy
from l5kit.vectorization.vector_windows import VectorWindows

TrackArrays = tuple[Float32Array, Float32Array, Float32Array, BoolArray]
"""Positions, headings, extents and availabilities of tracks."""

CandidateArrays = tuple[NumericArray, Float64Array, Int64Array, Int64Array, Int64Array, Int64Array]
"""Ids, smallest distances, where among the rows those were met, labels, places in the hash table, and rows of the
sample, of the agents that may be chosen."""


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
class AgentTracks:
    """M tracks in each of B windows over T frames, as seen by the targets; zeros where a track is not there.

    Attributes:
        positions_m: (B, M, T, 2) float32, x forward, y left.
        yaws_rad: (B, M, T, 1) float32, in [-pi, pi).
        extents_m: Length and width, (B, M, T, 2) float32.
        availabilities: (B, M, T) bool.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: BoolArray

    @classmethod
    def empty(cls, num_windows: int, num_tracks: int, num_frames: int) -> "AgentTracks":
        """Return tracks that are in no frame."""
        shape = num_windows, num_tracks, num_frames
        return cls(
            np.zeros((*shape, 2), np.float32),
            np.zeros((*shape, 1), np.float32),
            np.zeros((*shape, 2), np.float32),
            np.zeros(shape, np.bool_),
        )

    def as_arrays(self) -> TrackArrays:
        """Return the four arrays."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities


@dataclass(frozen=True)
class OtherAgents:
    """The other agents of B windows.

    Attributes:
        past: Newest frame first.
        future: Nearest frame first.
        types: The most likely label of each, in the newest frame that it was chosen from, (B, M); 0 for no agent.
        track_ids: (B, M); 0 for no agent.
    """

    past: AgentTracks
    future: AgentTracks
    types: Int64Array
    track_ids: Int64Array

    @classmethod
    def empty(cls, num_windows: int, num_agents: int, *, num_history: int, num_future: int) -> "OtherAgents":
        """Return windows without other agents."""
        return cls(
            AgentTracks.empty(num_windows, num_agents, num_history),
            AgentTracks.empty(num_windows, num_agents, num_future),
            np.zeros((num_windows, num_agents), np.int64),
            np.zeros((num_windows, num_agents), np.int64),
        )


def write_other_agents(windows: VectorWindows, choice: AgentChoice, found: OtherAgents, *, num_kept: int) -> None:
    """Choose agents around the targets and write where they are.

    An agent may be chosen if one of its rows in the history frames passes the label filter and comes closer than the
    largest distance to where the target is now. Those of the current frame come first, the closest before the others;
    then those of past frames, by their smallest distance. Where the chosen ones are is taken from all rows.

    Args:
        windows: B windows.
        choice: Which agents.
        found: Where to write; no agents yet.
        num_kept: History frames that are written.
    """
    num_windows, has_target = len(windows), windows.track_ids is not None
    targets = np.zeros(num_windows, np.uint64) if windows.track_ids is None else windows.track_ids.astype(np.uint64)
    yaws_rad = windows.yaws_rad.astype(np.float32)
    for rows, part in windows.agents.parts():
        _write_windows(
            rows,
            (part.start, part.stop),
            windows.agents.starts,
            windows.agents.stops,
            (windows.num_history, num_kept),
            targets,
            has_target,
            windows.centroids_m,
            yaws_rad,
            windows.agent_from_world,
            (float(choice.max_distance_m), np.float32(choice.threshold), choice.is_by_distance),
            found.past.as_arrays(),
            found.future.as_arrays(),
            found.types,
            found.track_ids,
        )


@njit(nogil=True, cache=True)
def _write_windows(
    rows: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    num_frames: tuple[int, int],
    targets: NumericArray,
    has_target: bool,
    centroids_m: Float64Array,
    yaws_rad: Float32Array,
    agent_from_world: Float64Array,
    choice: tuple[float, np.float32, bool],
    past: TrackArrays,
    future: TrackArrays,
    types: Int64Array,
    track_ids: Int64Array,
) -> None:
    """Write the other agents of the windows ``part``, whose agents are ``rows``.

    ``num_frames`` are the history frames and those of them that are written, ``choice`` is distance, threshold and
    order.
    """
    num_history, num_kept = num_frames
    max_distance_m, threshold, is_by_distance = choice
    most_rows = _most_rows(starts[part[0] : part[1], :num_history], stops[part[0] : part[1], :num_history])
    table, candidates = np.full(_table_size(most_rows), -1, np.int64), _new_candidates(most_rows)
    ids, _, _, _, places, slots = candidates
    for window in range(part[0], part[1]):
        num_candidates, num_current = _find_candidates(
            rows,
            starts[window, :num_history],
            stops[window, :num_history],
            centroids_m[window],
            max_distance_m,
            threshold,
            (has_target, targets[window]),
            table,
            candidates,
        )
        order = _choose(candidates, num_candidates, num_current, types.shape[1], is_by_distance)
        _give_slots(order, num_candidates, candidates, types[window], track_ids[window])
        pose = agent_from_world[window], yaws_rad[window]
        for frame in range(num_kept):
            first, end = starts[window, frame], stops[window, frame]
            _write_frame(rows, first, end, table, ids, slots, pose, past, (window, frame))
        for frame in range(num_history, starts.shape[1]):
            first, end = starts[window, frame], stops[window, frame]
            _write_frame(rows, first, end, table, ids, slots, pose, future, (window, frame - num_history))
        for candidate in range(num_candidates):
            table[places[candidate]] = -1


@njit(nogil=True, cache=True)
def _most_rows(starts: Int64Array, stops: Int64Array) -> int:
    """Return the rows of the window (B, H) that has most."""
    most = 0
    for window in range(len(starts)):
        most = max(most, np.sum(stops[window] - starts[window]))
    return most


@njit(nogil=True, cache=True)
def _new_candidates(count: int) -> CandidateArrays:
    """Return memory for so many candidates."""
    return (
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


@njit(nogil=True, cache=True)
def _give_slots(
    order: Int64Array, num_candidates: int, candidates: CandidateArrays, types: Int64Array, track_ids: Int64Array
) -> None:
    """Give the chosen candidates the rows of a sample, (M,), in their order, and all others none."""
    ids, _, _, labels, _, slots = candidates
    slots[:num_candidates] = -1
    for slot, candidate in enumerate(order):
        slots[candidate] = slot
        types[slot], track_ids[slot] = labels[candidate], ids[candidate]


@njit(nogil=True, cache=True)
def _table_size(num_ids: int) -> int:
    """Return the size of a hash table of so many ids, a power of 2."""
    size = 16
    while size < 2 * num_ids:
        size *= 2
    return size


@njit(nogil=True, cache=True)
def _place_of(track_id: int, table: Int64Array, ids: NumericArray) -> Any:
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
    max_distance_m: float,
    threshold: np.float32,
    target: tuple[bool, int],
    table: Int64Array,
    candidates: CandidateArrays,
) -> tuple[int, int]:
    """Write the agents of one window that may be chosen; return their number, and how many are in the first frame.

    The smallest distance of an agent of the first frame is that in this frame.
    """
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
    candidates: CandidateArrays, num_candidates: int, num_current: int, max_agents: int, is_by_distance: bool
) -> Int64Array:
    """Return the chosen candidates in their order."""
    ids, distances_m, met_at = candidates[0], candidates[1], candidates[2]
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
    first: int,
    end: int,
    table: Int64Array,
    ids: NumericArray,
    slots: Int64Array,
    pose: tuple[Float64Array, np.float32],
    tracks: TrackArrays,
    place: tuple[int, int],
) -> None:
    """Write the chosen agents among the rows of one frame; of several rows of a track the first counts."""
    positions_m, yaws_rad, extents_m, availabilities = tracks
    window, frame = place
    for row in range(first, end):
        agent = rows[row]
        candidate = table[_place_of(agent.track_id, table, ids)]
        slot = slots[candidate] if candidate >= 0 else -1
        if slot < 0 or availabilities[window, slot, frame]:
            continue
        x, y = transform_xy(pose[0], agent.centroid[0], agent.centroid[1])
        positions_m[window, slot, frame, 0], positions_m[window, slot, frame, 1] = x, y
        yaws_rad[window, slot, frame, 0] = angular_distance_float32(agent.yaw, pose[1])
        extents_m[window, slot, frame, 0] = agent.extent[0]
        extents_m[window, slot, frame, 1] = agent.extent[1]
        availabilities[window, slot, frame] = True
