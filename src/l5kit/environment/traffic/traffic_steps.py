"""Traffic steps of many environments: one after the other on the processor, or as kernels on a device.

On the processor an environment completes its step before the next one begins, in shared work buffers. On a device one
kernel has an item for each environment, another one for each vehicle that moves: vehicles see the objects of the frame
before the step, which are written first, so that none waits for another.
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
"""Columns of the step of a slot: number of moved vehicles, number of objects, path of the first vehicle, frame."""

NUM_STEP_COLUMNS = 4

MET, _THERE, _NEW, _BLOCKED = range(4)
"""Rows of the marks of a slot."""

NUM_MARKS = 4


class SceneStarts(NamedTuple):
    """Starts of the S scenes of a bank.

    Attributes:
        frames: First frame of each scene and the end of the last one, (S + 1,).
        routes: Path of the AV of each scene and the end of all paths, (S + 1,).
    """

    frames: Int64Array
    routes: Int64Array


class SlotFrames(NamedTuple):
    """Current frames of N slots.

    Attributes:
        frames: Current frame of each slot, counted in its scene, -1 for empty slots, (N,).
        bank_rows: Scene of each slot, counted in the bank, (N,).
        num_driven: Number of agents that were driven into this frame, (N,).
    """

    frames: Int64Array
    bank_rows: Int64Array
    num_driven: Int64Array


class TrafficRoom(NamedTuple):
    """Work buffers of a step, for R slots at the same time; item n uses row n modulo R.

    Attributes:
        present: Present agents, (R, M).
        marks: Marks of vehicles and of present agents, (R, NUM_MARKS, M).
        objects: Objects that drivers see, (R, M + 1, OBJECT_FIELDS).
        object_rows: Object number of each vehicle, (R, T).
        driven: Vehicles to move, (R, T).
        steps: Columns of the step, (R, NUM_STEP_COLUMNS).
        poses: New poses of vehicles, (R, T, 1, 3).
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
    first = scenes.routes[scene] + 1  # after the path of the AV
    return scenes.frames[scene] + current.frames[slot], first, scenes.routes[scene + 1] - first


@kernel_jit
def start_slots(item: int, arguments: KernelArguments) -> None:
    """Put a slot at a frame, with all agents at their logged poses.

    Arguments: orders, a row of slots, of scenes and of frames each, int64 (3, B); outputs: current frames of all slots,
    and states of vehicles.
    """
    orders, current, states = arguments
    frames, bank_rows, num_driven = current
    slot = orders[0, item]
    bank_rows[slot], frames[slot], num_driven[slot] = orders[1, item], orders[2, item], 0
    for vehicle in range(states.shape[1]):
        states[slot, vehicle] = LOGGED


