"""Steps of the traffic of many environments: one after the other on the processor, or as kernels of a device.

On the processor an environment makes its whole step before the next one begins, in room that all share. On a device
each environment is an item of a kernel, then each vehicle that is moved: those see the objects of the frame that they
leave, which are written before, so that none waits for another.
"""

from typing import Any, NamedTuple

from numba import njit

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array
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
from l5kit.environment.traffic.uncounted import uncounted
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.simulation.lanes.lane_following import Drive, EgoRows
from l5kit.simulation.lanes.leaders import write_object

__all__ = [
    "MET",
    "NUM_MARKS",
    "NUM_STEP_COLUMNS",
    "SceneStarts",
    "SlotPlaces",
    "TrafficRoom",
    "begin_step",
    "enter_frame",
    "enter_slots",
    "move_seats",
    "start_slots",
    "step_slots",
    "write_all_rows",
    "write_rows_in_turn",
]

_MOVED, _OBJECTS, _FIRST, _FRAME = range(4)
"""Columns of what is known of the step of a slot: how many are moved, objects, path of the first seat, frame."""

NUM_STEP_COLUMNS = 4

MET, _THERE, _NEW, _BLOCKED = range(4)
"""Rows of the marks of a slot."""

NUM_MARKS = 4


class SceneStarts(NamedTuple):
    """Where the S scenes of a bank begin.

    Attributes:
        frames: First frame of each and the end of the last one, (S + 1,).
        routes: Path of the AV of each and the end of all paths, (S + 1,).
    """

    frames: Int64Array
    routes: Int64Array


class SlotPlaces(NamedTuple):
    """Where N slots are.

    Attributes:
        frames: Current frame of each, counted in its scene, -1 where nothing has started, (N,).
        bank_rows: Its scene, counted in the bank, (N,).
        num_driven: Agents that were driven into this frame, (N,).
    """

    frames: Int64Array
    bank_rows: Int64Array
    num_driven: Int64Array


class TrafficRoom(NamedTuple):
    """Room for a step, for each of R slots that make it at the same time; slot n has the row n modulo R.

    Attributes:
        present: Who is there, (R, M).
        marks: Marks of seats and of who is there, (R, NUM_MARKS, M).
        objects: What drivers see, (R, M + 1, OBJECT_FIELDS).
        numbers: Which of these objects each seat is, (R, T).
        driven: The seats that are moved, (R, T).
        steps: What is known of the step, (R, NUM_STEP_COLUMNS).
        poses: Where seats get, (R, T, 1, 3).
    """

    present: Int64Array
    marks: BoolArray
    objects: Float64Array
    numbers: Int64Array
    driven: Int32Array
    steps: Int64Array
    poses: Float64Array


@njit(nogil=True, cache=True, error_model="numpy")
def start_slots(item: int, arguments: tuple[Any, ...]) -> None:
    """Put a slot at a frame, with all agents where the log has them.

    Arguments: orders, a row of slots, of scenes and of frames each, int64 (3, B); what changes: places of all slots,
    and states of seats.
    """
    orders, places, states = arguments
    frames, bank_rows, num_driven = places
    slot = orders[0, item]
    bank_rows[slot], frames[slot], num_driven[slot] = orders[1, item], orders[2, item], 0
    for seat in range(states.shape[1]):
        states[slot, seat] = LOGGED


@njit(nogil=True, cache=True, error_model="numpy")
def _begin_slot(
    slot: int,
    ego_box: Float64Array,
    ego_velocity_mps: Float64Array,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    paths: PathArrays,
    last_frames: Int64Array,
    seats: Seats,
    near_m: float,
    room: TrafficRoom,
) -> None:
    """Go to the next frame of a slot, and write whom to move there and what they see; not in its last frame.

    Args:
        slot: The slot.
        ego_box: Its AV in the current frame, (5,).
        ego_velocity_mps: How that moves, (2,).
        places: Where all slots are.
        scenes: Where scenes begin.
        rows: The log.
        paths: All paths.
        last_frames: Last frame of the track of each path.
        seats: The seats, changed.
        near_m: How near is near enough to be driven; 0 or less where nobody is.
        room: Room for the step.
    """
    if not 0 <= slot < len(places.frames):
        return
    own = slot % len(room.steps)
    step, states = room.steps[own], seats.states[slot]
    step[_MOVED] = 0
    frame, scene = places.frames[slot], places.bank_rows[slot]
    row = scenes.frames[scene] + frame
    if frame < 0 or row + 1 >= scenes.frames[scene + 1]:
        return
    places.frames[slot], places.num_driven[slot] = frame + 1, 0
    if near_m <= 0:
        return
    first = scenes.routes[scene] + 1
    num_own = scenes.routes[scene + 1] - first
    begin_seats(slot, row, first, rows, seats, paths, ego_box, near_m)
    count = 0
    for seat in range(num_own):
        if states[seat] == DRIVEN and last_frames[first + seat] > frame:
            room.driven[own, count] = seat
            count += 1
    if count > 0:
        present, objects = room.present[own], room.objects[own]
        num_present = list_present(row, rows, states, num_own, present, room.marks[own, MET])
        num_objects = write_objects(slot, rows, seats, present[:num_present], objects, room.numbers[own])
        write_object(objects, num_objects, ego_box, ego_velocity_mps)
        step[_OBJECTS], step[_FIRST], step[_FRAME] = num_objects + 1, first, row
    for seat in range(num_own):
        if states[seat] == DRIVEN and last_frames[first + seat] <= frame:
            states[seat] = LOGGED
    step[_MOVED] = places.num_driven[slot] = count


