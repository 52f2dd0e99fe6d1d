"""Compact views: observations of AVs of environments, and of drivers in simulations, as one row of numbers each."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from l5kit._types import Float32Array, Int64Array
from l5kit.data.array_shapes import as_kernel_tuple
from l5kit.data.frame_rows import expand_ranges
from l5kit.device.backend import DeviceArray
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.observations.compact_layout import BOUND, CompactLayout
from l5kit.environment.observations.compact_state import (
    LookRoom,
    RouteRows,
    SeenMap,
    VehicleRows,
    sizes_of,
    write_compact_states,
    write_state,
)
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.lane_paths import make_lane_paths
from l5kit.lanes.path_positions import FollowedPlaces, follow_tracks
from l5kit.lanes.red_lights import LightRows, lights_of_lines, lights_of_map, lights_of_scenes
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.lanes.lane_following import EgoRows, SceneRows
from l5kit.simulation.lanes.track_poses import find_lane_followers, paths_of_avs, poses_of_avs, poses_of_tracks

if TYPE_CHECKING:
    from gymnasium import spaces


class CompactView:
    """View of compact observations of the AVs of N slots, on the processor or a device.

    Args:
        roads: Surroundings of the AVs.
        layout: Layout of observations; None for the default.

    Attributes:
        layout: Layout of observations.
        memory: Last observations, float32 (N, ``layout.size``), 0 before the first ones.
    """

    def __init__(self, roads: EpisodeRoads, layout: CompactLayout | None = None) -> None:
        self.layout = CompactLayout() if layout is None else layout
        self._roads, backend = roads, roads.backend
        self.memory: DeviceArray = backend.zeros((len(roads), self.layout.size), np.float32)
        self._seen_map = backend.shared(SeenMap.of_map(roads.driving_map))
        self._room = LookRoom.make(backend, len(roads), self.layout)
        backend.wait()  # for data that other streams may read

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, with a read-only map: kernels would be compiled again for a writable one."""
        vars(self).update(state, _seen_map=as_kernel_tuple(state["_seen_map"]))

    @property
    def space(self) -> "spaces.Box":
        """Space of one environment, float32 (``layout.size``,)."""
        from gymnasium import spaces  # imported here, as views are also used without it

        return spaces.Box(-BOUND, BOUND, (self.layout.size,), np.float32)

    def look(self, slots: DeviceArray, avs: AvArrays) -> None:
        """Write the observations of AVs in slots (B,); the arrays of AVs are of all slots."""
        roads = self._roads
        now, bank = roads.now, roads.traffic.arrays
        roads.backend.run(
            write_state,
            len(slots),
            slots,
            roads.items(len(slots)),
            (avs.boxes, avs.motions),
            roads.rows(slots).scene_rows,
            bank.paths,
            (now.routes, now.positions),
            (now.frames, roads.bank_rows, bank.lights),
            (sizes_of(self.layout), self._seen_map),
            self._room,
            self.memory,
        )


