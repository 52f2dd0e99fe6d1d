"""Scene batch: logged scenes that are simulated together, and their map."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, Log, RecordArray
from l5kit.data.kept import Kept
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights
from l5kit.data.map.opened import SceneMaps
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.scene_states import ego_states_of_poses
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.lanes.driving_map import DrivingMap, build_driving_map
from l5kit.lanes.red_lights import LaneColors, read_lane_colors
from l5kit.simulation.engine.track_table import TrackTable

_Result = TypeVar("_Result")


class RoadMap:
    """Map for drivers and scores; build it once and reuse it for all batches.

    Args:
        map_api: The semantic map.

    Attributes:
        api: The semantic map.
    """

    def __init__(self, map_api: MapAPI) -> None:
        self.api = map_api

    @cached_property
    def driving(self) -> DrivingMap:
        """Lanes and drivable surface as arrays; the first access reads the whole map."""
        return build_driving_map(self.api)

    @cached_property
    def faces_of_lanes(self) -> Mapping[str, Mapping[str, list[str]]]:
        """Ids of the faces of each lane by colour, by lane id; the first lane counts if an id is repeated."""
        ids, lights = self.api.arrays.lane_ids.to_list(), self.api.arrays.lights
        of_rows: list[dict[str, list[str]]] = [{} for _ in ids]
        for face, rank in enumerate(lights.ranks.tolist()):
            for row in lights.lanes_of(face).tolist():
                of_rows[row].setdefault(LIGHT_COLORS[rank - 1], []).append(lights.id_of(face))
        return dict(zip(reversed(ids), reversed(of_rows), strict=True))


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """S scenes that are simulated together. They may differ in length, start and number of agents.

    Attributes:
        scene_indices: Indices of the scenes in their log, int64 (S,).
        recorded: The scenes as logged, from their first frame on; they are never changed.
        starts: First simulated frame of each scene; earlier frames are its past, int64 (S,).
        stops: End of the simulated frames, exclusive, int64 (S,).
        facts: Facts of the log.
        road: The map; None without one.
        threshold: An agent has a class if the probability of its label is above this.
        is_live: Whether the future is unknown, as in a session: ``recorded`` then only contains the routes, and agents
            and lights are read from the buffer.

    Raises:
        InvalidArgumentError: There are no scenes, or a scene lacks the frames.
    """

    scene_indices: Int64Array
    recorded: Sequence[SceneRecords]
    starts: Int64Array
    stops: Int64Array
    facts: LogFacts = field(default_factory=LogFacts)
    road: RoadMap | None = None
    threshold: float = 0.5
    is_live: bool = False

    def __post_init__(self) -> None:
        size = len(self.recorded)
        if size == 0 or not self.scene_indices.shape == self.starts.shape == self.stops.shape == (size,):
            raise InvalidArgumentError(
                f"SceneBatch: {size} recorded scenes, at least one, need as many scene_indices, starts and stops, got "
                f"{self.scene_indices.shape}, {self.starts.shape} and {self.stops.shape}"
            )
        for scene, start, stop in zip(range(size), self.starts.tolist(), self.stops.tolist(), strict=True):
            num_frames = len(self.recorded[scene].frames)
            if not 0 <= start < stop <= num_frames:
                raise InvalidArgumentError(
                    f"SceneBatch: scene {int(self.scene_indices[scene])} has {num_frames} frames; it cannot be "
                    f"simulated from frame {start} to {stop} (not included)"
                )

    @classmethod
    def of_scenes(
        cls,
        recorded: Sequence[SceneRecords],
        *,
        scene_indices: Sequence[int] | None = None,
        start: int = 0,
        num_frames: int | None = None,
        facts: LogFacts | None = None,
        road: RoadMap | None = None,
    ) -> "SceneBatch":
        """Return a batch of scenes with a common start frame.

        Args:
            recorded: The scenes as logged.
            scene_indices: Their indices in the log; 0, 1, ... by default.
            start: First simulated frame.
            num_frames: Largest number of simulated frames; None for all.
            facts: Facts of the log; those of L5Kit 1.5 by default.
            road: The map; None without one.

        Raises:
            InvalidArgumentError: A scene lacks the first frame, or ``num_frames`` is below 1.
        """
        if num_frames is not None and num_frames < 1:
            raise InvalidArgumentError(f"num_frames is {num_frames}; simulate at least 1 frame, or None for all")
        lengths = np.array([len(scene.frames) for scene in recorded], np.int64)
        return cls(
            scene_indices=np.array(range(len(recorded)) if scene_indices is None else scene_indices, np.int64),
            recorded=list(recorded),
            starts=np.full(len(recorded), start, np.int64),
            stops=lengths if num_frames is None else np.minimum(lengths, start + num_frames),
            facts=facts or LogFacts(),
            road=road,
        )

    def __len__(self) -> int:
        return len(self.recorded)

    def only(self, scene: int) -> "SceneBatch":
        """Return a batch with one of the scenes."""
        part = slice(scene, scene + 1)
        scenes = {name: getattr(self, name)[part] for name in ("scene_indices", "recorded", "starts", "stops")}
        return replace(self, **scenes)

    def once(self, find: "Callable[[SceneBatch], _Result]") -> _Result:
        """Return the cached result of a function of this batch, called once; the result must not be changed."""
        if find not in self._results:
            self._results[find] = find(self)
        result: _Result = self._results[find]
        return result

    @cached_property
    def _results(self) -> dict[Callable[..., object], Any]:
        return {}

    @property
    def driving_map(self) -> DrivingMap | None:
        """Lanes and drivable surface; None without a map."""
        return None if self.road is None else self.road.driving

    @property
    def lights(self) -> LaneLights | None:
        """The traffic light faces of the map; None without a map."""
        return None if self.road is None else self.road.api.arrays.lights

    @cached_property
    def colors(self) -> LaneColors:
        """Lanes that are yellow or red in the frames of the log."""
        return read_lane_colors(self.recorded, self.lights)

    @property
    def body(self) -> EgoBody:
        """The box of the AV."""
        return EgoBody.of_extent(*self.facts.ego_extent_m[:2])

    @cached_property
    def tracks(self) -> TrackTable:
        """All tracks of all scenes."""
        return TrackTable.of_scenes(self.recorded, threshold=self.threshold)

    @cached_property
    def ego_log(self) -> "EgoLog":
        """Poses of the AV in all frames of the log."""
        return stack_ego_frames([scene.frames for scene in self.recorded])

    @cached_property
    def logged_motion(self) -> EgoStates:
        """The AV in all frames of the log, with speeds and accelerations from differences of its poses."""
        return self.ego_log.states(self.body)

    @cached_property
    def arrays(self) -> list[SceneArrays]:
        """The simulated frames as logged, as plain arrays."""
        bounds = zip(self.recorded, self.starts.tolist(), self.stops.tolist(), strict=True)
        return [SceneArrays.of_records(scene.cut(start, stop)) for scene, start, stop in bounds]

    @cached_property
    def expert(self) -> EgoStates:
        """The logged AV in the simulated frames, padded to the longest scene."""
        bounds = zip(self.recorded, self.starts.tolist(), self.stops.tolist(), strict=True)
        return stack_ego_frames([scene.frames[start:stop] for scene, start, stop in bounds]).states(self.body)


@dataclass(frozen=True, eq=False)
class EgoLog:
    """Poses of the AV in S scenes of up to F frames; values of missing frames are undefined.

    Attributes:
        is_there: Mask of the frames of a scene, which come first, bool (S, F).
        timestamps_s: Seconds since the first frame, (S, F).
        positions_m: World x and y, (S, F, 2).
        yaws_rad: World headings, (S, F).
    """

    is_there: BoolArray
    timestamps_s: Float64Array
    positions_m: Float64Array
    yaws_rad: Float64Array

    def states(self, body: EgoBody) -> EgoStates:
        """Return states with speeds and accelerations from differences of the poses."""
        return ego_states_of_poses(
            self.positions_m, self.yaws_rad, timestamps_s=self.timestamps_s, is_there=self.is_there, body=body
        )


def stack_ego_frames(scenes: Sequence[RecordArray]) -> EgoLog:
    """Return the poses of the AV in the frames of S scenes, ``FRAME_DTYPE``, (F,) each."""
    counts = np.array([len(frames) for frames in scenes], np.int64)
    shape = (len(scenes), int(counts.max(initial=0)))
    is_there = np.arange(shape[1]) < counts[:, None]
    log = EgoLog(is_there, np.zeros(shape), np.zeros((*shape, 2)), np.zeros(shape))
    for row, frames in enumerate(scenes):
        valid = slice(len(frames))
        log.timestamps_s[row, valid] = (frames["timestamp"] - frames["timestamp"][:1]) * 1e-9
        log.positions_m[row, valid] = frames["ego_translation"][:, :2]
        log.yaws_rad[row, valid] = rotations33_as_yaws(frames["ego_rotation"])
    return log


_MOST_KEPT: Final = 4
"""Largest number of cached road maps: one for each block that threads work on."""


class SceneRoads:
    """Cache of road maps of scenes; it is thread-safe.

    Args:
        maps: The maps of the dataset.

    Attributes:
        maps: The maps of the dataset.
    """

    def __init__(self, maps: SceneMaps) -> None:
        self.maps = maps
        self._kept: Kept[RoadMap] = Kept(_MOST_KEPT)

    def of_scenes(self, log: Log, scenes: Sequence[int] | Int64Array) -> RoadMap:
        """Return one road map with the maps of some scenes of a log.

        Args:
            log: The log.
            scenes: Indices of its scenes, at least one.

        Raises:
            InvalidArgumentError: The scenes are on too many maps at once.
            CorruptedDataError: A map cannot be read.
        """
        rows = tuple(sorted(set(self.maps.rows_of_scenes(log, scenes).tolist())))
        return self._kept.get(rows, lambda: RoadMap(self.maps.map_of(rows)))
