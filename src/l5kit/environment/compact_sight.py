"""Compact sight: what the AVs of a simulation see of their routes, of road users and of lanes, as in environments."""

from dataclasses import replace

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int64Array
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_state import RouteRows, SeenMap, VehicleRows, write_compact_states
from l5kit.lanes.path_positions import FollowedPlaces, follow_tracks
from l5kit.lanes.red_lights import LightRows, lights_of_lines, lights_of_map, lights_of_scenes
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.lanes.av_paths import paths_of_avs
from l5kit.simulation.lanes.track_poses import poses_of_avs


class CompactSight:
    """Routes and lights of a batch of S scenes, and where on its route each AV was seen last.

    A route is that of environments: the lanes that the log has the AV on in all frames of the scene, whichever of them
    are simulated. Each scene is seen as if it were alone.

    Args:
        batch: The scenes.
        layout: What is seen, and where it stands.
        threshold: What the probability of a label must be above for an agent to be of its class.
    """

    def __init__(self, batch: SceneBatch, layout: CompactLayout, *, threshold: float) -> None:
        self._layout, self._threshold = layout, threshold
        driving_map = batch.driving_map
        self._seen_map = SeenMap.of_map(driving_map)
        whole = _with_all_frames(batch)
        paths, logged = paths_of_avs(whole), poses_of_avs(whole)
        poses = np.column_stack([logged.positions_m, logged.yaws_rad])
        self._frame_starts = logged.starts
        self._frame_arcs_m = follow_tracks(paths.starts, paths.points_m, logged.starts, poses)
        self._lights = lights_of_map(batch.lights) if batch.is_live else lights_of_scenes(batch.colors)
        self._scene_starts = batch.colors.scene_starts
        scenes_of_pieces = np.repeat(np.arange(len(batch)), np.diff(paths.piece_starts))
        line_lights = lights_of_lines(self._lights, scenes_of_pieces, paths.line_lanes)
        self._paths = paths.arrays._replace(line_lanes=line_lights)
        self._followed = FollowedPlaces(len(batch))

    def __deepcopy__(self, memo: dict[int, object]) -> "CompactSight":
        """Return itself: asked again in a frame, it starts from what it knew before."""
        return self

    def look(self, state: TrafficState) -> tuple[Float32Array, RouteRows]:
        """Return what the AVs of R scenes of the batch see, float32 (R, ``layout.size``), and their routes."""
        scenes, agents = state.scenes, state.agents
        if state.batch.threshold != self._threshold:
            agents = replace(agents, threshold=self._threshold)
        egos, size = state.ego, len(scenes)
        motions = np.stack([egos.speeds_mps, egos.accelerations_mps2, egos.steering_rad], axis=-1)
        boxes = state.ego_boxes
        positions = self._followed.follow(
            self._paths,
            scenes,
            slots=scenes,
            frames=state.frame_indices,
            poses=boxes,
            first_arcs_m=self._logged_arcs_m(scenes, state.frame_indices),
        )
        seen, routes = np.empty((size, self._layout.size), np.float32), RouteRows(self._paths, scenes, positions)
        write_compact_states(
            self._layout,
            self._seen_map,
            VehicleRows(boxes, motions, np.arange(size)),
            seen=(
                agents.scene_rows,
                self._lights_now(state),
            ),
            routes=routes,
            out=seen,
        )
        return seen, routes

    def _logged_arcs_m(self, scenes: Int64Array, frames: Int64Array) -> Float64Array:
        """Return where on its route the log has each AV, (R,); behind the log, where it ends."""
        starts = self._frame_starts
        arcs_m: Float64Array = self._frame_arcs_m[np.minimum(starts[scenes] + frames, starts[scenes + 1] - 1)]
        return arcs_m

    def _lights_now(self, state: TrafficState) -> LightRows:
        """Return the lights of R scenes; where nobody knows them before, those of the map as they are now."""
        scenes = state.scenes
        if not state.batch.is_live:
            return LightRows(self._scene_starts[scenes] + state.frame_indices, scenes, self._lights)
        colors = state.colors
        rows = slice(colors.starts[colors.frames[0]], colors.starts[colors.frames[0] + 1])
        ranks = self._lights.ranks.copy()
        np.maximum.at(
            ranks, np.searchsorted(self._lights.lanes, colors.lanes[rows]), colors.ranks[rows].astype(np.int8)
        )
        return LightRows(np.zeros(1, np.int64), np.zeros(1, np.int64), self._lights._replace(ranks=ranks))


def _with_all_frames(batch: SceneBatch) -> SceneBatch:
    """Return the same scenes, of which all frames are simulated."""
    lengths = np.array([len(scene.frames) for scene in batch.recorded], np.int64)
    return replace(batch, starts=np.zeros(len(batch), np.int64), stops=lengths)