class CompactSight:
    """Routes, lights and last route positions of AVs or agents in a batch of S scenes, for compact observations.

    The route of an AV is the same as in environments: its logged lanes in all frames of the scene, whichever frames are
    simulated. The route of an agent is its logged lanes from the first simulated frame on. Scenes are independent of
    each other, and agents see the AV as one more vehicle.

    Args:
        batch: The scenes.
        layout: Layout of observations.
        threshold: Least label probability, exclusive, for an agent to be of its class.
        of_agents: Whether agents observe; else AVs.

    Raises:
        InvalidArgumentError: Agents are to observe, but there is no map with lanes.
    """

    def __init__(self, batch: SceneBatch, layout: CompactLayout, *, threshold: float, of_agents: bool = False) -> None:
        self._layout, self._threshold = layout, threshold
        driving_map = batch.driving_map
        self._seen_map = SeenMap.of_map(driving_map)
        self._lights = lights_of_map(batch.lights) if batch.is_live else lights_of_scenes(batch.colors)
        self._scene_starts = batch.colors.scene_starts
        if of_agents:
            if driving_map is None or driving_map.num_lanes == 0:
                raise InvalidArgumentError("the batch has no map with lanes, along which a policy could drive agents")
            paths = make_lane_paths(poses_of_tracks(batch, find_lane_followers(batch)), driving_map)
            scenes_of_paths = batch.tracks.scenes_of_tracks
        else:
            lengths = np.array([len(scene.frames) for scene in batch.recorded], np.int64)
            whole = replace(batch, starts=np.zeros(len(batch), np.int64), stops=lengths)
            paths, logged = paths_of_avs(whole), poses_of_avs(whole)
            poses = np.column_stack([logged.positions_m, logged.yaws_rad])
            self._frame_starts = logged.starts
            self._frame_arcs_m = follow_tracks(paths.starts, paths.points_m, logged.starts, poses)
            scenes_of_paths = np.arange(len(batch))
        scenes_of_pieces = np.repeat(scenes_of_paths, np.diff(paths.piece_starts))
        line_lights = lights_of_lines(self._lights, scenes_of_pieces, paths.line_lanes)
        self._paths = paths.arrays._replace(line_lanes=line_lights)
        self._has_path = paths.has_path
        self._followed = FollowedPlaces(len(paths))

    def __deepcopy__(self, memo: dict[int, object]) -> "CompactSight":
        """Return itself: looking again in the same frame starts from the positions before it."""
        return self

    def look(self, state: TrafficState) -> tuple[Float32Array, RouteRows]:
        """Return the observations of the K actors of a state, float32 (K, ``layout.size``), and their routes."""
        agents = state.agents
        if state.batch.threshold != self._threshold:
            agents = replace(agents, threshold=self._threshold)
        if state.actors is None:
            vehicles, boxes, rows = state.scenes, state.ego_boxes, agents.scene_rows
            # arc lengths of the logged AVs, after the log those of its last frame
            rows_of_log = self._frame_starts[vehicles] + state.frame_indices
            first_arcs_m = self._frame_arcs_m[np.minimum(rows_of_log, self._frame_starts[vehicles + 1] - 1)]
            routes = vehicles
        else:
            vehicles, boxes = state.actor_tracks, agents.boxes[state.actors]
            rows = _rows_of_others(agents.scene_rows, state.actors, state.actor_scenes, state.ego_rows)
            # agents without a known position are searched for on all of their routes, in the order that kernels expect
            order = np.argsort(vehicles, kind="stable")
            row_starts = np.searchsorted(vehicles[order], np.arange(len(self._has_path) + 1))
            poses, first_arcs_m = np.ascontiguousarray(boxes[order, :3]), np.empty(len(vehicles))
            first_arcs_m[order] = follow_tracks(self._paths.starts, self._paths.points_m, row_starts, poses)
            routes = np.where(self._has_path[vehicles], vehicles, -1)
        actors, size = state.actor_states, len(state)
        motions = np.stack([actors.speeds_mps, actors.accelerations_mps2, actors.steering_rad], axis=-1)
        scenes, frames = state.scenes[state.actor_scenes], state.frame_indices[state.actor_scenes]
        positions = self._followed.follow(
            self._paths, routes, slots=vehicles, frames=frames, poses=boxes, first_arcs_m=first_arcs_m
        )
        seen, route_rows = np.empty((size, self._layout.size), np.float32), RouteRows(self._paths, routes, positions)
        write_compact_states(
            self._layout,
            self._seen_map,
            VehicleRows(boxes, motions, np.arange(size)),
            seen=(rows, self._lights_of(scenes, frames) if state.actors is not None else self._lights_now(state)),
            routes=route_rows,
            out=seen,
        )
        return seen, route_rows

    def _lights_now(self, state: TrafficState) -> LightRows:
        """Return the lights of R scenes; for live scenes, whose lights are not known in advance, the current ones."""
        scenes = state.scenes
        if not state.batch.is_live:
            return self._lights_of(scenes, state.frame_indices)
        colors = state.colors
        rows = slice(colors.starts[colors.frames[0]], colors.starts[colors.frames[0] + 1])
        ranks = self._lights.ranks.copy()
        np.maximum.at(
            ranks, np.searchsorted(self._lights.lanes, colors.lanes[rows]), colors.ranks[rows].astype(np.int8)
        )
        return LightRows(np.zeros(1, np.int64), np.zeros(1, np.int64), self._lights._replace(ranks=ranks))

    def _lights_of(self, scenes: Int64Array, frames: Int64Array) -> LightRows:
        """Return the logged lights of frames (K,) of scenes (K,)."""
        return LightRows(self._scene_starts[scenes] + frames, scenes, self._lights)


def _rows_of_others(rows: SceneRows, actors: Int64Array, scenes: Int64Array, ego: EgoRows) -> SceneRows:
    """Return for each of K agents the road users of its scene and the AV, without the agent itself.

    Args:
        rows: Agents of R scenes.
        actors: Rows of the observing agents, (K,).
        scenes: Which of the R scenes each of them is in, (K,).
        ego: The AVs.
    """
    # each scene with its AV after its agents, once for each observing agent
    num_rows, num_scenes = len(rows.groups), len(rows.starts) - 1
    with_avs = np.insert(np.arange(num_rows), rows.starts[1:], num_rows + np.arange(num_scenes))
    starts = rows.starts + np.arange(num_scenes + 1)
    counts = (starts[1:] - starts[:-1])[scenes]
    chosen = with_avs[expand_ranges(starts[scenes], counts)]
    seen_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    groups = np.append(rows.groups, np.full(num_scenes, int(RoadUserGroup.VEHICLE)))[chosen]
    groups[seen_starts[:-1] + actors - rows.starts[scenes]] = int(RoadUserGroup.NONE)
    return SceneRows(
        starts=seen_starts,
        groups=groups,
        boxes=np.concatenate([rows.boxes, ego[0]])[chosen],
        velocities_mps=np.concatenate([rows.velocities_mps, ego[1]])[chosen],
    )
