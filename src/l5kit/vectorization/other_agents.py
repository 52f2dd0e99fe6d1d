"""Other agents in vector samples: selection around a target, and their past and future."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray, RecordArray, UInt64Array
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.device_log import DeviceLog
from l5kit.data.filter import kept_probability
from l5kit.data.index.windows import NewArray, PoseArrays, RelativePoses, TargetArrays, Targets, WindowArrays, Windows
from l5kit.data.set_order import set_table_size, sort_as_set
from l5kit.device.backend import KernelArguments
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy

_FIRST: Final[Any] = np.int64(0)
"""Used instead of a literal, for which numba would compile callees again."""


class ChoiceMemory(NamedTuple):
    """Memory of kernels for the selection of other agents of one window.

    The ``met`` arrays hold the candidate rows in its H history frames, R entries; candidates are their tracks, in order
    of first appearance, also R entries.

    Attributes:
        met_rows: The rows, int64 (R,).
        met_ids: Their tracks, uint64 (R,).
        met_distances_m: Their distances, (R,).
        met_starts: First entry of each frame, signed integers, (H,).
        met_stops: End entry of each frame, signed integers, (H,).
        table: Candidates by track, a hash table of :func:`hash_table_size` of R; all -1 before and after each window.
        ids: Track of each candidate, uint64 (R,).
        first_met: First entry of each candidate among ``met``, signed integers (R,).
        nearest_met: Nearest entry of each candidate, signed integers (R,).
        table_slots: Slot of each candidate in ``table``, signed integers (R,).
        order: The selected candidates, signed integers (M,).
        set_tables: Memory of :func:`l5kit.data.set_order.sort_as_set` for M ids.
        slots: Rows of a sample by track, a hash table of :func:`hash_table_size` of 4 M.
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
    table_slots: NumericArray
    order: NumericArray
    set_tables: NumericArray
    slots: NumericArray


class ChoiceSizes(NamedTuple):
    """Sizes of the arrays of :class:`ChoiceMemory`.

    Attributes:
        rows: Largest number of agent rows in the history of a window; ids have twice as many entries, distances the
            same number.
        frames: History frames.
        agents: Largest number of selected agents.
        table: Slots for candidates.
        set_tables: Entries of two tables of a set.
        slots: Slots for selected agents.
        integers: Total number of integers of a window.
    """

    rows: int
    frames: int
    agents: int
    table: int
    set_tables: int
    slots: int
    integers: int

    @property
    def num_bytes(self) -> int:
        """Bytes of memory of a window; integers have four bytes."""
        return 4 * self.integers + 24 * self.rows


@dataclass(frozen=True)
class AgentChoice:
    """Selection of other agents.

    Attributes:
        max_agents: Maximum number of agents, M.
        max_distance_m: Strict upper bound of their distance from the target.
        threshold: Strict lower bound of the summed probability of the kept classes.
        is_by_distance: Whether they are ordered by distance; otherwise in the order of L5Kit 1.5, which is that of a
            Python set.
    """

    max_agents: int
    max_distance_m: float
    threshold: float
    is_by_distance: bool