@njit(nogil=True, cache=True, error_model="numpy")
def _move_one(
    slot: int, number: int, seats: Seats, paths: PathArrays, lights: SceneLights, drive: Drive, room: TrafficRoom
) -> None:
    """Move one of those whom :func:`_begin_slot` has found."""
    own = slot % len(room.steps)
    step, seat = room.steps[own], room.driven[own, number]
    ranks = lights.ranks[lights.starts[step[_FRAME]] : lights.starts[step[_FRAME] + 1]]
    move_seat(
        (seats.motions[slot, seat], seats.boxes[slot, seat], seats.velocities_mps[slot, seat]),
        step[_FIRST] + seat,
        paths,
        room.objects[own, : step[_OBJECTS]],
        room.numbers[own, seat],
        ranks,
        drive,
        room.poses[own, seat],
    )


@njit(nogil=True, cache=True, error_model="numpy")
def step_slots(
    slots: Int64Array,
    ego: EgoRows,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    paths: PathArrays,
    last_frames: Int64Array,
    lights: SceneLights,
    seats: Seats,
    drive: tuple[Drive, float],
    room: TrafficRoom,
) -> None:
    """Move all agents of slots (B,) to the next frames, one slot after the other; arguments as for one slot."""
    places, scenes, rows, paths = uncounted(places), uncounted(scenes), uncounted(rows), uncounted(paths)
    lights, seats, room, ego = uncounted(lights), uncounted(seats), uncounted(room), uncounted(ego)
    boxes, velocities_mps = ego
    numbers, near_m = drive
    for item in range(len(slots)):
        slot, box, velocity_mps = slots[item], boxes[item], velocities_mps[item]
        _begin_slot(slot, box, velocity_mps, places, scenes, rows, paths, last_frames, seats, near_m, room)
        for number in range(room.steps[slot % len(room.steps), _MOVED]):
            _move_one(slot, number, seats, paths, lights, numbers, room)


