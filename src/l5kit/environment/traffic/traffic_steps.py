"""Steps of the traffic of many environments: one after the other on the processor, or as kernels of a device.

On the processor an environment makes its whole step before the next one begins, in room that all share. On a device
each environment is an item of a kernel, then each vehicle that is moved: those see the objects of the frame that they
leave, which are written before, so that none waits for another.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array
from l5kit.device.backend import KernelArguments
from l5kit.device.kernels import uncounted
from l5kit.environment.traffic.traffic_kernels import (
    DRIVEN,
    ENTERING,
    LOGGED,
    WAITING,
    LogRows,
    TrafficRows,
    Vehicles,
    copy_rows,
    list_present,
    mark_entering,
    take_over,
    write_objects,
)
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.simulation.engine.agent_control import mark_blocked_rows
from l5kit.simulation.lanes.lane_following import Drive, drive_on
from l5kit.simulation.lanes.leaders import write_object

_MOVED, _OBJECTS, _FIRST, _FRAME = range(4)
"""Columns of what is known of the step of a slot: how many are moved, objects, path of the first vehicle, frame."""

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


class SlotFrames(NamedTuple):
    """The frames that N slots are in.

    Attributes:
        frames: Current frame of each, counted in its scene, -1 where nothing has started, (N,).
        bank_rows: Its scene, counted in the bank, (N,).
        num_driven: Agents that were driven into this frame, (N,).
    """

    frames: Int64Array
    bank_rows: Int64Array
    num_driven: Int64Array


class TrafficRoom(NamedTuple):
    """Room for a step, for each of R slots that make it at the same time; item n has the row n modulo R.

    Attributes:
        present: Who is there, (R, M).
        marks: Marks of vehicles and of who is there, (R, NUM_MARKS, M).
        objects: What drivers see, (R, M + 1, OBJECT_FIELDS).
        object_rows: Which of these objects each vehicle is, (R, T).
        driven: The vehicles that are moved, (R, T).
        steps: What is known of the step, (R, NUM_STEP_COLUMNS).
        poses: Where vehicles get, (R, T, 1, 3).
    """

    present: Int64Array
    marks: BoolArray
    objects: Float64Array
    object_rows: Int64Array
    driven: Int32Array
    steps: Int64Array
    poses: Float64Array


@kernel_jit
def _vehicles_of(slot: int, current: SlotFrames, scenes: SceneStarts) -> tuple[int, int, int]:
    """Return the frame of a slot, counted in all frames, the path of its first vehicle, and the number of vehicles."""
    scene = current.bank_rows[slot]
    first = scenes.routes[scene] + 1  # behind the path of the AV
    return scenes.frames[scene] + current.frames[slot], first, scenes.routes[scene + 1] - first


@kernel_jit
def start_slots(item: int, arguments: KernelArguments) -> None:
    """Put a slot at a frame, with all agents where the log has them.

    Arguments: orders, a row of slots, of scenes and of frames each, int64 (3, B); what changes: current frames of all
    slots, and states of vehicles.
    """
    orders, current, states = arguments
    frames, bank_rows, num_driven = current
    slot = orders[0, item]
    bank_rows[slot], frames[slot], num_driven[slot] = orders[1, item], orders[2, item], 0
    for vehicle in range(states.shape[1]):
        states[slot, vehicle] = LOGGED


@kernel_jit
def begin_step(item: int, arguments: KernelArguments) -> None:
    """Go to the next frame of a slot, and write whom to move there and what they see; not in its last frame.

    Arguments: slots (B,); boxes and velocities of the AVs, (B, 5) and (B, 2); where all slots are, and where scenes
    begin; the log; all paths, and the last frame of the track of each; the vehicles, changed; how near of the AV they
    are driven, 0 or less where nobody is; room.
    """
    slots, (boxes, velocities_mps), current, scenes, rows, paths, last_frames, vehicles, near_m, room = arguments
    current, scenes, rows, paths = SlotFrames(*current), SceneStarts(*scenes), LogRows(*rows), PathArrays(*paths)
    vehicles, room, slot = Vehicles(*vehicles), TrafficRoom(*room), slots[item]
    if not 0 <= slot < len(current.frames):
        return
    own = item % len(room.steps)
    step, states = room.steps[own], vehicles.states[slot]
    step[_MOVED] = 0
    frame = current.frames[slot]
    row, first, num_own = _vehicles_of(slot, current, scenes)
    if frame < 0 or row + 1 >= scenes.frames[current.bank_rows[slot] + 1]:
        return
    current.frames[slot], current.num_driven[slot] = frame + 1, 0
    if near_m <= 0:
        return

    # drivers take over who is near; who is driven, and whose track goes on, is moved
    take_over(slot, row, first, rows, vehicles, paths, boxes[item], near_m)
    count = 0
    for vehicle in range(num_own):
        if states[vehicle] == DRIVEN and last_frames[first + vehicle] > frame:
            room.driven[own, count] = vehicle
            count += 1

    # what they see is written before anybody moves; the AV is the last object
    if count > 0:
        present, objects = room.present[own], room.objects[own]
        num_present = list_present(row, rows, states, num_own, present, room.marks[own, MET])
        num_objects = write_objects(slot, rows, vehicles, present[:num_present], objects, room.object_rows[own])
        write_object(objects, num_objects, boxes[item], velocities_mps[item])
        step[_OBJECTS], step[_FIRST], step[_FRAME] = num_objects + 1, first, row

    # who is driven or acts leaves with its log
    for vehicle in range(num_own):
        if states[vehicle] >= DRIVEN and last_frames[first + vehicle] <= frame:
            states[vehicle] = LOGGED
    step[_MOVED] = current.num_driven[slot] = count


@njit(nogil=True, inline="always")
def _move_one(
    slot: int,
    own: int,
    number: int,
    vehicles: Vehicles,
    paths: PathArrays,
    lights: SceneLights,
    drive: Drive,
    room: TrafficRoom,
) -> None:
    """Move one of those whom :func:`begin_step` has found; ``own`` is the row of the slot in the room."""
    step, vehicle = room.steps[own], room.driven[own, number]
    box, velocity_mps = vehicles.boxes[slot, vehicle], vehicles.velocities_mps[slot, vehicle]
    motion, pose = vehicles.motions[slot, vehicle], room.poses[own, vehicle]
    ranks = lights.ranks[lights.starts[step[_FRAME]] : lights.starts[step[_FRAME] + 1]]
    half_size_m, own_row = (0.5 * box[3], 0.5 * box[4]), room.object_rows[own, vehicle]
    seen = room.objects[own, : step[_OBJECTS]]
    drive_on(paths, step[_FIRST] + vehicle, motion, half_size_m, seen, own_row, ranks, drive, np.inf, pose)

    # its speed is that of the way, as readers of records would find it, and numbers are as exact as those of records
    way_x, way_y = pose[0, 0] - box[0], pose[0, 1] - box[1]
    speed_mps = math.sqrt(way_x * way_x + way_y * way_y) / drive[2]
    velocity_mps[0] = np.float32(speed_mps * math.cos(pose[0, 2]))
    velocity_mps[1] = np.float32(speed_mps * math.sin(pose[0, 2]))
    box[0], box[1], box[2] = pose[0, 0], pose[0, 1], np.float32(pose[0, 2])


@kernel_jit
def move_vehicles(item: int, arguments: KernelArguments) -> None:
    """Move one of those whom :func:`begin_step` has found; T items for each slot.

    Arguments: slots (B,); the vehicles, changed; all paths; lights; how vehicles are driven; room.
    """
    slots, vehicles, paths, lights, drive, room = arguments
    room = TrafficRoom(*room)
    most = room.driven.shape[1]
    slot, number = slots[item // most], item % most
    own = item // most % len(room.steps)
    if slot >= 0 and number < room.steps[own, _MOVED]:
        _move_one(slot, own, number, Vehicles(*vehicles), PathArrays(*paths), SceneLights(*lights), drive, room)


@kernel_jit
def step_in_turn(first: int, step: int, num_slots: int, begin: tuple[Any, ...], move: tuple[Any, ...]) -> None:
    """Do the steps of every so many slots one after the other, by the arguments of begin_step and move_vehicles."""
    begin = uncounted(begin)
    slots, vehicles, paths, lights, drive, room = uncounted(move)
    for item in range(first, num_slots, step):
        if slots[item] < 0:
            continue
        begin_step(item, begin)
        own = item % len(room.steps)
        for number in range(room.steps[own, _MOVED]):
            _move_one(slots[item], own, number, vehicles, paths, lights, drive, room)


@kernel_jit
def enter_frame(item: int, arguments: KernelArguments) -> None:
    """Let vehicles of a slot wait that would appear where a box stands.

    Arguments: slots (B,); boxes of the AVs, (B, 5); where all slots are, and where scenes begin; the log; the vehicles,
    changed; how near of the AV vehicles are driven; room.
    """
    slots, ego_boxes, current, scenes, rows, vehicles, near_m, room = arguments
    current, scenes, room, slot = SlotFrames(*current), SceneStarts(*scenes), TrafficRoom(*room), slots[item]
    if not 0 <= slot < len(current.frames) or current.frames[slot] < 0:
        return
    rows, vehicles, ego_box, own = LogRows(*rows), Vehicles(*vehicles), ego_boxes[item], item % len(room.steps)
    (frame, _, num_own), states = _vehicles_of(slot, current, scenes), vehicles.states[slot]
    if not mark_entering(frame, rows, states, ego_box, near_m):
        return

    # everybody who is there, and of them those who appear
    present, marks, boxes = room.present[own], room.marks[own], room.objects[own, :, :5]
    is_there, is_new, is_blocked = marks[_THERE], marks[_NEW], marks[_BLOCKED]
    count = list_present(frame, rows, states, num_own, present, marks[MET])
    for number in range(count):
        who = present[number]
        is_new[number], is_blocked[number] = False, False
        if who < 0:
            is_there[number] = True
            for column in range(5):
                boxes[number, column] = vehicles.boxes[slot, -1 - who, column]
        else:
            is_there[number] = rows.groups[who] >= 0
            is_new[number] = rows.vehicles[who] >= 0 and states[rows.vehicles[who]] == ENTERING
            for column in range(5):
                boxes[number, column] = rows.boxes[who, column]

    # where they find no room they wait, and are asked again in the next frame
    mark_blocked_rows(0, count, boxes, ego_box, is_there, is_new, is_blocked)
    for number in range(count):
        if is_new[number]:
            states[rows.vehicles[present[number]]] = WAITING if is_blocked[number] else LOGGED


@kernel_jit
def take_vehicles(item: int, arguments: KernelArguments) -> None:
    """Let drivers take over vehicles of a slot that are near in its current frame, before its next step.

    Arguments: slots (B,); boxes of the AVs, (B, 5); where all slots are, and where scenes begin; the log; all paths;
    the vehicles, changed; how near of the AV vehicles are driven.
    """
    slots, ego_boxes, current, scenes, rows, paths, vehicles, near_m = arguments
    current, scenes, slot = SlotFrames(*current), SceneStarts(*scenes), slots[item]
    frame, first, _ = _vehicles_of(slot, current, scenes)
    take_over(slot, frame, first, LogRows(*rows), Vehicles(*vehicles), PathArrays(*paths), ego_boxes[item], near_m)


@njit(nogil=True, inline="always")
def _write_rows_of(
    slot: int,
    own: int,
    begin: int,
    current: SlotFrames,
    scenes: SceneStarts,
    rows: LogRows,
    path_tracks: Int64Array,
    vehicles: Vehicles,
    room: TrafficRoom,
    out: TrafficRows,
) -> int:
    """Write the agents of the current frame of a slot that has started, and return how many they are.

    ``own`` is the row of the slot in the room.
    """
    frame, first, num_own = _vehicles_of(slot, current, scenes)
    # most environments have nobody who is driven or waits: all rows of the frame at once
    is_as_logged = True
    for vehicle in range(num_own):
        is_as_logged = is_as_logged and WAITING < vehicles.states[slot, vehicle] < DRIVEN
    if is_as_logged:
        count = copy_rows(rows, rows.starts[frame], rows.starts[frame + 1], out, begin)
    else:
        present = room.present[own]
        count = list_present(frame, rows, vehicles.states[slot], num_own, present, room.marks[own, MET])
        for number in range(count):
            who, end = present[number], begin + number
            if who < 0:
                vehicle = -1 - who
                out.groups[end], out.track_rows[end] = vehicles.groups[slot, vehicle], path_tracks[first + vehicle]
                for column in range(5):
                    out.boxes[end, column] = vehicles.boxes[slot, vehicle, column]
                for column in range(2):
                    out.velocities_mps[end, column] = vehicles.velocities_mps[slot, vehicle, column]
            else:
                copy_rows(rows, who, who + 1, out, end)
    return count


@kernel_jit
def write_rows(item: int, arguments: KernelArguments) -> None:
    """Write the agents of the current frame of a slot, and groups of -1 behind them; none where nothing has started.

    Arguments: slots (B,); where all slots are, and where scenes begin; the log; the track of each path; the vehicles;
    room; what is written: TrafficRows, from the given first row of each slot on.
    """
    slots, current, scenes, rows, path_tracks, vehicles, room, out = arguments
    current, scenes, room, out = SlotFrames(*current), SceneStarts(*scenes), TrafficRoom(*room), TrafficRows(*out)
    slot, begin, count = slots[item], out.starts[item], 0
    if 0 <= slot < len(current.frames) and current.frames[slot] >= 0:
        rows, vehicles = LogRows(*rows), Vehicles(*vehicles)
        own = item % len(room.steps)
        count = _write_rows_of(slot, own, begin, current, scenes, rows, path_tracks, vehicles, room, out)
    out.sizes[item] = count
    for row in range(begin + count, out.starts[item + 1]):
        out.groups[row] = -1


@kernel_jit
def write_rows_in_turn(num_slots: int, arguments: KernelArguments) -> None:
    """Do :func:`write_rows` for slots one after the other, the agents of each right behind those of the one before."""
    slots, current, scenes, rows, path_tracks, vehicles, room, out = uncounted(arguments)
    out.starts[0] = 0
    for item in range(num_slots):
        slot, begin, count = slots[item], out.starts[item], 0
        if current.frames[slot] >= 0:
            count = _write_rows_of(slot, 0, begin, current, scenes, rows, path_tracks, vehicles, room, out)
        out.sizes[item], out.starts[item + 1] = count, begin + count
