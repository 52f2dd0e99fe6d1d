"""Damage to the values of records: the files are whole, what they say is not."""

from collections.abc import Callable

import numpy as np

from attack.record_files import ArrayFiles
from attack.target import Kinds, Target

RECORDS = Kinds("records")
_INTERVALS = {
    "scene": ("scenes", "frame_index_interval"),
    "agent": ("frames", "agent_index_interval"),
    "face": ("frames", "traffic_light_faces_index_interval"),
}
_HUGE = (10**6, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)


def _rows_with(target: Target, which: str) -> tuple[ArrayFiles, np.ndarray, str]:
    """Return array, rows and field of a kind of interval; those of agents where a log has no faces."""
    key, field = _INTERVALS[which]
    array = target.array(key)
    if field not in array.dtype.names:
        field = "agent_index_interval"
    return array, array.read(), field


def _spread(target: Target, length: int) -> slice:
    """Return one row, or a few in sequence."""
    first = target.integer(0, length - 1)
    return slice(first, min(length, first + int(target.pick([1, 1, 1, 2, 5]))))


def _interval_kinds(which: str) -> None:
    """Register what can happen to one kind of interval."""

    def kind(name: str, weight: int = 1) -> Callable[[Callable[[Target, np.ndarray], str]], None]:
        def add(change: Callable[[Target, np.ndarray], str]) -> None:
            def apply(target: Target) -> str:
                array, rows, field = _rows_with(target, which)
                bounds = rows[field]
                said = change(target, bounds)
                array.write(rows)
                return f"{field} of {array.key}: {said}"

            RECORDS(f"{which} interval: {name}", weight=weight)(apply)

        return add

    @kind("zeroed", weight=3)
    def zeroed(target: Target, bounds: np.ndarray) -> str:
        rows = _spread(target, len(bounds))
        bounds[rows] = 0
        return f"rows {rows.start} to {rows.stop - 1} are [0, 0]"

    @kind("constant", weight=2)
    def constant(target: Target, bounds: np.ndarray) -> str:
        rows, value = _spread(target, len(bounds)), target.integer(0, int(bounds.max()))
        bounds[rows] = value
        return f"rows {rows.start} to {rows.stop - 1} are [{value}, {value}]"

    @kind("swapped", weight=2)
    def swapped(target: Target, bounds: np.ndarray) -> str:
        first, second = (target.integer(0, len(bounds) - 1) for _ in range(2))
        bounds[[first, second]] = bounds[[second, first]]
        return f"rows {first} and {second} are swapped"

    @kind("overlapping", weight=2)
    def overlapping(target: Target, bounds: np.ndarray) -> str:
        row, by, side = target.integer(0, len(bounds) - 1), target.integer(1, 5), target.integer(0, 1)
        bounds[row, side] += by if side else -by
        return f"row {row} is {bounds[row].tolist()}, {by} more on side {side}"

    @kind("short", weight=2)
    def short(target: Target, bounds: np.ndarray) -> str:
        row, by, side = target.integer(0, len(bounds) - 1), target.integer(1, 2), target.integer(0, 1)
        bounds[row, side] -= by if side else -by
        return f"row {row} is {bounds[row].tolist()}, {by} less on side {side}"

    @kind("first start", weight=2)
    def first_start(target: Target, bounds: np.ndarray) -> str:
        bounds[0, 0] = int(target.pick([1, 2, 3, max(1, int(bounds[0, 1])), -1]))
        return f"the first row starts at {bounds[0, 0]}"

    @kind("shifted")
    def shifted(target: Target, bounds: np.ndarray) -> str:
        row, by = target.integer(0, len(bounds) - 1), int(target.pick([-3, -1, 1, 3]))
        bounds[row:] += by
        return f"all rows from {row} on are shifted by {by}"

    @kind("boundary moved")
    def boundary_moved(target: Target, bounds: np.ndarray) -> str:
        row, by = target.integer(0, len(bounds) - 2), int(target.pick([-1, 1]))
        bounds[row, 1] += by
        bounds[row + 1, 0] += by
        return f"the boundary of rows {row} and {row + 1} is moved by {by}"

    @kind("negative")
    def negative(target: Target, bounds: np.ndarray) -> str:
        row, side = target.integer(0, len(bounds) - 1), target.integer(0, 1)
        bounds[row, side] = -int(target.pick([1, 2, *_HUGE]))
        return f"row {row} is {bounds[row].tolist()}"

    @kind("huge", weight=2)
    def huge(target: Target, bounds: np.ndarray) -> str:
        row, side = target.integer(0, len(bounds) - 1), target.integer(0, 1)
        bounds[row, side] = int(target.pick(_HUGE))
        return f"row {row} is {bounds[row].tolist()}"

    @kind("reversed")
    def turned(target: Target, bounds: np.ndarray) -> str:
        row = int(np.argmax(bounds[:, 1] > bounds[:, 0]))
        bounds[row] = bounds[row, ::-1]
        return f"row {row} is {bounds[row].tolist()}"

    @kind("last end")
    def last_end(target: Target, bounds: np.ndarray) -> str:
        by = int(target.pick([-2, -1, 1, 5]))
        bounds[-1, 1] += by
        return f"the last row is {bounds[-1].tolist()}, {by} from the end"


