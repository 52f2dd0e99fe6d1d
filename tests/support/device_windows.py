"""Windows of the processor on a device, for tests that compare what kernels make of both."""

from dataclasses import dataclass

from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows, send_windows
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.windows import Targets, Windows
from l5kit.device.backend import Backend
from l5kit.sampling.device_sampler import send_columns


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
    log, cut = send_windows(backend, windows, lights)
    extent_m = float(windows.ego_extent_m[0]), float(windows.ego_extent_m[1])
    _, on_device = send_columns(backend, {}, targets, extent_m)
    counts = windows.agents.head(windows.num_history).counts.sum(axis=1)
    return DeviceBatch(log, cut, on_device, int(counts.max(initial=0)))
