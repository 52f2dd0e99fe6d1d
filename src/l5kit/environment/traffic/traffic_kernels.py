"""Traffic kernels of one environment: present and driven agents of a frame, and entering vehicles.

A *vehicle* here has a path, and is numbered within its scene. In each environment it has one of seven states, from
:data:`GONE` to :data:`ACTING`.
"""

import math
from typing import NamedTuple

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array, NumericArray
from l5kit.device.backend import DeviceArray
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.path_positions import points_around
from l5kit.simulation.engine.agent_control import is_near
from l5kit.simulation.lanes.lane_following import SceneRows, put_on_path
from l5kit.simulation.lanes.leaders import write_object

GONE, WAITING, FIXED, LOGGED, ENTERING, DRIVEN, ACTING = range(-3, 4)
"""States of vehicles, from absent to acting.

Up to ``WAITING`` they are absent, for good or until there is room. From ``DRIVEN`` on a driver or actions move them.
The others are at their logged poses: ``FIXED`` ones for good, ``LOGGED`` ones until a driver takes over near the AV;
for ``ENTERING`` ones it is not decided yet whether there is room.
"""


class LogRows(NamedTuple):
    """Logged agents in F frames, N rows, frame by frame.

    Attributes:
        starts: First row of each frame and the end of the last one, (F + 1,).
        vehicles: Vehicle of each row, -1 for none, (N,).
        is_new: Whether the frame before lacks its track, (N,).
        groups: A ``RoadUserGroup`` of each, (N,).
        boxes: World x, y, yaw, length and width, (N, 5).
        headings: Cosine and sine of the yaws, (N, 2).
        velocities_mps: World x and y, (N, 2).
        tracks: Track of each row, (N,).
        arcs_m: Arc length on the path of its vehicle, (N,).
    """

    starts: Int64Array
    vehicles: Int32Array
    is_new: BoolArray
    groups: Int64Array
    boxes: Float64Array
    headings: Float64Array
    velocities_mps: Float64Array
    tracks: Int64Array
    arcs_m: Float64Array


class Vehicles(NamedTuple):
    """T vehicles of each of N environments; columns other than the states are only valid for driven ones.

    Attributes:
        states: int8, (N, T).
        motions: State of their driver, (N, T, any).
        boxes: (N, T, 5).
        velocities_mps: (N, T, 2).
        groups: (N, T).
    """

    states: NumericArray
    motions: Float64Array
    boxes: Float64Array
    velocities_mps: Float64Array
    groups: Int64Array


class TrafficRows(NamedTuple):
    """M agents in the current frames of B slots, slot by slot.

    On a device all slots have the same number of rows, some of which may be unused at the end.

    Attributes:
        sizes: Number of agents of each slot, int64 (B,).
        starts: First row of each slot and the end of the last one, int64 (B + 1,).
        groups: A ``RoadUserGroup`` of each, NONE for other objects and in unused rows, int64 (M,).
        boxes: World x and y of the centre, yaw, length and width, metres and radians, float64 (M, 5).
        velocities_mps: World x and y, float64 (M, 2).
        track_rows: Rows of ``track_ids`` of the bank, int64 (M,).
    """

    sizes: DeviceArray
    starts: DeviceArray
    groups: DeviceArray
    boxes: DeviceArray
    velocities_mps: DeviceArray
    track_rows: DeviceArray

    @property
    def scene_rows(self) -> SceneRows:
        """Starts, groups, boxes and velocities as a kernel argument."""
        return SceneRows(self.starts, self.groups, self.boxes, self.velocities_mps)


@kernel_jit
def list_present(
    frame: int, rows: LogRows, states: NumericArray, num_vehicles: int, present: Int64Array, is_met: BoolArray
) -> int:
    """Write the agents of a frame, rows of the log or, for driven ones, -1 minus the vehicle; return their number.

    They are in the order of the log, followed by driven vehicles that the log does not have in this frame.

    Args:
        frame: The frame, counted in all frames.
        rows: The log.
        states: State of each vehicle, (T,).
        num_vehicles: Vehicles of the scene.
        present: Receives the agents.
        is_met: Buffer of T marks.
    """
    is_met[:num_vehicles] = False
    count = 0
    for row in range(rows.starts[frame], rows.starts[frame + 1]):
        vehicle = rows.vehicles[row]
        entry = row
        if 0 <= vehicle < num_vehicles:
            if states[vehicle] <= WAITING:
                continue
            if states[vehicle] >= DRIVEN:
                entry = -1 - vehicle
                is_met[vehicle] = True
        present[count] = entry
        count += 1
    for vehicle in range(num_vehicles):
        if states[vehicle] >= DRIVEN and not is_met[vehicle]:
            present[count] = -1 - vehicle
            count += 1
    return count


