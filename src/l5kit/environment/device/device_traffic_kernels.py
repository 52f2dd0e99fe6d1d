"""Kernels of traffic on a device: one item a slot, or one a vehicle that is moved.

They are the twins of those of :mod:`l5kit.environment.traffic.traffic_kernels`, of which they are made. Those who are
moved see the objects of the frame that they leave, which are written before; so none of them waits for another.
"""

from typing import Any

from numba import njit

from l5kit.environment.traffic.traffic_kernels import (
    DRIVEN,
    LOGGED,
    EnteringRoom,
    FoundRows,
    LogRows,
    Seats,
    begin_seats,
    list_present,
    move_seat,
    withhold_seats,
    write_objects,
    write_slot_rows,
)
from l5kit.lanes.lane_paths import PathArrays
from l5kit.simulation.lanes.leaders import write_object

__all__ = ["begin_step", "enter_frame", "move_seats", "start_slots", "write_all_rows"]

_MOVED, _OBJECTS, _FIRST, _FRAME = range(4)
"""Columns of what is known of the step of a slot: how many are moved, objects, path of the first seat, frame."""

NUM_STEP_COLUMNS = 4

MET, THERE, NEW, BLOCKED = range(4)
"""Rows of the marks of a slot."""

NUM_MARKS = 4


@njit(nogil=True, cache=True, error_model="numpy")
def start_slots(item: int, arguments: tuple[Any, ...]) -> None:
    """Put a slot at a frame, with all agents where the log has them.

    Arguments: orders, a row of slots, of scenes and of frames each, int64 (3, B); what changes: frames, scenes and
    numbers of driven agents of all slots, and states of seats.
    """
    orders, (frames, bank_rows, counts), states = arguments
    slot = orders[0, item]
    bank_rows[slot], frames[slot], counts[slot] = orders[1, item], orders[2, item], 0
    for seat in range(states.shape[1]):
        states[slot, seat] = LOGGED


@njit(nogil=True, cache=True, error_model="numpy")
def begin_step(item: int, arguments: tuple[Any, ...]) -> None:
    """Go to the next frame of a slot, and write whom to move there and what they see; not in its last frame.

    Arguments: slots (B,); frames, scenes and counts of all slots; ``scenes``, ``rows``, ``paths`` and
    ``path_last_frames`` of a DeviceBank; seats; boxes and velocities of the AVs, (B, 5) and (B, 2); how near is near;
    room.
    """
    slots, (frames, bank_rows, counts), scenes, rows, paths, last_frames, seats, ego, near_m, room = arguments
    slot = slots[item]
    if not 0 <= slot < len(frames):
        return
    rows, seats, paths = LogRows(*rows), Seats(*seats), PathArrays(*paths)
    present, marks, objects, numbers, driven, steps = room
    steps[slot, _MOVED] = 0
    frame, scene = frames[slot], bank_rows[slot]
    row = scenes[0][scene] + frame
    if frame < 0 or row + 1 >= scenes[0][scene + 1]:
        return
    frames[slot], counts[slot] = frame + 1, 0
    if near_m <= 0:
        return
    first = scenes[1][scene] + 1
    num_own, states = scenes[1][scene + 1] - first, seats.states[slot]
    begin_seats(slot, row, first, rows, seats, paths, ego[0][item], near_m)
    count = 0
    for seat in range(num_own):
        if states[seat] == DRIVEN and last_frames[first + seat] > frame:
            driven[slot, count] = seat
            count += 1
    if count > 0:
        num_present = list_present(row, rows, states, num_own, present[slot], marks[slot, MET])
        seen = objects[slot]
        num_objects = write_objects(slot, rows, seats, present[slot, :num_present], seen, numbers[slot])
        write_object(seen, num_objects, ego[0][item], ego[1][item])
        steps[slot, _OBJECTS], steps[slot, _FIRST], steps[slot, _FRAME] = num_objects + 1, first, row
    for seat in range(num_own):
        if states[seat] == DRIVEN and last_frames[first + seat] <= frame:
            states[seat] = LOGGED
    steps[slot, _MOVED] = counts[slot] = count


@njit(nogil=True, cache=True, error_model="numpy")
def move_seats(item: int, arguments: tuple[Any, ...]) -> None:
    """Move one of those whom :func:`begin_step` has found.

    Arguments: slots (B,); seats; ``paths`` and ``lights`` of a DeviceBank; how vehicles are driven; room.
    """
    slots, seats, paths, (light_starts, lights), drive, (objects, numbers, driven, steps, poses) = arguments
    most = driven.shape[1]
    slot, number = slots[item // most], item % most
    if not 0 <= slot < len(steps) or number >= steps[slot, _MOVED]:
        return
    seats, paths = Seats(*seats), PathArrays(*paths)
    seat, frame = driven[slot, number], steps[slot, _FRAME]
    own = (seats.motions[slot, seat], seats.boxes[slot, seat], seats.velocities_mps[slot, seat])
    ranks = lights[light_starts[frame] : light_starts[frame + 1]]
    seen = objects[slot, : steps[slot, _OBJECTS]]
    move_seat(own, steps[slot, _FIRST] + seat, paths, seen, numbers[slot, seat], ranks, drive, poses[slot, seat])


@njit(nogil=True, cache=True, error_model="numpy")
def enter_frame(item: int, arguments: tuple[Any, ...]) -> None:
    """Let seats of a slot wait that would appear where a box stands.

    Arguments: slots (B,); frames, scenes and counts of all slots; ``scenes`` and ``rows`` of a DeviceBank; seats; boxes
    of the AVs, (B, 5); how near is near; room.
    """
    slots, (frames, bank_rows, _), scenes, rows, seats, ego_boxes, near_m, (present, marks, objects) = arguments
    slot = slots[item]
    if not 0 <= slot < len(frames) or frames[slot] < 0:
        return
    scene = bank_rows[slot]
    num_own = scenes[1][scene + 1] - scenes[1][scene] - 1
    of_slot = marks[slot]
    entering = EnteringRoom(
        present[slot], of_slot[MET], objects[slot, :, :5], of_slot[THERE], of_slot[NEW], of_slot[BLOCKED]
    )
    frame = scenes[0][scene] + frames[slot]
    withhold_seats(slot, frame, num_own, LogRows(*rows), Seats(*seats), ego_boxes[item], near_m, entering)


@njit(nogil=True, cache=True, error_model="numpy")
def write_all_rows(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the agents of the current frame of a slot, and groups of -1 behind them.

    Arguments: slots (B,); frames, scenes and counts of all slots; ``scenes``, ``rows`` and ``path_tracks`` of a
    DeviceBank; seats; room; how many they are, (B,), first row of each slot and the end of the last one, (B + 1,),
    groups, boxes, velocities and tracks of all rows.
    """
    slots, (frames, bank_rows, _), scenes, rows, path_tracks, seats, (present, marks), sizes, starts, found = arguments
    rows, seats, found = LogRows(*rows), Seats(*seats), FoundRows(*found)
    slot, count = slots[item], 0
    if 0 <= slot < len(frames) and frames[slot] >= 0:
        scene = bank_rows[slot]
        first = scenes[1][scene] + 1
        scratch, begin = (present[slot], marks[slot, MET]), starts[item]
        frame, num_own = scenes[0][scene] + frames[slot], scenes[1][scene + 1] - first
        count = write_slot_rows(slot, frame, first, num_own, rows, seats, path_tracks, scratch, found, begin)
    sizes[item] = count
    for row in range(starts[item] + count, starts[item + 1]):
        found.groups[row] = -1