@dataclass(frozen=True)
class OtherAgents:
    """The M other agents of B windows, in the frames of the targets.

    Attributes:
        past: Newest frame first, (B, M, H).
        future: Nearest frame first, (B, M, F).
        types: Most likely label in the newest frame in which the agent qualifies, (B, M); 0 for no agent.
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
        if self.types.shape != shape or self.track_ids.shape != shape:
            refuse_shapes(self, types=shape, track_ids=shape)
        of_future = self.future.availabilities.shape
        if of_future[:2] != shape:
            refuse_shapes(self.future, availabilities=(*shape, *of_future[2:]))

    def mapped(self, view: Callable[[Any], Any]) -> "OtherAgents":
        """Return the agents with a function applied to each array, such as conversion to a tensor."""
        return OtherAgents(self.past.mapped(view), self.future.mapped(view), view(self.types), view(self.track_ids))

    @classmethod
    def of_none(
        cls, zeros: NewArray, num_windows: int, num_agents: int, *, num_history: int, num_future: int
    ) -> "OtherAgents":
        """Return windows without other agents, in arrays from ``zeros``."""
        shape = num_windows, num_agents
        return cls(
            RelativePoses.new(zeros, *shape, num_history, availabilities=np.bool_),
            RelativePoses.new(zeros, *shape, num_future, availabilities=np.bool_),
            zeros(shape, np.int64),
            zeros(shape, np.int64),
        )


class MetAgents(NamedTuple):
    """Candidates: their rows, tracks and distances."""

    rows: NumericArray
    ids: NumericArray
    distances_m: Float64Array


def write_other_agents(
    windows: Windows, targets: Targets, choice: AgentChoice, written: OtherAgents, *, num_kept: int
) -> None:
    """Select agents around the targets and write their past and future.

    An agent qualifies if one of its rows in the history frames passes the label filter and is closer than the largest
    distance to the current position of the target. Agents of the current frame come first, ordered by distance; then
    those of past frames only, by their smallest distance. Past and future of the selected agents are taken from all
    rows.

    Args:
        windows: B windows.
        targets: Their targets.
        choice: The selection.
        written: The output, which must hold no agents.
        num_kept: Number of history frames to write.
    """
    seen = tuple(targets.arrays)
    poses = (written.past.as_arrays(), written.future.as_arrays())
    for rows, part in windows.agents.parts():
        _write_windows(
            rows,
            (part.start, part.stop),
            windows.agents.starts,
            windows.agents.stops,
            (windows.num_history, num_kept),
            seen,
            (float(choice.max_distance_m), np.float32(choice.threshold), choice.is_by_distance),
            poses,
            (written.types, written.track_ids),
        )


def write_on_device(
    log: DeviceLog,
    windows: WindowArrays,
    targets: TargetArrays,
    choice: AgentChoice,
    written: OtherAgents,
    *,
    num_kept: int,
    sizes: ChoiceSizes,
    part: tuple[int, int],
) -> None:
    """Select agents around the targets of some windows and write their past and future, as on the host.

    Args:
        log: The log of the windows.
        windows: B windows.
        targets: Their targets.
        choice: The selection.
        written: The output, which must hold no agents.
        num_kept: Number of history frames to write.
        sizes: Memory of a window; excess rows of its history are ignored.
        part: First and end window.
    """
    backend, num_windows = log.backend, part[1] - part[0]
    memory = (
        backend.empty((num_windows, sizes.integers), np.int32),
        backend.empty((num_windows, 2 * sizes.rows), np.uint64),
        backend.empty((num_windows, sizes.rows), np.float64),
    )
    rows, first = log.agents, part[0]
    num_future = int(windows.is_there.shape[1]) - windows.num_history
    backend.run(
        _meet_agents,
        num_windows * windows.num_history,
        (first, float(choice.max_distance_m), np.float32(choice.threshold)),
        rows,
        windows,
        targets,
        sizes,
        memory,
    )
    backend.run(
        _choose_agents,
        num_windows,
        (first, choice.is_by_distance),
        rows,
        sizes,
        memory,
        (written.types, written.track_ids),
    )
    backend.run(
        _write_frames,
        num_windows * (num_kept + num_future),
        (first, num_kept, num_kept + num_future),
        rows,
        windows,
        targets,
        sizes,
        memory,
        written.track_ids,
        written.past.as_arrays(),
        written.future.as_arrays(),
    )


@kernel_jit
def _write_windows(
    rows: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    num_frames: tuple[int, int],
    target_arrays: tuple[Any, ...],
    choice: tuple[float, np.float32, bool],
    pose_arrays: tuple[tuple[NumericArray, ...], tuple[NumericArray, ...]],
    chosen: tuple[Int64Array, Int64Array],
) -> None:
    """Write the other agents of the windows ``part``, whose agents are ``rows``.

    ``num_frames`` holds the numbers of history frames and of those to write, ``choice`` distance, threshold and order.
    """
    num_history, num_kept = num_frames
    seen = TargetArrays(*target_arrays)
    past, future = PoseArrays(*pose_arrays[0]), PoseArrays(*pose_arrays[1])
    types, track_ids = chosen

    # all windows share memory for the window with most rows
    most_rows = 0
    for window in range(part[0], part[1]):
        most_rows = max(most_rows, np.sum(stops[window, :num_history] - starts[window, :num_history]))
    sizes = sizes_of_choice(most_rows, num_history, types.shape[1])
    integers, ids, distances_m = (
        np.empty((1, sizes.integers), np.int64),
        np.empty((1, 2 * most_rows), np.uint64),
        np.empty((1, most_rows)),
    )
    memory = _memory_of(_FIRST, (integers, ids, distances_m), sizes)
    memory.table[:] = -1
    met = MetAgents(memory.met_rows, memory.met_ids, memory.met_distances_m)
    for window in range(part[0], part[1]):
        # find agents that are near in any history frame, and select among them
        target, end = (seen.has_tracks, seen.track_ids[window]), 0
        for frame in range(num_history):
            memory.met_starts[frame] = end
            frame_rows = starts[window, frame], stops[window, frame]
            end = meet_agents(rows, frame_rows, seen.centroids_m[window], choice[:2], target, end, met)
            memory.met_stops[frame] = end
        choose_agents(rows, choice[2], memory, types[window], track_ids[window])

        # write their states in all frames, near or not
        pose = seen.agent_from_world[window], seen.yaws_rad[window]
        for frame in range(num_kept):
            frame_rows = starts[window, frame], stops[window, frame]
            write_frame(rows, frame_rows, memory.slots, track_ids[window], pose, past, (window, frame))
        for frame in range(num_history, starts.shape[1]):
            frame_rows = starts[window, frame], stops[window, frame]
            write_frame(rows, frame_rows, memory.slots, track_ids[window], pose, future, (window, frame - num_history))


@kernel_jit
def _memory_of(window: int, memory: tuple[Any, Any, Any], sizes: ChoiceSizes) -> ChoiceMemory:
    """Return the memory of a window, as views of integers, ids and distances (B, any)."""
    integers, ids, distances_m = memory
    num_rows, num_frames, num_agents, table, set_tables, slots, _ = sizes
    first_met = num_rows + 2 * num_frames
    order = first_met + 3 * num_rows
    first_set_table = order + num_agents
    first_slot = first_set_table + set_tables
    first_table_slot = first_slot + slots
    return ChoiceMemory(
        integers[window, :num_rows],
        ids[window, :num_rows],
        distances_m[window, :num_rows],
        integers[window, num_rows : num_rows + num_frames],
        integers[window, num_rows + num_frames : first_met],
        integers[window, first_table_slot : first_table_slot + table],
        ids[window, num_rows : 2 * num_rows],
        integers[window, first_met : first_met + num_rows],
        integers[window, first_met + num_rows : first_met + 2 * num_rows],
        integers[window, first_met + 2 * num_rows : order],
        integers[window, order:first_set_table],
        integers[window, first_set_table:first_slot],
        integers[window, first_slot:first_table_slot],
    )


@kernel_jit
def sizes_of_choice(num_rows: int, num_frames: int, num_agents: int) -> ChoiceSizes:
    """Return the sizes for windows with given numbers of rows in their history frames, frames and selected agents."""
    table, set_tables = hash_table_size(num_rows), 2 * set_table_size(num_agents)
    slots = hash_table_size(4 * num_agents)  # sparse, so that most lookups of other tracks end at once
    integers = 4 * num_rows + 2 * num_frames + num_agents + table + set_tables + slots
    return ChoiceSizes(num_rows, num_frames, num_agents, table, set_tables, slots, integers)


@kernel_jit
def hash_table_size(num_ids: int) -> int:
    """Return the size of a hash table for a number of ids, a power of 2."""
    size = 16
    while size < 2 * num_ids:
        size *= 2
    return size


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _slot_in_table(track_id: np.uint64, table: NumericArray, ids: NumericArray) -> np.int64:
    """Return the slot of a track in a hash table of indices of ``ids``, or a free slot for it."""
    mask = np.uint64(len(table) - 1)
    at = (track_id * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
    while table[at] >= 0 and np.uint64(ids[table[at]]) != track_id:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


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
    """Write the candidate rows of one frame to the ``met`` of a window, from ``first`` on; return their end.

    ``limits`` holds distance and threshold, ``target`` whether it is a track, and its id.
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


