"""Bank arrays: the scenes of a bank as kernels read them, in memory of the processor or of a device."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_kernels import LogRows
from l5kit.environment.traffic.traffic_steps import SceneStarts
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights

__all__ = ["BankArrays", "EgoLog"]


class EgoLog(NamedTuple):
    """The logged AVs in all frames: ``ego_poses``, ``ego_motion`` and ``expert_arcs_m``."""

    poses: DeviceArray
    motion: DeviceArray
    arcs_m: DeviceArray


@dataclass(frozen=True, eq=False)
class BankArrays:
    """The arrays of a :class:`~l5kit.environment.traffic.scene_bank.SceneBank`, which says what is in them.

    Attributes:
        num_scenes: How many scenes they are of.
        most_rows: Agent rows of the frame that has most of them.
        most_seats: Vehicles of the scene that has most paths, at least 1.
        scenes: Where scenes begin.
        rows: ``rows``.
        paths: ``paths``.
        path_tracks: ``path_tracks``.
        path_last_frames: ``path_last_frames``.
        ego: The logged AVs.
        lights: ``lights``.
    """

    num_scenes: int
    most_rows: int
    most_seats: int
    scenes: SceneStarts
    rows: LogRows
    paths: PathArrays
    path_tracks: DeviceArray
    path_last_frames: DeviceArray
    ego: EgoLog
    lights: SceneLights

    @classmethod
    def of(cls, bank: SceneBank, backend: Backend) -> "BankArrays":
        """Return the arrays of all scenes that are prepared: those of the bank on the processor, copies on a GPU."""
        arrays: Any = (
            SceneStarts(bank.frame_starts, bank.routes),
            bank.rows,
            bank.paths,
            EgoLog(bank.ego_poses, bank.ego_motion, bank.expert_arcs_m),
            bank.lights,
            (bank.path_tracks, bank.path_last_frames),
        )
        scenes, rows, paths, ego, lights, (path_tracks, path_last_frames) = backend.shared(arrays)
        return cls(
            num_scenes=len(bank),
            most_rows=int(np.diff(bank.rows.starts).max(initial=0)),
            most_seats=max(int(np.diff(bank.routes).max(initial=1)) - 1, 1),
            scenes=scenes,
            rows=rows,
            paths=paths,
            path_tracks=path_tracks,
            path_last_frames=path_last_frames,
            ego=ego,
            lights=lights,
        )

    def require_same(self, bank: SceneBank, backend: Backend) -> None:
        """Refuse a bank that has got more scenes since it was copied to a device.

        Raises:
            InvalidArgumentError: It has.
        """
        if len(bank) != self.num_scenes:
            raise InvalidArgumentError(
                f"bank has {len(bank)} scenes, but {self.num_scenes} are on {backend.device}; prepare all scenes "
                "before they are uploaded"
            )
