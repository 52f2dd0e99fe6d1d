"""Scene bank: scenes of a log as arrays for the kernels of environments, prepared when they are first asked for."""

from typing import Any

import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.data.growing_array import GrowingArray
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.traffic.prepared_scene import PreparedScene, prepare_scene
from l5kit.environment.traffic.traffic_kernels import LogRows
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, L5KitError
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, LanePaths, PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch

__all__ = ["SceneBank"]

_STARTS = ("frame_starts", "row_starts", "routes", "light_starts", "light_lane_starts", "path_starts", "piece_starts")
_OF_PATHS = ("points_m", "lengths_m", "piece_arcs_m", "piece_lanes", "line_lanes", "piece_limits_mps")


class SceneBank:
    """Scenes of a log, one after the other in the order in which they were first asked for.

    A row of an agent takes about 100 bytes, a frame 100 and a metre of a path 8: a scene of 248 frames with 80 agents
    and 40 paths about 2.2 MB, and up to twice that while arrays grow. All arrays are read-only and end where the
    prepared scenes do; an array that was read before more scenes were prepared stays as it is.

    Args:
        log: An opened dataset.
        road: The map; None without one, with which AVs have straight paths and no vehicle has one.
        threshold: What the probability of a label must be above for an agent to be of its class.
        drives_agents: Whether vehicles that follow lanes get paths, on which drivers may move them.
        unknown_limit_mps: Speed limit where the map does not say one, above 0.

    Attributes:
        log: As above, like the next ones.
        road: The map.
        threshold: What is above it.
        drives_agents: Whether vehicles get paths.
        unknown_limit_mps: The limit.
        scenes: Scene of the log of each of the S scenes that are prepared, int64 (S,).
        frame_starts: First frame of each and the end of the last one, int64 (S + 1,).
        ego_poses: World x, y and yaw of the logged AV in all frames, (F, 3).
        ego_motion: Its speed in m/s, acceleration along in m/s2, yaw rate in rad/s and steering in rad, (F, 4).
        expert_arcs_m: How far it is along its own route, (F,).
        paths: All paths, in each scene that of the AV, then those of the vehicles that may be driven; ``line_lanes``
            holds numbers of the lights of the scene, -1 for none.
        routes: Path of the AV of each scene and the end of all paths, int64 (S + 1,).
        path_tracks: Track of each path, a row of ``track_ids``, -1 for an AV, int64 (P,).
        path_last_frames: Last frame of this track, counted in its scene, int64 (P,).
        track_ids: The tracks of all scenes, as in the log, uint64 (T,).
        rows: The agent rows of all frames, as kernels take them.
        lights: The lights of all scenes.

    Raises:
        InvalidArgumentError: The limit is not above 0.
    """

    scenes: Int64Array
    frame_starts: Int64Array
    ego_poses: Float64Array
    ego_motion: Float64Array
    expert_arcs_m: Float64Array
    paths: PathArrays
    routes: Int64Array
    path_tracks: Int64Array
    path_last_frames: Int64Array
    track_ids: NumericArray
    rows: LogRows
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
        self._columns = _empty_columns()
        self._refresh()

    def __len__(self) -> int:
        return len(self._bank_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: no views, which would be copied one by one, and could be written to."""
        return {name: value for name, value in vars(self).items() if name not in type(self).__annotations__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._refresh()

    def prepare(self, scenes: Int64Array) -> Int64Array:
        """Return where scenes (B,) of the log are in this bank, (B,), and prepare those that are not there yet.

        Raises:
            IndexOutOfRangeError: The log does not have a scene.
            CorruptedDataError: A scene is damaged; the bank stays as it was.
        """
        asked = np.asarray(scenes, np.int64).tolist()
        missing = [scene for scene in dict.fromkeys(asked) if scene not in self._bank_rows]
        if missing:
            for scene, prepared in [(scene, self._read(scene)) for scene in missing]:
                self._bank_rows[scene] = len(self._bank_rows)
                self._add(scene, prepared)
            self._refresh()
        return np.array([self._bank_rows[scene] for scene in asked], np.int64)

    def _read(self, scene: int) -> PreparedScene:
        """Return a scene of the log, prepared."""
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

    def _add(self, scene: int, prepared: PreparedScene) -> None:
        """Put a prepared scene behind the others."""
        columns = self._columns
        first_track = len(columns["track_ids"])
        path_tracks = np.where(prepared.path_tracks < 0, -1, prepared.path_tracks + first_track)
        self._extend_starts("frame_starts", [len(prepared.row_counts)])
        self._extend_starts("routes", [len(path_tracks)])
        self._extend_starts("row_starts", prepared.row_counts)
        num_lights = len(prepared.light_lanes)
        self._extend_starts("light_starts", np.full(len(prepared.row_counts), num_lights))
        self._extend_starts("light_lane_starts", [num_lights])
        columns["scenes"].extend(np.array([scene]))
        columns["tracks"].extend(prepared.tracks + first_track)
        columns["path_tracks"].extend(path_tracks)
        for name in columns.keys() & vars(prepared).keys() - {"tracks", "path_tracks"}:
            columns[name].extend(getattr(prepared, name))
        for paths in prepared.paths:
            self._add_paths(paths)

    def _add_paths(self, paths: LanePaths) -> None:
        self._extend_starts("path_starts", np.diff(paths.starts))
        self._extend_starts("piece_starts", np.diff(paths.piece_starts))
        for name in _OF_PATHS:
            self._columns[name].extend(getattr(paths, name))

    def _extend_starts(self, name: str, counts: Int64Array | list[int]) -> None:
        column = self._columns[name]
        column.extend(int(column.read()[-1]) + np.cumsum(counts, dtype=np.int64))

    def _refresh(self) -> None:
        """Hand on the arrays as they are now."""
        of = {name: column.read() for name, column in self._columns.items()}
        for name in ("scenes", "frame_starts", "ego_poses", "ego_motion", "expert_arcs_m", "track_ids"):
            setattr(self, name, of[name])
        self.routes, self.path_tracks, self.path_last_frames = (
            of["routes"],
            of["path_tracks"],
            of["path_last_frames"],
        )
        self.rows = LogRows(
            starts=of["row_starts"],
            seats=of["seats"],
            is_new=of["is_entering"],
            groups=of["groups"],
            boxes=of["boxes"],
            headings=of["directions"],
            velocities_mps=of["velocities_mps"],
            tracks=of["tracks"],
            arcs_m=of["arcs_m"],
        )
        self.lights = SceneLights(
            starts=of["light_starts"],
            ranks=of["light_ranks"],
            lane_starts=of["light_lane_starts"],
            lanes=of["light_lanes"],
        )
        self.paths = PathArrays(
            of["path_starts"],
            of["points_m"],
            of["lengths_m"],
            of["piece_starts"],
            of["piece_arcs_m"],
            of["piece_lanes"],
            of["line_lanes"],
            of["piece_limits_mps"],
        )


def _empty_columns() -> dict[str, GrowingArray]:
    """Return the arrays of a bank without scenes."""
    columns = {name: GrowingArray(np.int64, first=0) for name in _STARTS}
    for name in ("scenes", "groups", "tracks", "path_tracks", "path_last_frames", "light_lanes"):
        columns[name] = GrowingArray(np.int64)
    for name, width in {"boxes": 5, "velocities_mps": 2, "directions": 2, "ego_poses": 3, "ego_motion": 4}.items():
        columns[name] = GrowingArray(np.float64, (width,))
    for name in ("arcs_m", "expert_arcs_m", "lengths_m", "piece_arcs_m", "piece_limits_mps"):
        columns[name] = GrowingArray(np.float64)
    columns |= {"piece_lanes": GrowingArray(np.int64), "line_lanes": GrowingArray(np.int64, (2,))}
    columns |= {"points_m": GrowingArray(np.float64, (2,)), "seats": GrowingArray(np.int32)}
    columns["light_ranks"] = GrowingArray(np.int8)
    return columns | {"is_entering": GrowingArray(np.bool_), "track_ids": GrowingArray(np.uint64)}
