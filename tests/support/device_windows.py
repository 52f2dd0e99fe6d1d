"""Windows of the processor on a device, for tests that compare what kernels make of both."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Int64Array, NumericArray, RecordArray
from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows, as_device_agents, av_headings
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Targets, Windows
from l5kit.device.backend import Backend


@dataclass(frozen=True)
class DeviceBatch:
    """A batch of windows on a device, with a log that holds its frames and rows alone.

    ``most_rows`` are the agents in the history of the window that has most.
    """

    log: DeviceLog
    windows: DeviceWindows
    targets: DeviceTargets
    most_rows: int


def to_device(backend: Backend, windows: Windows, targets: Targets, lights: LaneLights) -> DeviceBatch:
    """Return a batch on a device."""
    is_there = frames_there(windows)
    agents, starts, stops = joined_rows(windows.agents)
    faces, face_starts, face_stops = joined_rows(windows.tl_faces)
    face_bounds = np.zeros((len(windows), 2), np.int64)
    if face_starts.shape[1]:
        face_bounds = np.stack([face_starts[:, 0], face_stops[:, 0]], axis=1)
    positions_m = np.ascontiguousarray(windows.frames["ego_translation"][..., :2])
    headings = av_headings(windows.frames["ego_rotation"].reshape(-1, 3, 3))
    num_frames = is_there.size
    log = backend.upload(
        [
            np.stack([starts, stops], axis=-1).reshape(num_frames, 2),
            np.repeat(face_bounds, is_there.shape[1], axis=0),
            positions_m.reshape(num_frames, 2),
            headings,
            as_device_agents(agents),
            rows_of_faces(faces, lights),
        ]
    )
    cut = backend.upload([is_there, starts, stops, face_bounds, positions_m, headings.reshape(*is_there.shape, 3)])
    seen = backend.upload(
        [
            np.zeros(len(targets), np.uint64) if targets.track_ids is None else targets.track_ids.astype(np.uint64),
            targets.centroids_m,
            targets.yaws_rad.astype(np.float32),
            targets.agent_from_world,
        ]
    )
    extent_m = float(windows.ego_extent_m[0]), float(windows.ego_extent_m[1])
    counts = (stops - starts)[:, : windows.num_history].sum(axis=1)
    return DeviceBatch(
        DeviceLog(backend, *log, int((stops - starts).max(initial=0))),
        DeviceWindows(windows.num_history, *cut),
        DeviceTargets(targets.track_ids is not None, *seen, extent_m),
        int(counts.max(initial=0)),
    )


def frames_there(windows: Windows) -> BoolArray:
    """Return which frames each window has, (B, H + F)."""
    columns = np.arange(windows.frames.shape[1])
    num_past, num_future = windows.counts[:, :, None]
    is_there: BoolArray = (columns < num_past) | (
        (columns >= windows.num_history) & (columns < windows.num_history + num_future)
    )
    return is_there


def joined_rows(rows: WindowRows) -> tuple[RecordArray, Int64Array, Int64Array]:
    """Return the rows of all windows in one array, and where those of each frame are, (B, F) twice."""
    starts, stops, first = rows.starts.copy(), rows.stops.copy(), 0
    for array, part in rows.parts():
        starts[part] += first
        stops[part] += first
        first += len(array)
    is_empty = stops == starts
    starts[is_empty] = stops[is_empty] = 0
    return np.concatenate(list(rows.arrays)), starts, stops


def rows_of_faces(faces: RecordArray, lights: LaneLights) -> NumericArray:
    """Return the row of each face of a log among those of a map, or -1, int32 (T,)."""
    first = np.arange(len(faces))[:, None]
    found = np.full(len(faces), -1, np.int32)
    if len(faces):
        active, starts = lights.find_active(WindowRows([faces], first, first + 1))
        found[np.diff(starts) > 0] = active
    return found