for _which in _INTERVALS:
    _interval_kinds(_which)


def _set(target: Target, key: str, field: str, value: object, *, one_component: bool = True) -> str:
    """Write a value into a field of a row, into one of its components or all of them."""
    array = target.array(key)
    rows, row = array.read(), target.integer(0, array.length - 1)
    if one_component and rows.dtype[field].shape:
        component = tuple(target.integer(0, size - 1) for size in rows.dtype[field].shape)
        rows[field][(row, *component)] = value
        array.write(rows)
        return f"{field}{list(component)} of row {row} of {key} is {value}"
    rows[field][row] = value
    array.write(rows)
    return f"{field} of row {row} of {key} is {value!r}"


_FLOATS = {
    "agents": ("centroid", "extent", "yaw", "velocity", "label_probabilities"),
    "frames": ("ego_translation", "ego_rotation"),
    "traffic_light_faces": ("traffic_light_face_status",),
}


def _float_field(target: Target) -> tuple[str, str]:
    key = target.key(*_FLOATS)
    return key, str(target.pick(_FLOATS[key]))


@RECORDS("not finite", weight=4)
def not_finite(target: Target) -> str:
    key, field = _float_field(target)
    value = target.pick([np.nan, np.inf, -np.inf])
    return _set(target, key, field, value, one_component=bool(target.rng.integers(2)))


@RECORDS("huge number", weight=3)
def huge_number(target: Target) -> str:
    key, field = _float_field(target)
    wide = field in ("centroid", "ego_translation", "ego_rotation")
    value = float(target.pick([1e9, -1e15, 1e30, -3e38] + ([1e154, 1e300, 1e307, -1.7e308] if wide else [])))
    return _set(target, key, field, value)


@RECORDS("odd number", weight=2)
def odd_number(target: Target) -> str:
    key, field = _float_field(target)
    return _set(target, key, field, float(target.pick([0.0, -0.0, -1.0, 1e-30, 5e-324, 2.0, 1000.0])))


@RECORDS("track id", weight=4)
def track_id(target: Target) -> str:
    value = int(target.pick([0, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1]))
    return _set(target, "agents", "track_id", np.uint64(value))


@RECORDS("track ids of a track", weight=2)
def track_ids_of_a_track(target: Target) -> str:
    array = target.array("agents")
    rows = array.read()
    old = target.pick(rows["track_id"])
    value = int(target.pick([2**63, 2**63 + 7, 2**64 - 1, 2**63 - 1]))
    rows["track_id"][rows["track_id"] == old] = value
    array.write(rows)
    return f"track {old} is called {value} in all scenes"


@RECORDS("track id twice")
def track_id_twice(target: Target) -> str:
    array = target.array("agents")
    rows = array.read()
    row = target.integer(0, len(rows) - 2)
    rows["track_id"][row + 1] = rows["track_id"][row]
    array.write(rows)
    return f"rows {row} and {row + 1} of agents have the track id of the first"


@RECORDS("frame time", weight=3)
def frame_time(target: Target) -> str:
    array = target.array("frames")
    rows, row = array.read(), target.integer(1, array.length - 1)
    before = int(rows["timestamp"][row - 1])
    value = int(target.pick([0, -1, before, before + 1, before - 10**8, -(2**63), 2**63 - 1, before + 10**12]))
    rows["timestamp"][row] = value
    array.write(rows)
    return f"timestamp of row {row} of frames is {value}; that of the row before is {before}"


@RECORDS("frames 1 ns apart")
def frames_1_ns_apart(target: Target) -> str:
    array = target.array("frames")
    rows = array.read()
    first = target.integer(0, len(rows) - 4)
    rows["timestamp"][first + 1 : first + 4] = rows["timestamp"][first] + np.arange(1, 4)
    array.write(rows)
    return f"frames {first} to {first + 3} are 1 ns apart"


@RECORDS("scene time")
def scene_time(target: Target) -> str:
    value = int(target.pick([0, -1, -(2**63), 2**63 - 1]))
    return _set(target, "scenes", str(target.pick(["start_time", "end_time"])), value)


@RECORDS("rotation", weight=3)
def rotation(target: Target) -> str:
    array = target.array("frames")
    rows, row = array.read(), target.integer(0, array.length - 1)
    name = str(target.pick(["zeros", "scaled", "mirrored", "transposed", "pitched by 90 degrees", "upside down"]))
    old = rows["ego_rotation"][row]
    rows["ego_rotation"][row] = {
        "zeros": np.zeros((3, 3)),
        "scaled": 3 * old,
        "mirrored": old @ np.diag([1, -1, 1]),
        "transposed": old.T,
        "pitched by 90 degrees": old @ np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]]),
        "upside down": old @ np.diag([1, -1, -1]),
    }[name]
    array.write(rows)
    return f"ego_rotation of frame {row} is {name}"


