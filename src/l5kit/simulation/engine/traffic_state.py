"""Traffic state: the view of drivers on scenes of a batch at one moment, and the protocol of a driver."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.data.record_buffer import RecordBuffer
from l5kit.lanes.red_lights import ColorRows, read_lane_colors
from l5kit.lanes.routes import FollowedRoutes, LaterRoutes, RouteSource
from l5kit.sampling.sample_columns import SampleColumns
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_rows import AgentsNow
from l5kit.simulation.engine.buffer_samples import samples_of_buffer
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.lanes.lane_following import EgoRows, TrafficArrays
from l5kit.simulation.vehicle_models import VehicleStates

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset

DriverMemory: TypeAlias = dict[str, Any]
"""Memory of drivers from step to step; each driver uses its own key."""

_ROUTES = "routes of samples"


@dataclass(frozen=True, eq=False)
class TrafficState:
    """R scenes of a batch at one moment, for the driver of their AVs or of some of their agents.

    Attributes:
        batch: The scenes as logged, the map, the tracks.
        scenes: Indices of these scenes in the batch, ascending, int64 (R,).
        frame_indices: Current frame of each scene, int64 (R,).
        step_time_s: Time between two frames, seconds.
        ego: The R AVs.
        agents: All agents of the current frames.
        actors: Rows of ``agents`` that the driver moves, ascending, int64 (K,); None for the driver of the AVs, which
            moves these R.
        actor_states: States of the actors: the AVs, or K agents.
        memory: Kept for the driver from step to step, empty at first, and not shared with other drivers or batches.
        buffer: Current records of all scenes, for samples.
        first_frames: Frame of each scene that comes first in the buffer, if earlier frames were dropped, int64 (R,);
            None if the buffer has all frames.
    """

    batch: SceneBatch
    scenes: Int64Array
    frame_indices: Int64Array
    step_time_s: float
    ego: VehicleStates
    agents: AgentsNow
    actors: Int64Array | None
    actor_states: VehicleStates
    memory: DriverMemory
    buffer: RecordBuffer
    first_frames: Int64Array | None = None

    def __len__(self) -> int:
        return len(self.actor_states)

    @cached_property
    def actor_scenes(self) -> Int64Array:
        """Index of the scene, of R, for each actor, (K,)."""
        if self.actors is None:
            return np.arange(len(self.scenes))
        return self.agents.scenes_of_rows[self.actors]

    @property
    def actor_tracks(self) -> Int64Array:
        """Rows of the actors in the track table of the batch, (K,); -1 for AVs."""
        if self.actors is None:
            return np.full(len(self.scenes), -1, np.int64)
        return self.agents.track_rows[self.actors]

    @property
    def buffer_frames(self) -> Int64Array:
        """Current frame of each scene, counted in the buffer, (R,)."""
        return self.frame_indices if self.first_frames is None else self.frame_indices - self.first_frames

    @cached_property
    def colors(self) -> ColorRows:
        """Lanes that are yellow or red now."""
        if not self.batch.is_live:
            return self.batch.colors.rows_of(self.scenes, self.frame_indices)
        seen = [self.buffer.scene(scene) for scene in self.scenes.tolist()]
        return read_lane_colors(seen, self.batch.lights).rows_of(np.arange(len(seen)), self.buffer_frames)

    @cached_property
    def ego_boxes(self) -> Float64Array:
        """World x and y of the centres of the AVs, yaw, length and width, (R, 5)."""
        boxes = np.empty((len(self.ego), 5))
        boxes[:, :2], boxes[:, 2] = self.ego.positions_m, self.ego.yaws_rad
        boxes[:, 3:] = self.batch.facts.ego_extent_m[:2]
        return boxes

    @property
    def ego_rows(self) -> EgoRows:
        """Boxes, (R, 5), and world velocities, (R, 2), of the AVs for kernels."""
        return self.ego_boxes, self.ego.velocities_mps

    @cached_property
    def arrays(self) -> TrafficArrays:
        """Agents, AVs and lights for kernels of drivers on lanes."""
        driving_map = self.batch.driving_map
        num_lanes = 1 if driving_map is None else max(driving_map.num_lanes, 1)
        return TrafficArrays(self.agents.scene_rows, self.agents.track_rows, self.ego_rows, self.colors, num_lanes)

    def samples(
        self,
        dataset: "BaseEgoDataset",
        *,
        among: slice = slice(None),
        missing: Literal["error", "mask"] = "error",
    ) -> SampleColumns:
        """Return the samples of the actors in the format of a dataset, a column (K, ...) for each key.

        Args:
            dataset: Builds the samples; its log is not used.
            among: Slice of the actors.
            missing: Handling of actors that do not pass the label filter of the dataset: ``error``, or ``mask`` for a
                False in ``is_made``.

        Raises:
            UnsupportedValueError: The dataset makes its samples one by one.
            TrackNotFoundError: An actor does not pass the label filter of the dataset, and ``missing`` is ``error``.
        """
        from l5kit.dataset.sample_indices import SampleIndices  # imported here, as datasets import torch

        actor_scenes = self.actor_scenes[among]
        rows = None if self.actors is None else self.agents.buffer_rows[self.actors[among]]
        indices = SampleIndices(self.scenes[actor_scenes], self.buffer_frames[actor_scenes], rows)

        # Routes of the AVs, for samples with routes. A driver may use several datasets, each with its own route map.
        routes: RouteSource | None = None
        route_map = dataset.route_map
        if route_map is not None and self.actors is None:
            known: list[FollowedRoutes] = self.memory.setdefault(_ROUTES, [])
            followed = next((each for each in known if each.route_map is route_map), None)
            if followed is None:
                frames, step_time_s = [scene.frames for scene in self.batch.recorded], dataset.route_step_time_s
                followed = FollowedRoutes.of_scenes(frames, first_frame=0, route_map=route_map, step_time_s=step_time_s)
                known.append(followed)
            routes = followed
            if self.first_frames is not None:
                first_frames = np.zeros(len(self.batch), np.int64)
                first_frames[self.scenes] = self.first_frames
                routes = LaterRoutes(followed, first_frames)
        names = self.batch.scene_indices
        return samples_of_buffer(dataset, self.buffer, indices, scene_indices=names, missing=missing, routes=routes)

    def only(self, scene: int) -> "TrafficState":
        """Return the state of one of the R scenes."""
        is_of = self.actor_scenes == scene
        first = int(self.agents.starts[scene])
        return replace(
            self,
            scenes=self.scenes[scene : scene + 1],
            frame_indices=self.frame_indices[scene : scene + 1],
            first_frames=None if self.first_frames is None else self.first_frames[scene : scene + 1],
            ego=self.ego.taken(slice(scene, scene + 1)),
            agents=self.agents.taken(scene),
            actors=None if self.actors is None else self.actors[is_of] - first,
            actor_states=self.actor_states.taken(is_of),
        )

    def alone(self, batch: SceneBatch, memory: DriverMemory) -> "TrafficState":
        """Return the state of a single scene as a batch of its own.

        Args:
            batch: The batch of this scene.
            memory: Memory of the driver for it.
        """
        first = np.zeros(1, np.int64)
        agents = replace(self.agents, scenes=first, tracks=batch.tracks)
        buffer = self.buffer.only(int(self.scenes[0]))
        return replace(self, batch=batch, scenes=first, agents=agents, memory=memory, buffer=buffer)


class Driver(Protocol):
    """Protocol of a driver.

    One object may drive many batches at the same time, so it must keep memory of a batch in ``TrafficState.memory``. If
    it raises an error, it is called again for each scene alone, with a copy of the memory before the error; if that was
    empty and all scenes fail, with a batch of this scene only. The memory is therefore copied in each step; large
    objects that do not change, or tolerate repeated calls, can avoid the copy with a ``__deepcopy__`` that returns the
    object itself.
    """

    def drive(self, state: TrafficState) -> Actions:
        """Return the actions of the K actors.

        Args:
            state: Current state of the scenes. For drivers of users its arrays are read-only, and writing to one raises
                an error; only ``memory`` may be written.
        """
