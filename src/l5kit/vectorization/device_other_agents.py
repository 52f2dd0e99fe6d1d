"""Other agents on a device: the kernels that choose them around the targets of windows, and write where they are."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Int64Array
from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.data.relative_poses import PoseArrays
from l5kit.data.set_order import set_table_size
from l5kit.device.backend import Backend, DeviceArray
from l5kit.vectorization.other_agents import (
    AgentChoice,
    ChoiceMemory,
    MetAgents,
    choose_agents,
    hash_table_size,
    meet_agents,
    slot_table_size,
    write_frame,
)

__all__ = ["ChoiceSizes", "DeviceAgents", "DeviceTracks", "write_other_agents"]


@dataclass(frozen=True, eq=False)
class DeviceTracks:
    """The M tracks of B windows in N frames on a device, as in ``RelativePoses``.

    Attributes:
        positions_m: (B, M, N, 2) float32.
        yaws_rad: (B, M, N, 1) float32.
        extents_m: (B, M, N, 2) float32.
        availabilities: (B, M, N) bool.
    """

    positions_m: DeviceArray
    yaws_rad: DeviceArray
    extents_m: DeviceArray
    availabilities: DeviceArray

    @classmethod
    def of_no_track(cls, backend: Backend, *shape: int) -> "DeviceTracks":
        """Return zeros (B, M, N), for tracks that are in no frame."""
        return cls(
            backend.zeros((*shape, 2), np.float32),
            backend.zeros((*shape, 1), np.float32),
            backend.zeros((*shape, 2), np.float32),
            backend.zeros(shape, np.bool_),
        )

    def as_arrays(self) -> tuple[DeviceArray, ...]:
        """Return the four arrays."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities


@dataclass(frozen=True, eq=False)
class DeviceAgents:
    """The M other agents of B windows on a device, as in ``OtherAgents``.

    Attributes:
        past: Newest frame first, (B, M, h + 1).
        future: Nearest frame first, (B, M, F).
        types: int64 (B, M).
        track_ids: int64 (B, M).
    """

    past: DeviceTracks
    future: DeviceTracks
    types: DeviceArray
    track_ids: DeviceArray


class ChoiceSizes(NamedTuple):
    """How large the arrays of ``ChoiceMemory`` are.

    Attributes:
        rows: Rows of agents in the history of a window, at most.
        frames: History frames.
        agents: Agents that are chosen, at most.
        table: Places for candidates.
        set_tables: Places for two tables of a set.
        slots: Places for the chosen ones.
    """

    rows: int
    frames: int
    agents: int
    table: int
    set_tables: int
    slots: int

    @classmethod
    def of(cls, *, rows: int, frames: int, agents: int) -> "ChoiceSizes":
        """Return the sizes for windows with so many rows in so many history frames."""
        tables = hash_table_size(rows), 2 * set_table_size(agents), slot_table_size(agents)
        return cls(rows, frames, agents, *tables)

    @property
    def num_integers(self) -> int:
        """Integers of four bytes of a window; it has twice as many ids as rows besides, and as many distances."""
        return 4 * self.rows + 2 * self.frames + self.agents + self.table + self.set_tables + self.slots

    @property
    def num_bytes(self) -> int:
        """Memory of a window."""
        return 4 * self.num_integers + 24 * self.rows


