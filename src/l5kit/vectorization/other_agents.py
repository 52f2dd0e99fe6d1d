"""Other agents: which ones around a target are in its vector sample, and where they were and will be."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray, RecordArray, UInt64Array
from l5kit.data.array_shapes import require_shapes
from l5kit.data.filter import kept_probability
from l5kit.data.relative_poses import PoseArrays, RelativePoses
from l5kit.data.set_order import set_table_size, sort_as_set
from l5kit.data.windows import Targets, Windows
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy


class ChoiceMemory(NamedTuple):
    """What kernels need to choose the other agents of one window: memory, and who was met in it.

    ``met`` are the rows in its H history frames that may be chosen, one for each of R places; ``candidates`` are their
    tracks, numbered in the order in which they come first, for which there are as many places.

    Attributes:
        met_rows: The rows, int64 (R,).
        met_ids: Their tracks, uint64 (R,).
        met_distances_m: Their distances, (R,).
        met_starts: First place of each frame, signed integers, (H,).
        met_stops: End place of each frame, signed integers, (H,).
        table: Candidates by track, a hash table of :func:`hash_table_size` of R: -1 before and after each window.
        ids: Track of each candidate, uint64 (R,).
        first_met: Where among ``met`` each came first, signed integers (R,).
        nearest_met: Where each was nearest, signed integers (R,).
        places: Where each stands in ``table``, signed integers (R,).
        order: The chosen candidates, signed integers (M,).
        set_tables: As :func:`l5kit.data.set_order.sort_as_set` takes them for M ids.
        slots: Rows of a sample by track, a hash table of :func:`slot_table_size` of M.
    """

    met_rows: Int64Array
    met_ids: UInt64Array
    met_distances_m: Float64Array
    met_starts: NumericArray
    met_stops: NumericArray
    table: NumericArray
    ids: UInt64Array
    first_met: NumericArray
    nearest_met: NumericArray
    places: NumericArray
    order: NumericArray
    set_tables: NumericArray
    slots: NumericArray


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


class _SeenTargets(NamedTuple):
    """Targets inside kernels.

    Attributes:
        ids: Their tracks, uint64.
        centroids_m: Where they are, world.
        yaws_rad: Their headings.
        agent_from_world: The frames of targets.
    """

    ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    agent_from_world: Float64Array


class MetAgents(NamedTuple):
    """Those that may be chosen: their rows, tracks and distances."""

    rows: NumericArray
    ids: NumericArray
    distances_m: Float64Array


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
        np.zeros(len(windows), np.uint64) if track_ids is None else track_ids.astype(np.uint64),
        targets.centroids_m,
        targets.yaws_rad.astype(np.float32),
        targets.agent_from_world,
    )
    poses = (found.past.as_arrays(), found.future.as_arrays())
    for rows, part in windows.agents.parts():
        _write_windows(
            rows,
            (part.start, part.stop),
            windows.agents.starts,
            windows.agents.stops,
            (windows.num_history, num_kept),
            (track_ids is not None, seen),
            (float(choice.max_distance_m), np.float32(choice.threshold), choice.is_by_distance),
            poses,
            (found.types, found.track_ids),
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _write_windows(
    rows: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    num_frames: tuple[int, int],
    targets: tuple[bool, tuple[NumericArray, ...]],
    choice: tuple[float, np.float32, bool],
    pose_arrays: tuple[tuple[NumericArray, ...], tuple[NumericArray, ...]],
    chosen: tuple[Int64Array, Int64Array],
) -> None:
    """Write the other agents of the windows ``part``, whose agents are ``rows``.

    ``num_frames`` are the history frames and those of them that are written, ``choice`` is distance, threshold and
    order.
    """
    num_history, num_kept = num_frames
    has_track, seen = targets[0], _SeenTargets(*targets[1])
    past, future = PoseArrays(*pose_arrays[0]), PoseArrays(*pose_arrays[1])
    types, track_ids = chosen
    most_rows = _most_rows(starts[part[0] : part[1], :num_history], stops[part[0] : part[1], :num_history])
    memory = _new_memory(most_rows, num_history, types.shape[1])
    met = MetAgents(memory.met_rows, memory.met_ids, memory.met_distances_m)
    for window in range(part[0], part[1]):
        target, end = (has_track, seen.ids[window]), 0
        for frame in range(num_history):
            memory.met_starts[frame] = end
            frame_rows = starts[window, frame], stops[window, frame]
            end = meet_agents(rows, frame_rows, seen.centroids_m[window], choice[:2], target, end, met)
            memory.met_stops[frame] = end
        choose_agents(rows, choice[2], memory, types[window], track_ids[window])
        pose = seen.agent_from_world[window], seen.yaws_rad[window]
        for frame in range(num_kept):
            frame_rows = starts[window, frame], stops[window, frame]
            write_frame(rows, frame_rows, memory.slots, track_ids[window], pose, past, (window, frame))
        for frame in range(num_history, starts.shape[1]):
            frame_rows = starts[window, frame], stops[window, frame]
            write_frame(rows, frame_rows, memory.slots, track_ids[window], pose, future, (window, frame - num_history))


@njit(nogil=True, cache=True, error_model="numpy")
def _most_rows(starts: Int64Array, stops: Int64Array) -> int:
    """Return the rows of the window (B, H) that has most."""
    most = 0
    for window in range(len(starts)):
        most = max(most, np.sum(stops[window] - starts[window]))
    return most


@njit(nogil=True, cache=True, error_model="numpy")
def _new_memory(most_rows: int, num_history: int, max_agents: int) -> ChoiceMemory:
    """Return memory for windows with so many rows in so many history frames."""
    return ChoiceMemory(
        np.empty(most_rows, np.int64),
        np.empty(most_rows, np.uint64),
        np.empty(most_rows, np.float64),
        np.empty(num_history, np.int64),
        np.empty(num_history, np.int64),
        np.full(hash_table_size(most_rows), -1, np.int64),
        np.empty(most_rows, np.uint64),
        np.empty(most_rows, np.int64),
        np.empty(most_rows, np.int64),
        np.empty(most_rows, np.int64),
        np.empty(max_agents, np.int64),
        np.empty(2 * set_table_size(max_agents), np.int64),
        np.empty(slot_table_size(max_agents), np.int64),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def hash_table_size(num_ids: int) -> int:
    """Return the size of a hash table of so many ids, a power of 2."""
    size = 16
    while size < 2 * num_ids:
        size *= 2
    return size


@njit(nogil=True, cache=True, error_model="numpy")
def slot_table_size(max_agents: int) -> int:
    """Return the size of the hash table of the chosen agents: so empty that most of the others are told at once."""
    return hash_table_size(4 * max_agents)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _place_of(track_id: np.uint64, table: NumericArray, ids: NumericArray) -> np.int64:
    """Return where a track stands in a hash table of rows of ``ids``, or where it would come."""
    mask = np.uint64(len(table) - 1)
    place = (track_id * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
    while table[place] >= 0 and np.uint64(ids[table[place]]) != track_id:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def meet_agents(
    rows: RecordArray,
    frame_rows: tuple[int, int],
    centroid_m: Float64Array,
    limits: tuple[float, np.float32],
    target: tuple[bool, int],
    first: int,
    met: MetAgents,
) -> int:
    """Write the rows of one frame that may be chosen to the ``met`` of a window, from ``first`` on; return their end.

    ``limits`` are distance and threshold, ``target`` is whether it has a track, and which.
    """
    end = first
    for row in range(frame_rows[0], frame_rows[1]):
        agent = rows[row]
        x, y = agent.centroid[0] - centroid_m[0], agent.centroid[1] - centroid_m[1]
        distance_m = math.sqrt(x * x + y * y)
        if not distance_m < limits[0] or (target[0] and agent.track_id == target[1]):
            continue
        if not kept_probability(agent.label_probabilities) > limits[1]:
            continue
        met.rows[end], met.ids[end], met.distances_m[end] = row, agent.track_id, distance_m
        end += 1
    return end


@njit(nogil=True, cache=True, error_model="numpy")
def choose_agents(
    rows: RecordArray, is_by_distance: bool, memory: ChoiceMemory, types: Int64Array, track_ids: Int64Array
) -> None:
    """Choose among those that were met in one window, and write their labels and tracks (M,) and ``slots``."""
    num_candidates, num_current = _find_candidates(memory)
    num_chosen = _append_nearest(0, num_current, 0, memory)
    num_chosen = _append_nearest(num_current, num_candidates, num_chosen, memory)
    chosen = memory.order[:num_chosen]
    if not is_by_distance:
        sort_as_set(memory.ids, chosen, memory.set_tables)
    memory.slots[:] = -1
    for slot in range(num_chosen):
        candidate = chosen[slot]
        memory.slots[_place_of(memory.ids[candidate], memory.slots, track_ids)] = slot
        track_ids[slot] = memory.ids[candidate]
        types[slot] = most_likely(rows[memory.met_rows[memory.first_met[candidate]]].label_probabilities)
    for candidate in range(num_candidates):
        memory.table[memory.places[candidate]] = -1


@njit(nogil=True, cache=True, error_model="numpy")
def _find_candidates(memory: ChoiceMemory) -> tuple[int, int]:
    """Number the tracks that were met in one window; return their number, and how many are in the first frame.

    Those of the first frame are nearest in this frame, whatever comes later.
    """
    num_candidates = num_current = 0
    for frame in range(len(memory.met_starts)):
        for met in range(memory.met_starts[frame], memory.met_stops[frame]):
            place = _place_of(memory.met_ids[met], memory.table, memory.ids)
            candidate = memory.table[place]
            if candidate < 0:
                memory.table[place], memory.places[num_candidates] = num_candidates, place
                memory.ids[num_candidates] = memory.met_ids[met]
                memory.first_met[num_candidates] = memory.nearest_met[num_candidates] = met
                num_candidates += 1
            elif frame == 0 or candidate >= num_current:
                nearest_m = memory.met_distances_m[memory.nearest_met[candidate]]
                if memory.met_distances_m[met] < nearest_m:
                    memory.nearest_met[candidate] = met
        if frame == 0:
            num_current = num_candidates
    return num_candidates, num_current


@njit(nogil=True, cache=True, error_model="numpy")
def _append_nearest(first: int, end: int, num_chosen: int, memory: ChoiceMemory) -> int:
    """Append candidates to the chosen ones, closest first, while there is room; return how many are chosen then.

    Those at the same distance come as they were met.
    """
    order, begin = memory.order, num_chosen
    for candidate in range(first, end):
        i = num_chosen
        if num_chosen == len(order):
            if i == begin or not _comes_before(candidate, order[i - 1], memory):
                continue
            i -= 1
        else:
            num_chosen += 1
        while i > begin and _comes_before(candidate, order[i - 1], memory):
            order[i] = order[i - 1]
            i -= 1
        order[i] = candidate
    return num_chosen


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _comes_before(one: int, other: int, memory: ChoiceMemory) -> Any:
    first, second = memory.nearest_met[one], memory.nearest_met[other]
    if memory.met_distances_m[first] == memory.met_distances_m[second]:
        return first < second
    return memory.met_distances_m[first] < memory.met_distances_m[second]


@njit(nogil=True, cache=True, error_model="numpy")
def most_likely(label_probabilities: Float32Array) -> int:
    """Return the label of the largest of probabilities (17,), the first of several, as ``numpy.argmax`` does."""
    label, probability = 0, label_probabilities[0]
    for i in range(1, len(label_probabilities)):
        if np.isnan(probability):
            break
        if label_probabilities[i] > probability or np.isnan(label_probabilities[i]):
            label, probability = i, label_probabilities[i]
    return label


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def write_frame(
    rows: RecordArray,
    frame_rows: tuple[int, int],
    slots: NumericArray,
    track_ids: Int64Array,
    pose: tuple[Float64Array, np.float32],
    tracks: PoseArrays,
    place: tuple[int, int],
) -> None:
    """Write the chosen agents among the rows of one frame; of several rows of a track the first counts.

    ``slots`` is the hash table of the chosen ``track_ids`` (M,), ``place`` the window and frame that are written.
    """
    window, frame = place
    for row in range(frame_rows[0], frame_rows[1]):
        agent = rows[row]
        slot = slots[_place_of(agent.track_id, slots, track_ids)]
        if slot < 0 or tracks.availabilities[window, slot, frame]:
            continue
        x, y = transform_xy(pose[0], agent.centroid[0], agent.centroid[1])
        tracks.positions_m[window, slot, frame, 0], tracks.positions_m[window, slot, frame, 1] = x, y
        tracks.yaws_rad[window, slot, frame, 0] = angular_distance_float32(agent.yaw, pose[1])
        tracks.extents_m[window, slot, frame, 0] = agent.extent[0]
        tracks.extents_m[window, slot, frame, 1] = agent.extent[1]
        tracks.availabilities[window, slot, frame] = True