@njit(nogil=True, cache=True, error_model="numpy")
def begin_step(item: int, arguments: tuple[Any, ...]) -> None:
    """Do the part of a step that comes before its vehicles are moved.

    Arguments: slots (B,); boxes and velocities of the AVs, (B, 5) and (B, 2); then those of :func:`_begin_slot` from
    ``places`` on.
    """
    slots, ego, places, scenes, rows, paths, last_frames, seats, near_m, room = arguments
    boxes, velocities_mps = ego
    _begin_slot(
        slots[item],
        boxes[item],
        velocities_mps[item],
        SlotPlaces(*places),
        SceneStarts(*scenes),
        LogRows(*rows),
        PathArrays(*paths),
        last_frames,
        Seats(*seats),
        near_m,
        TrafficRoom(*room),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def move_seats(item: int, arguments: tuple[Any, ...]) -> None:
    """Move one of those whom :func:`begin_step` has found; T items for each slot.

    Arguments: slots (B,); seats; paths and lights; how vehicles are driven; room.
    """
    slots, seats, paths, lights, drive, room = arguments
    room = TrafficRoom(*room)
    most = room.driven.shape[1]
    slot, number = slots[item // most], item % most
    if 0 <= slot < len(room.steps) and number < room.steps[slot, _MOVED]:
        _move_one(slot, number, Seats(*seats), PathArrays(*paths), SceneLights(*lights), drive, room)


@njit(nogil=True, cache=True, error_model="numpy")
def _enter_slot(
    slot: int,
    ego_box: Float64Array,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    seats: Seats,
    near_m: float,
    room: TrafficRoom,
) -> None:
    """Let seats of a slot wait that would appear where a box stands; arguments as for :func:`_begin_slot`."""
    if not 0 <= slot < len(places.frames) or places.frames[slot] < 0:
        return
    scene, own = places.bank_rows[slot], slot % len(room.steps)
    num_own = scenes.routes[scene + 1] - scenes.routes[scene] - 1
    marks = room.marks[own]
    entering = EnteringRoom(
        room.present[own], marks[MET], room.objects[own, :, :5], marks[_THERE], marks[_NEW], marks[_BLOCKED]
    )
    frame = scenes.frames[scene] + places.frames[slot]
    withhold_seats(slot, frame, num_own, rows, seats, ego_box, near_m, entering)


@njit(nogil=True, cache=True, error_model="numpy")
def enter_slots(
    slots: Int64Array,
    ego_boxes: Float64Array,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    seats: Seats,
    near_m: float,
    room: TrafficRoom,
) -> None:
    """Let seats of slots (B,) wait that would appear where a box stands, one slot after the other."""
    places, scenes, rows, seats = uncounted(places), uncounted(scenes), uncounted(rows), uncounted(seats)
    room, ego_boxes = uncounted(room), uncounted(ego_boxes)
    for item in range(len(slots)):
        _enter_slot(slots[item], ego_boxes[item], places, scenes, rows, seats, near_m, room)


@njit(nogil=True, cache=True, error_model="numpy")
def enter_frame(item: int, arguments: tuple[Any, ...]) -> None:
    """Do what :func:`enter_slots` does for one item; the arguments are the same."""
    slots, ego_boxes, places, scenes, rows, seats, near_m, room = arguments
    _enter_slot(
        slots[item],
        ego_boxes[item],
        SlotPlaces(*places),
        SceneStarts(*scenes),
        LogRows(*rows),
        Seats(*seats),
        near_m,
        TrafficRoom(*room),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _write_rows_of(
    slot: int,
    begin: int,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    path_tracks: Int64Array,
    seats: Seats,
    room: TrafficRoom,
    found: FoundRows,
) -> int:
    """Write the agents of the current frame of a slot from a row on, and return how many they are.

    A slot in which nothing has started has none. Arguments are as for :func:`_begin_slot`; ``path_tracks`` are the
    tracks of all paths, ``found`` takes the agents.
    """
    if not 0 <= slot < len(places.frames) or places.frames[slot] < 0:
        return 0
    scene, own = places.bank_rows[slot], slot % len(room.steps)
    first = scenes.routes[scene] + 1
    frame, num_own = scenes.frames[scene] + places.frames[slot], scenes.routes[scene + 1] - first
    scratch = (room.present[own], room.marks[own, MET])
    return write_slot_rows(slot, frame, first, num_own, rows, seats, path_tracks, scratch, found, begin)


@njit(nogil=True, cache=True, error_model="numpy")
def write_rows_in_turn(
    slots: Int64Array,
    places: SlotPlaces,
    scenes: SceneStarts,
    rows: LogRows,
    path_tracks: Int64Array,
    seats: Seats,
    room: TrafficRoom,
    sizes: Int64Array,
    starts: Int64Array,
    found: FoundRows,
) -> None:
    """Write the agents of the current frames of slots (B,), those of a slot right behind those of the one before.

    Args:
        slots: The slots.
        places: Where all slots are.
        scenes: Where scenes begin.
        rows: The log.
        path_tracks: Track of each path.
        seats: The seats.
        room: Room for the step.
        sizes: Takes how many they are in each slot, (B,).
        starts: Takes the first row of each slot and the end of the last one, (B + 1,).
        found: Takes the agents.
    """
    places, scenes, rows, seats = uncounted(places), uncounted(scenes), uncounted(rows), uncounted(seats)
    room, found = uncounted(room), uncounted(found)
    starts[0] = 0
    for item in range(len(slots)):
        begin = starts[item]
        sizes[item] = _write_rows_of(slots[item], begin, places, scenes, rows, path_tracks, seats, room, found)
        starts[item + 1] = begin + sizes[item]


@njit(nogil=True, cache=True, error_model="numpy")
def write_all_rows(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the agents of the current frame of a slot, and groups of -1 behind them.

    Arguments: those of :func:`write_rows_in_turn`, but that ``starts`` are given.
    """
    slots, places, scenes, rows, path_tracks, seats, room, sizes, starts, found = arguments
    found = FoundRows(*found)
    count = _write_rows_of(
        slots[item],
        starts[item],
        SlotPlaces(*places),
        SceneStarts(*scenes),
        LogRows(*rows),
        path_tracks,
        Seats(*seats),
        TrafficRoom(*room),
        found,
    )
    sizes[item] = count
    for row in range(starts[item] + count, starts[item + 1]):
        found.groups[row] = -1