def write_other_agents(
    log: DeviceLog,
    windows: DeviceWindows,
    targets: DeviceTargets,
    choice: AgentChoice,
    found: DeviceAgents,
    *,
    num_kept: int,
    sizes: ChoiceSizes,
    part: tuple[int, int],
) -> None:
    """Choose agents around the targets of some windows and write where they are, as on the processor.

    Args:
        log: The log that the windows are of.
        windows: B windows.
        targets: Whom they are about.
        choice: Which agents.
        found: Where to write; no agents yet.
        num_kept: History frames that are written.
        sizes: Memory of a window. Rows of its history beyond are not looked at.
        part: First and end window.
    """
    backend, num_windows = log.backend, part[1] - part[0]
    memory = (
        backend.empty((num_windows, sizes.num_integers), np.int32),
        backend.empty((num_windows, 2 * sizes.rows), np.uint64),
        backend.empty((num_windows, sizes.rows), np.float64),
    )
    rows, frames_of_rows, first = log.agents, (windows.starts, windows.stops), part[0]
    num_future = int(windows.is_there.shape[1]) - windows.num_history
    backend.run(
        _meet_agents,
        num_windows * windows.num_history,
        (first, float(choice.max_distance_m), np.float32(choice.threshold), targets.has_tracks),
        rows,
        frames_of_rows,
        (targets.centroids_m, targets.track_ids),
        tuple(sizes),
        memory,
    )
    backend.run(
        _choose_agents,
        num_windows,
        (first, choice.is_by_distance),
        rows,
        tuple(sizes),
        memory,
        (found.types, found.track_ids),
    )
    backend.run(
        _write_frames,
        num_windows * (num_kept + num_future),
        (first, windows.num_history, num_kept, num_kept + num_future),
        rows,
        frames_of_rows,
        (targets.agent_from_world, targets.yaws_rad),
        tuple(sizes),
        memory,
        found.track_ids,
        found.past.as_arrays(),
        found.future.as_arrays(),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _memory_of(window: int, memory: tuple[Any, Any, Any], sizes: tuple[int, int, int, int, int, int]) -> ChoiceMemory:
    """Return the memory of one window."""
    integers, ids, distances_m = memory
    num_rows, num_frames, num_agents, table, set_tables, slots = sizes
    first_met = num_rows + 2 * num_frames
    order = first_met + 3 * num_rows
    first_set_table = order + num_agents
    first_slot = first_set_table + set_tables
    first_place = first_slot + slots
    return ChoiceMemory(
        integers[window, :num_rows],
        ids[window, :num_rows],
        distances_m[window, :num_rows],
        integers[window, num_rows : num_rows + num_frames],
        integers[window, num_rows + num_frames : first_met],
        integers[window, first_place : first_place + table],
        ids[window, num_rows : 2 * num_rows],
        integers[window, first_met : first_met + num_rows],
        integers[window, first_met + num_rows : first_met + 2 * num_rows],
        integers[window, first_met + 2 * num_rows : order],
        integers[window, order:first_set_table],
        integers[window, first_set_table:first_slot],
        integers[window, first_slot:first_place],
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _meet_agents(item: int, arguments: Any) -> None:
    """Write the rows of a history frame that may be chosen; the places of a frame start behind all rows before it."""
    (first_window, max_distance_m, threshold, has_tracks), rows, (starts, stops), targets, sizes, memory = arguments
    centroids_m, track_ids = targets
    num_rows, num_frames = sizes[0], sizes[1]
    place, frame = item // num_frames, item % num_frames
    window = first_window + place
    of_window = _memory_of(place, memory, sizes)
    for slot in range(frame, len(of_window.table), num_frames):
        of_window.table[slot] = -1
    first = min(_count_rows(starts[window, :frame], stops[window, :frame]), num_rows)
    start = starts[window, frame]
    stop = min(stops[window, frame], start + num_rows - first)
    end = meet_agents(
        rows,
        (start, stop),
        centroids_m[window],
        (max_distance_m, threshold),
        (has_tracks, track_ids[window]),
        first,
        MetAgents(of_window.met_rows, of_window.met_ids, of_window.met_distances_m),
    )
    of_window.met_starts[frame], of_window.met_stops[frame] = first, end


@njit(nogil=True, cache=True, error_model="numpy")
def _count_rows(starts: Int64Array, stops: Int64Array) -> int:
    """Return how many rows some frames have."""
    num_rows = 0
    for frame in range(len(starts)):
        num_rows += stops[frame] - starts[frame]
    return num_rows


@njit(nogil=True, cache=True, error_model="numpy")
def _choose_agents(item: int, arguments: Any) -> None:
    """Choose the agents of a window."""
    (first_window, is_by_distance), rows, sizes, memory, (types, track_ids) = arguments
    window = first_window + item
    choose_agents(rows, is_by_distance, _memory_of(item, memory, sizes), types[window], track_ids[window])


@njit(nogil=True, cache=True, error_model="numpy")
def _write_frames(item: int, arguments: Any) -> None:
    """Write the chosen agents of a window in one frame, of the past or the future."""
    (first_window, num_history, num_kept, num_frames), rows, (starts, stops) = arguments[:3]
    (agent_from_world, yaws_rad), sizes, memory, track_ids, past, future = arguments[3:]
    place, frame = item // num_frames, item % num_frames
    window = first_window + place
    slots, pose = _memory_of(place, memory, sizes).slots, (agent_from_world[window], yaws_rad[window])
    if frame < num_kept:
        frame_rows = starts[window, frame], stops[window, frame]
        write_frame(rows, frame_rows, slots, track_ids[window], pose, PoseArrays(*past), (window, frame))
    else:
        ahead = frame - num_kept
        frame_rows = starts[window, num_history + ahead], stops[window, num_history + ahead]
        write_frame(rows, frame_rows, slots, track_ids[window], pose, PoseArrays(*future), (window, ahead))