@kernel_jit
def choose_agents(
    rows: RecordArray, is_by_distance: bool, memory: ChoiceMemory, types: Int64Array, track_ids: Int64Array
) -> None:
    """Select among the candidates of one window, and write their labels and tracks (M,) and ``slots``."""
    # group rows by track; tracks of the current frame count with their distance in it, others with their smallest
    num_candidates = num_current = 0
    for frame in range(len(memory.met_starts)):
        for met in range(memory.met_starts[frame], memory.met_stops[frame]):
            at = _slot_in_table(memory.met_ids[met], memory.table, memory.ids)
            candidate = memory.table[at]
            if candidate < 0:
                memory.table[at], memory.table_slots[num_candidates] = num_candidates, at
                memory.ids[num_candidates] = memory.met_ids[met]
                memory.first_met[num_candidates] = memory.nearest_met[num_candidates] = met
                num_candidates += 1
            elif frame == 0 or candidate >= num_current:
                nearest_m = memory.met_distances_m[memory.nearest_met[candidate]]
                if memory.met_distances_m[met] < nearest_m:
                    memory.nearest_met[candidate] = met
        if frame == 0:
            num_current = num_candidates

    # candidates of the current frame come before those of the past
    num_chosen = _append_nearest(0, num_current, 0, memory)
    num_chosen = _append_nearest(num_current, num_candidates, num_chosen, memory)
    chosen = memory.order[:num_chosen]
    if not is_by_distance:
        sort_as_set(memory.ids, chosen, memory.set_tables)

    # write slots by track, and labels from the first row of each
    memory.slots[:] = -1
    for slot in range(num_chosen):
        candidate = chosen[slot]
        memory.slots[_slot_in_table(memory.ids[candidate], memory.slots, track_ids)] = slot
        track_ids[slot] = memory.ids[candidate]
        types[slot] = most_likely(rows[memory.met_rows[memory.first_met[candidate]]].label_probabilities)

    # empty the table for the next window
    for candidate in range(num_candidates):
        memory.table[memory.table_slots[candidate]] = -1