@kernel_jit
def begin_step(item: int, arguments: KernelArguments) -> None:
    """Advance a slot to the next frame, and write the vehicles to move and the objects they see; not in the last frame.

    Arguments: slots (B,); boxes and velocities of the AVs, (B, 5) and (B, 2); current frames of all slots, and starts
    of scenes; the log; all paths, and the last frame of the track of each; the vehicles, updated; distance to the AV
    within which they are driven, 0 or less to drive none; work buffers.
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

    # Drivers take over vehicles near the AV. Driven vehicles whose track continues are moved.
    take_over(slot, row, first, rows, vehicles, paths, boxes[item], near_m)
    count = 0
    for vehicle in range(num_own):
        if states[vehicle] == DRIVEN and last_frames[first + vehicle] > frame:
            room.driven[own, count] = vehicle
            count += 1

    # objects are written before any vehicle moves; the AV is the last one
    if count > 0:
        present, objects = room.present[own], room.objects[own]
        num_present = list_present(row, rows, states, num_own, present, room.marks[own, MET])
        num_objects = write_objects(slot, rows, vehicles, present[:num_present], objects, room.object_rows[own])
        write_object(objects, num_objects, boxes[item], velocities_mps[item])
        step[_OBJECTS], step[_FIRST], step[_FRAME] = num_objects + 1, first, row

    # driven and acting vehicles leave at the end of their log
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
    """Move a vehicle selected by :func:`begin_step`; ``own`` is the row of the slot in the work buffers."""
    step, vehicle = room.steps[own], room.driven[own, number]
    box, velocity_mps = vehicles.boxes[slot, vehicle], vehicles.velocities_mps[slot, vehicle]
    motion, pose = vehicles.motions[slot, vehicle], room.poses[own, vehicle]
    ranks = lights.ranks[lights.starts[step[_FRAME]] : lights.starts[step[_FRAME] + 1]]
    half_size_m, own_row = (0.5 * box[3], 0.5 * box[4]), room.object_rows[own, vehicle]
    seen = room.objects[own, : step[_OBJECTS]]
    drive_on(paths, step[_FIRST] + vehicle, motion, half_size_m, seen, own_row, ranks, drive, np.inf, pose)

    # the speed is that of the displacement, and numbers are rounded, both as in records
    step_x, step_y = pose[0, 0] - box[0], pose[0, 1] - box[1]
    speed_mps = math.sqrt(step_x * step_x + step_y * step_y) / drive[2]
    velocity_mps[0] = np.float32(speed_mps * math.cos(pose[0, 2]))
    velocity_mps[1] = np.float32(speed_mps * math.sin(pose[0, 2]))
    box[0], box[1], box[2] = pose[0, 0], pose[0, 1], np.float32(pose[0, 2])


@kernel_jit
def move_vehicles(item: int, arguments: KernelArguments) -> None:
    """Move one of the vehicles selected by :func:`begin_step`; T items for each slot.

    Arguments: slots (B,); the vehicles, updated; all paths; lights; parameters of the driver; work buffers.
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
    """Step every ``step``-th slot in turn, with the arguments of begin_step and move_vehicles."""
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
    """Make vehicles of a slot wait that would appear inside another box.

    Arguments: slots (B,); boxes of the AVs, (B, 5); current frames of all slots, and starts of scenes; the log; the
    vehicles, updated; distance to the AV within which vehicles are driven; work buffers.
    """
    slots, ego_boxes, current, scenes, rows, vehicles, near_m, room = arguments
    current, scenes, room, slot = SlotFrames(*current), SceneStarts(*scenes), TrafficRoom(*room), slots[item]
    if not 0 <= slot < len(current.frames) or current.frames[slot] < 0:
        return
    rows, vehicles, ego_box, own = LogRows(*rows), Vehicles(*vehicles), ego_boxes[item], item % len(room.steps)
    (frame, _, num_own), states = _vehicles_of(slot, current, scenes), vehicles.states[slot]
    if not mark_entering(frame, rows, states, ego_box, near_m):
        return

    # all present agents, with marks for entering vehicles
    present, marks, boxes = room.present[own], room.marks[own], room.objects[own, :, :5]
    is_there, is_new, is_blocked = marks[_THERE], marks[_NEW], marks[_BLOCKED]
    count = list_present(frame, rows, states, num_own, present, marks[MET])
    for number in range(count):
        entry = present[number]
        is_new[number], is_blocked[number] = False, False
        if entry < 0:
            is_there[number] = True
            for column in range(5):
                boxes[number, column] = vehicles.boxes[slot, -1 - entry, column]
        else:
            is_there[number] = rows.groups[entry] >= 0
            is_new[number] = rows.vehicles[entry] >= 0 and states[rows.vehicles[entry]] == ENTERING
            for column in range(5):
                boxes[number, column] = rows.boxes[entry, column]

    # without room they wait, and are checked again in the next frame
    mark_blocked_rows(0, count, boxes, ego_box, is_there, is_new, is_blocked)
    for number in range(count):
        if is_new[number]:
            states[rows.vehicles[present[number]]] = WAITING if is_blocked[number] else LOGGED


@kernel_jit
def take_vehicles(item: int, arguments: KernelArguments) -> None:
    """Let drivers take over vehicles of a slot near the AV in the current frame, before its next step.

    Arguments: slots (B,); boxes of the AVs, (B, 5); current frames of all slots, and starts of scenes; the log; all
    paths; the vehicles, updated; distance to the AV within which vehicles are driven.
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
    """Write the agents in the current frame of a slot that has started, and return their number.

    ``own`` is the row of the slot in the work buffers.
    """
    frame, first, num_own = _vehicles_of(slot, current, scenes)
    # fast path: in most environments no vehicle is driven or waits, so all rows of the frame are copied at once
    is_as_logged = True
    for vehicle in range(num_own):
        is_as_logged = is_as_logged and WAITING < vehicles.states[slot, vehicle] < DRIVEN
    if is_as_logged:
        count = copy_rows(rows, rows.starts[frame], rows.starts[frame + 1], out, begin)
    else:
        present = room.present[own]
        count = list_present(frame, rows, vehicles.states[slot], num_own, present, room.marks[own, MET])
        for number in range(count):
            entry, end = present[number], begin + number
            if entry < 0:
                vehicle = -1 - entry
                out.groups[end], out.track_rows[end] = vehicles.groups[slot, vehicle], path_tracks[first + vehicle]
                for column in range(5):
                    out.boxes[end, column] = vehicles.boxes[slot, vehicle, column]
                for column in range(2):
                    out.velocities_mps[end, column] = vehicles.velocities_mps[slot, vehicle, column]
            else:
                copy_rows(rows, entry, entry + 1, out, end)
    return count


@kernel_jit
def write_rows(item: int, arguments: KernelArguments) -> None:
    """Write the agents in the current frame of a slot, and groups of -1 after them; none for empty slots.

    Arguments: slots (B,); current frames of all slots, and starts of scenes; the log; the track of each path; the
    vehicles; work buffers; output: TrafficRows, from the given first row of each slot on.
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
    """Run :func:`write_rows` for slots in turn, with the agents of consecutive slots directly after each other."""
    slots, current, scenes, rows, path_tracks, vehicles, room, out = uncounted(arguments)
    out.starts[0] = 0
    for item in range(num_slots):
        slot, begin, count = slots[item], out.starts[item], 0
        if current.frames[slot] >= 0:
            count = _write_rows_of(slot, 0, begin, current, scenes, rows, path_tracks, vehicles, room, out)
        out.sizes[item], out.starts[item + 1] = count, begin + count
