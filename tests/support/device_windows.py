"""Windows of the processor on a device, for tests that compare what kernels make of both."""

from dataclasses import dataclass

from l5kit.data.device_log import DeviceLog, send_windows
from l5kit.data.index.windows import TargetArrays, Targets, WindowArrays, Windows
from l5kit.data.map.lane_lights import LaneLights
from l5kit.device.backend import Backend
from l5kit.sampling.backend_sampler import send_columns


@dataclass(frozen=True)
class DeviceBatch:
    """A batch of windows on a device, with a log that holds its frames and rows alone.

    ``most_rows`` are the agents in the history of the window that has most.
    """

    log: DeviceLog
    windows: WindowArrays
    targets: TargetArrays
    most_rows: int


def to_device(backend: Backend, windows: Windows, targets: Targets, lights: LaneLights) -> DeviceBatch:
    """Return a batch on a device."""
    log, cut = send_windows(backend, windows, lights)
    _, on_device = send_columns(backend, {}, targets)
    counts = windows.agents.frames(0, windows.num_history).counts.sum(axis=1)
    return DeviceBatch(log, cut, on_device, int(counts.max(initial=0)))