@RECORDS("position", weight=3)
def position(target: Target) -> str:
    array = target.array("frames")
    rows, row = array.read(), target.integer(0, array.length - 1)
    name = str(target.pick(["at the origin", "2 km away", "300 km away", "1 m away"]))
    shift = {"at the origin": 0, "2 km away": 2e3, "300 km away": 3e5, "1 m away": 1}[name]
    rows["ego_translation"][row] = 0 if shift == 0 else rows["ego_translation"][row] + shift
    array.write(rows)
    return f"the AV of frame {row} is {name}"


_CODE_POINTS = {
    "outside Unicode": (0x110000, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF),
    "half of a pair": (0xD800, 0xDFFF, 0xDC00),
    "not ASCII": (0xE9, 0xF4, 0x4E2D, 0x1F697, 0x10FFFF, 0x7F, 0x1, 0xA),
}


def _write_text(target: Target, key: str, field: str, points: list[int], row: int) -> None:
    array = target.array(key)
    rows = array.read()
    texts = np.zeros((len(rows), 16), np.uint32)
    texts[:] = np.ascontiguousarray(rows[field]).view(np.uint32).reshape(len(rows), 16)
    texts[row] = 0
    texts[row, : len(points)] = points
    offset = rows.dtype.fields[field][1]
    rows.view(np.uint8).reshape(len(rows), -1)[:, offset : offset + 64] = texts.view(np.uint8).reshape(len(rows), 64)
    array.write(rows)


@RECORDS("text", weight=4)
def text(target: Target) -> str:
    key = target.key("scenes", "traffic_light_faces")
    field = "host" if key == "scenes" else str(target.pick(["face_id", "traffic_light_id"]))
    row = target.integer(0, target.array(key).length - 1)
    name = str(
        target.pick(["outside Unicode", "half of a pair", "not ASCII", "not ASCII", "full", "empty", "inner zero"])
    )
    if name in _CODE_POINTS:
        points = [ord("a")] * target.integer(0, 3) + [int(target.pick(_CODE_POINTS[name]))] * target.integer(1, 12)
    else:
        points = {"full": [0x1F697] * 16, "empty": [], "inner zero": [97, 0, 98]}[name]
    _write_text(target, key, field, points, row)
    return f"{field} of row {row} of {key} is {name}: code points {[hex(point) for point in points]}"


@RECORDS("random bytes in a row", weight=4)
def random_bytes_in_a_row(target: Target) -> str:
    array = target.array(target.key())
    rows, row = array.read(), target.integer(0, array.length - 1)
    rows.view(np.uint8).reshape(len(rows), -1)[row] = np.frombuffer(target.rng.bytes(rows.dtype.itemsize), np.uint8)
    array.write(rows)
    return f"row {row} of {array.key} holds random bytes"


@RECORDS("random bytes in a field", weight=4)
def random_bytes_in_a_field(target: Target) -> str:
    array = target.array(target.key())
    rows, row = array.read(), target.integer(0, array.length - 1)
    field = str(target.pick(rows.dtype.names))
    offset, width = rows.dtype.fields[field][1], rows.dtype[field].itemsize
    columns = rows.view(np.uint8).reshape(len(rows), -1)
    columns[row, offset : offset + width] = np.frombuffer(target.rng.bytes(width), np.uint8)
    array.write(rows)
    return f"{field} of row {row} of {array.key} holds random bytes"


@RECORDS("turned bits", weight=3)
def turned_bits(target: Target) -> str:
    array = target.array(target.key())
    rows, count = array.read(), int(target.pick([1, 1, 3, 20]))
    plain = rows.view(np.uint8).reshape(-1)
    places = target.rng.integers(0, len(plain), count)
    np.bitwise_xor.at(plain, places, (1 << target.rng.integers(0, 8, count)).astype(np.uint8))
    array.write(rows)
    struck = sorted({int(place) // rows.dtype.itemsize for place in places})
    return f"{count} bits of the records of {array.key} are turned, in rows {struck}"


@RECORDS("records swapped", weight=2)
def records_swapped(target: Target) -> str:
    array = target.array(target.key())
    rows = array.read()
    first, second = (target.integer(0, len(rows) - 1) for _ in range(2))
    rows[[first, second]] = rows[[second, first]]
    array.write(rows)
    return f"rows {first} and {second} of {array.key} are swapped"


@RECORDS("records repeated")
def records_repeated(target: Target) -> str:
    array = target.array(target.key())
    rows = array.read()
    row = target.integer(0, len(rows) - 2)
    rows[row + 1] = rows[row]
    array.write(rows)
    return f"row {row + 1} of {array.key} repeats the row before"
