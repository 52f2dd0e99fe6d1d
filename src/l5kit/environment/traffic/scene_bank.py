"""Scene bank: scenes of a log as arrays for the kernels of environments, prepared on first use."""

from typing import Any

import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import map_tuple
from l5kit.data.growing_array import GrowingArray
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.traffic.prepared_scene import BankArrays, prepare_scene
from l5kit.environment.traffic.traffic_kernels import LogRows
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, L5KitError
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch

_STARTS = ("frames", "routes", "starts", "piece_starts", "lane_starts")
_TRACKS = ("tracks", "path_tracks")


class SceneBank:
    """Scenes of a log, concatenated in the order of their first use.

    A row of an agent takes about 100 bytes, a frame 100 and a metre of a path 8: a scene of 248 frames with 80 agents
    and 40 paths takes about 2.2 MB, and up to twice that while arrays grow. All arrays are read-only and end with the
    last prepared scene; preparing more scenes does not change arrays that were read before.

    Args:
        log: An opened dataset.
        road: The map; without one AVs have straight paths and vehicles have none.
        threshold: Least label probability, exclusive, for an agent to be of its class.
        drives_agents: Whether vehicles that follow lanes get paths, on which drivers can move them.
        unknown_limit_mps: Speed limit of lanes without one in the map, above 0.

    Attributes:
        log: The dataset.
        road: The map.
        threshold: Least label probability, exclusive, for an agent to be of its class.
        drives_agents: Whether vehicles get paths.
        unknown_limit_mps: Speed limit of lanes without one in the map.
        scenes: Scenes of the log that are prepared, int64 (S,).
        arrays: All arrays for kernels; the attributes below are parts of it.
        frame_starts: First frame of each scene and the end of the last one, int64 (S + 1,).
        routes: Path of the AV of each scene and the end of all paths, int64 (S + 1,).
        ego_poses: World x, y and yaw of the logged AV in all frames, (F, 3).
        ego_motion: Its speed, longitudinal acceleration, yaw rate and steering, (F, 4).
        expert_arcs_m: Its arc length along its own route, (F,).
        rows: Agent rows; see ``BankArrays`` for this and the following.
        paths: Paths.
        path_tracks: Tracks of the paths.
        path_last_frames: Last frames of these tracks.
        track_ids: Track ids.
        lights: Lights.

    Raises:
        InvalidArgumentError: The limit is not above 0.
    """

    scenes: Int64Array
    arrays: BankArrays
    frame_starts: Int64Array
    routes: Int64Array
    ego_poses: Float64Array
    ego_motion: Float64Array
    expert_arcs_m: Float64Array
    rows: LogRows
    paths: PathArrays
    path_tracks: Int64Array
    path_last_frames: Int64Array
    track_ids: NumericArray
    lights: SceneLights

    def __init__(
        self,
        log: ChunkedDataset,
        *,
        road: RoadMap | None,
        threshold: float = 0.5,
        drives_agents: bool,
        unknown_limit_mps: float = UNKNOWN_LIMIT_MPS,
    ) -> None:
        if not unknown_limit_mps > 0:
            raise InvalidArgumentError(f"unknown_limit_mps is {unknown_limit_mps}; pass metres per second above 0")
        self.log, self.road, self.threshold = log, road, threshold
        self.drives_agents, self.unknown_limit_mps = drives_agents, unknown_limit_mps
        self._bank_rows: dict[int, int] = {}
        self._grown: BankArrays = map_tuple(_growing, BankArrays.empty())
        self._refresh()

    def __len__(self) -> int:
        return len(self._bank_rows)

    def __getstate__(self) -> dict[str, object]:
        """Return the state of a copy, without views: they would be copied one by one, and become writable."""
        return {name: value for name, value in vars(self).items() if name not in type(self).__annotations__}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._refresh()

    def prepare(self, scenes: Int64Array) -> Int64Array:
        """Return the rows of scenes (B,) of the log in this bank, (B,), and prepare missing scenes.

        Raises:
            IndexOutOfRangeError: The log does not have a scene.
            CorruptedDataError: A scene is damaged; the bank is unchanged.
        """
        requested = np.asarray(scenes, np.int64).tolist()
        missing = [scene for scene in dict.fromkeys(requested) if scene not in self._bank_rows]
        if missing:
            # read all scenes before adding the first one, so that a damaged scene leaves the bank unchanged
            for scene, (prepared, vehicle_paths) in [(scene, self._read(scene)) for scene in missing]:
                self._bank_rows[scene] = len(self._bank_rows)
                _extend(self._grown, prepared, len(self._grown.track_ids))
                _extend(self._grown.paths, vehicle_paths, 0)
            self._refresh()
        return np.array([self._bank_rows[scene] for scene in requested], np.int64)

    def _read(self, scene: int) -> tuple[BankArrays, PathArrays]:
        """Return a scene of the log, and the paths of its vehicles."""
        if not 0 <= scene < len(self.log.scenes):
            raise IndexOutOfRangeError(f"scenes has {scene}; the log has scenes 0 to {len(self.log.scenes) - 1}")
        try:
            records = SceneRecords.read(self.log, scene)
            batch = SceneBatch(
                scene_indices=np.array([scene]),
                recorded=[records],
                starts=np.zeros(1, np.int64),
                stops=np.array([len(records.frames)]),
                facts=self.log.facts,
                road=self.road,
                threshold=self.threshold,
            )
            return prepare_scene(
                batch, drives_agents=self.drives_agents, unknown_limit_mps=float(self.unknown_limit_mps)
            )
        except L5KitError as error:
            raise CorruptedDataError(f"scene {scene} cannot be driven: {error}") from error

    def _refresh(self) -> None:
        """Set the attributes to the current arrays."""
        self.scenes = np.array(list(self._bank_rows), np.int64)
        self.arrays = arrays = map_tuple(GrowingArray.read, self._grown)
        self.frame_starts, self.routes = arrays.starts
        self.ego_poses, self.ego_motion, self.expert_arcs_m = arrays.ego
        self.rows, self.paths, self.lights, self.track_ids = arrays.rows, arrays.paths, arrays.lights, arrays.track_ids
        self.path_tracks, self.path_last_frames = arrays.path_tracks, arrays.path_last_frames


def _growing(array: NumericArray) -> GrowingArray:
    """Return a growing array with the content of an array."""
    column = GrowingArray(array.dtype, array.shape[1:])
    column.extend(array)
    return column


def _extend(grown: Any, parts: Any, first_track: int) -> None:
    """Append a prepared scene, or paths of one, whose tracks are numbered from ``first_track`` on."""
    for name, column, part in zip(parts._fields, grown, parts, strict=True):
        if isinstance(part, tuple):
            _extend(column, part, first_track)
        elif name in _STARTS:
            column.extend(column.read()[-1] + part[1:])
        else:
            column.extend(np.where(part < 0, -1, part + first_track) if name in _TRACKS else part)