@kernel_jit
def take_over(
    slot: int,
    frame: int,
    first: int,
    rows: LogRows,
    vehicles: Vehicles,
    paths: PathArrays,
    ego_box: Float64Array,
    near_m: float,
) -> None:
    """Let drivers take over vehicles of an environment that are near the AV.

    Args:
        slot: The environment.
        frame: Its frame, counted in all frames.
        first: The path of its first vehicle.
        rows: The log.
        vehicles: The vehicles, updated.
        paths: All paths.
        ego_box: The AV in this frame, (5,).
        near_m: Largest distance to the AV.
    """
    states, motions, boxes, velocities_mps, groups = vehicles
    for row in range(rows.starts[frame], rows.starts[frame + 1]):
        vehicle = rows.vehicles[row]
        if vehicle < 0 or states[slot, vehicle] != LOGGED:
            continue
        box = rows.boxes[row]
        if rows.groups[row] < 0 or not is_near(box, ego_box, near_m):
            continue
        states[slot, vehicle], groups[slot, vehicle] = DRIVEN, rows.groups[row]
        for column in range(5):
            boxes[slot, vehicle, column] = rows.boxes[row, column]
        velocities_mps[slot, vehicle, 0], velocities_mps[slot, vehicle, 1] = (
            rows.velocities_mps[row, 0],
            rows.velocities_mps[row, 1],
        )
        # on its path near its logged arc length; the speed is negative if it reverses
        x_mps, y_mps, box = rows.velocities_mps[row, 0], rows.velocities_mps[row, 1], rows.boxes[row]
        ahead_mps = x_mps * math.cos(box[2]) + y_mps * math.sin(box[2])
        speed_mps = math.copysign(math.sqrt(x_mps * x_mps + y_mps * y_mps), ahead_mps)
        points_m = paths.points_m[paths.starts[first + vehicle] : paths.starts[first + vehicle + 1]]
        first_point, stop = points_around(rows.arcs_m[row], len(points_m))
        put_on_path(points_m, first_point, stop, (box[0], box[1], box[2]), speed_mps, motions[slot, vehicle])


@kernel_jit
def write_objects(
    slot: int,
    rows: LogRows,
    vehicles: Vehicles,
    present: Int64Array,
    objects: Float64Array,
    object_rows: Int64Array,
) -> int:
    """Write the road users of a frame, and the object number of each driven vehicle; return the number of objects."""
    count = 0
    for entry in present:
        if entry < 0:
            vehicle = -1 - entry
            object_rows[vehicle] = count
            write_object(objects, count, vehicles.boxes[slot, vehicle], vehicles.velocities_mps[slot, vehicle])
            count += 1
        elif rows.groups[entry] >= 0:
            # same as `write_object`, with known sines of headings
            box = rows.boxes[entry]
            objects[count, 0], objects[count, 1] = box[0], box[1]
            objects[count, 2], objects[count, 3] = rows.headings[entry, 0], rows.headings[entry, 1]
            objects[count, 4], objects[count, 5] = 0.5 * box[3], 0.5 * box[4]
            objects[count, 6], objects[count, 7] = rows.velocities_mps[entry, 0], rows.velocities_mps[entry, 1]
            objects[count, 8] = 0.5 * math.sqrt(box[3] * box[3] + box[4] * box[4])
            count += 1
    return count


@kernel_jit
def mark_entering(frame: int, rows: LogRows, states: NumericArray, ego_box: Float64Array, near_m: float) -> bool:
    """Mark vehicles that appear in a frame and would be driven, admit all others; return whether any are marked.

    Vehicles that appear farther away are at their logged poses, even if they overlap others.
    """
    is_any = False
    for row in range(rows.starts[frame], rows.starts[frame + 1]):
        vehicle = rows.vehicles[row]
        if vehicle < 0 or not (states[vehicle] == WAITING or (states[vehicle] == LOGGED and rows.is_new[row])):
            continue
        box = rows.boxes[row]
        is_entering = rows.groups[row] >= 0 and is_near(box, ego_box, near_m)
        states[vehicle] = ENTERING if is_entering else LOGGED
        is_any |= is_entering
    return is_any


@kernel_jit
def copy_rows(rows: LogRows, first: int, stop: int, out: TrafficRows, end: int) -> int:
    """Append rows of the log to others from row ``end`` on, and return their number."""
    groups, boxes, velocities_mps = out.groups, out.boxes, out.velocities_mps
    for row in range(first, stop):
        index = end + row - first
        groups[index], out.track_rows[index] = rows.groups[row], rows.tracks[row]
        for column in range(5):
            boxes[index, column] = rows.boxes[row, column]
        velocities_mps[index, 0], velocities_mps[index, 1] = rows.velocities_mps[row, 0], rows.velocities_mps[row, 1]
    return stop - first