@kernel_jit
def _append_nearest(first: int, end: int, num_chosen: int, memory: ChoiceMemory) -> int:
    """Append candidates to the selected ones, closest first, while there is room; return the number of selected ones.

    Candidates at the same distance keep their order.
    """
    order, begin = memory.order, num_chosen
    for candidate in range(first, end):
        # insertion sort; when full, a nearer candidate replaces the farthest
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


@kernel_jit
def most_likely(label_probabilities: Float32Array) -> int:
    """Return the label with the largest of probabilities (17,), the first one of ties, like ``numpy.argmax``."""
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
    at: tuple[int, int],
) -> None:
    """Write the selected agents among the rows of one frame; the first row of a track is used.

    ``slots`` is the hash table of the selected ``track_ids`` (M,), ``at`` the window and frame to write.
    """
    window, frame = at
    for row in range(frame_rows[0], frame_rows[1]):
        agent = rows[row]
        slot = slots[_slot_in_table(agent.track_id, slots, track_ids)]
        if slot < 0 or tracks.availabilities[window, slot, frame]:
            continue
        x, y = transform_xy(pose[0], agent.centroid[0], agent.centroid[1])
        tracks.positions_m[window, slot, frame, 0], tracks.positions_m[window, slot, frame, 1] = x, y
        tracks.yaws_rad[window, slot, frame, 0] = angular_distance_float32(agent.yaw, pose[1])
        tracks.extents_m[window, slot, frame, 0] = agent.extent[0]
        tracks.extents_m[window, slot, frame, 1] = agent.extent[1]
        tracks.availabilities[window, slot, frame] = True


@kernel_jit
def _meet_agents(item: int, arguments: KernelArguments) -> None:
    """Write the candidate rows of a history frame; its entries start after space for all rows of newer frames."""
    (first_window, max_distance_m, threshold), rows, of_windows, of_targets, of_sizes, memory = arguments
    windows, targets, sizes = WindowArrays(*of_windows), TargetArrays(*of_targets), ChoiceSizes(*of_sizes)
    starts, stops = windows.starts, windows.stops
    at, frame = item // sizes.frames, item % sizes.frames
    window = first_window + at
    of_window = _memory_of(at, memory, sizes)
    for slot in range(frame, len(of_window.table), sizes.frames):
        of_window.table[slot] = -1
    num_before = 0
    for earlier in range(frame):
        num_before += stops[window, earlier] - starts[window, earlier]
    first = min(num_before, sizes.rows)
    start = starts[window, frame]
    stop = min(stops[window, frame], start + sizes.rows - first)
    end = meet_agents(
        rows,
        (start, stop),
        targets.centroids_m[window],
        (max_distance_m, threshold),
        (targets.has_tracks, targets.track_ids[window]),
        first,
        MetAgents(of_window.met_rows, of_window.met_ids, of_window.met_distances_m),
    )
    of_window.met_starts[frame], of_window.met_stops[frame] = first, end


@kernel_jit
def _choose_agents(item: int, arguments: KernelArguments) -> None:
    """Select the agents of a window."""
    (first_window, is_by_distance), rows, of_sizes, memory, (types, track_ids) = arguments
    window = first_window + item
    choose_agents(
        rows, is_by_distance, _memory_of(item, memory, ChoiceSizes(*of_sizes)), types[window], track_ids[window]
    )


@kernel_jit
def _write_frames(item: int, arguments: KernelArguments) -> None:
    """Write the selected agents of a window in one past or future frame."""
    (first_window, num_kept, num_frames), rows, of_windows, of_targets = arguments[:4]
    of_sizes, memory, track_ids, past, future = arguments[4:]
    windows, targets, sizes = WindowArrays(*of_windows), TargetArrays(*of_targets), ChoiceSizes(*of_sizes)
    at, frame = item // num_frames, item % num_frames
    window = first_window + at
    slots, pose = _memory_of(at, memory, sizes).slots, (targets.agent_from_world[window], targets.yaws_rad[window])
    if frame < num_kept:
        frame_rows = windows.starts[window, frame], windows.stops[window, frame]
        write_frame(rows, frame_rows, slots, track_ids[window], pose, PoseArrays(*past), (window, frame))
    else:
        ahead = frame - num_kept
        column = windows.num_history + ahead
        frame_rows = windows.starts[window, column], windows.stops[window, column]
        write_frame(rows, frame_rows, slots, track_ids[window], pose, PoseArrays(*future), (window, ahead))
