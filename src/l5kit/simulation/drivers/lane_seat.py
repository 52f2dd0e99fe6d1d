"""Lane seat, the memory of drivers on lanes for a batch: paths, positions of vehicles, and their previous states."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_choice import lane_arrays
from l5kit.lanes.lane_paths import (
    PATH_STEP_M,
    LanePaths,
    PathArrays,
    TrackPoses,
    join_paths,
    known_limits,
    make_lane_paths,
)
from l5kit.lanes.path_positions import FADE_M
from l5kit.lanes.route_map import find_lane_sides
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.lanes.courses import Routes
from l5kit.simulation.lanes.giving_way import write_give_way_gaps
from l5kit.simulation.lanes.lane_changing import LEAST_CHANGE_M, ChangeRules, LaneChangeParams, choose_changes
from l5kit.simulation.lanes.lane_following import ARC, ENTRY, NUM_COLUMNS, OFFSET, SLOPE, Styles, locate_vehicles
from l5kit.simulation.lanes.path_bends import PathBends
from l5kit.simulation.lanes.track_poses import find_lane_followers, paths_of_avs, poses_of_avs, poses_of_tracks

_NEVER = -2
"""Frame number before all frames, and not directly before the first one."""

_BESIDE_M = 0.5
"""A vehicle farther than this from its path first returns to it before it changes lanes."""


class KeptStates:
    """Per-vehicle state that a driver keeps from frame to frame.

    If a driver is called again in a frame, as after an error in another scene, it starts from the same state as before.

    Args:
        *arrays: State of V vehicles, (V, ...) each, which the driver updates in place.

    Attributes:
        before: Copies of the state at the start of the current frame of each vehicle.
    """

    def __init__(self, *arrays: NumericArray) -> None:
        self._arrays, self.before = arrays, [array.copy() for array in arrays]
        self._frames: Int64Array = np.full(len(arrays[0]), _NEVER, np.int64)
        self._is_before_new: BoolArray = np.zeros(len(arrays[0]), np.bool_)

    def begin(self, vehicles: Int64Array, frames: Int64Array) -> BoolArray:
        """Start the current frames of vehicles, both (K,); return which were not driven in the frame before."""
        last_frames = self._frames[vehicles]
        is_again: BoolArray = last_frames == frames
        is_new: BoolArray = last_frames != frames - 1
        if is_again.any():
            is_new = np.where(is_again, self._is_before_new[vehicles], is_new)
            again = vehicles[is_again]
            for now, before in zip(self._arrays, self.before, strict=True):
                now[again] = before[again]
        for now, before in zip(self._arrays, self.before, strict=True):
            before[vehicles] = now[vehicles]
        self._is_before_new[vehicles], self._frames[vehicles] = is_new, frames
        return is_new

    def forget(self, vehicles: Int64Array) -> None:
        """Treat vehicles (K,) as never driven."""
        self._frames[vehicles] = _NEVER


class LaneSeat:
    """Memory of a driver for a batch: the paths, and the position of each vehicle on its path.

    Args:
        batch: The scenes.
        paths: Paths of the AVs of S scenes; or of T tracks, optionally followed by those of the AVs.
        num_vehicles: S or T.
        unknown_limit_mps: Speed limit where the map has none, above 0.

    Attributes:
        paths: All paths; those of lane changes are appended.
        arrays: The same for kernels.
        routes: Current path of each vehicle, (S,) or (T,).
        motions: Position of each vehicle on its path, (S, 7) or (T, 7).
        kept: Motions and routes, kept from frame to frame.
        styles: Cached driving styles on these paths for kernels; None before the first use, and after paths were
            added.
    """

    def __init__(
        self,
        batch: SceneBatch,
        paths: LanePaths,
        num_vehicles: int,
        *,
        unknown_limit_mps: float,
    ) -> None:
        self.paths = paths
        self.arrays: PathArrays = paths.arrays
        self.motions: Float64Array = np.zeros((num_vehicles, NUM_COLUMNS))
        self.routes: Int64Array = np.arange(num_vehicles)
        self._batch, self._unknown_limit_mps = batch, unknown_limit_mps
        self._has_path: BoolArray = paths.has_path[:num_vehicles].copy()
        self._settled_m: Float64Array = np.zeros(len(paths))  # arc length on each path at which its lane change ends
        self._bends: dict[tuple[float | None, float], PathBends] = {}
        self.kept = KeptStates(self.motions, self.routes)
        self.styles: Styles | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "LaneSeat":
        """Return itself: if called again in a frame, it restores its state from before that frame."""
        return self

    @classmethod
    def of_avs(cls, batch: SceneBatch, unknown_limit_mps: float) -> "LaneSeat":
        """Return the seat of the AVs of a batch, with straight paths off the lanes."""
        paths = paths_of_avs(batch, unknown_limit_mps=unknown_limit_mps)
        return cls(batch, paths, len(batch), unknown_limit_mps=unknown_limit_mps)

    @classmethod
    def of_agents(cls, batch: SceneBatch, unknown_limit_mps: float, *, has_avs: bool) -> "LaneSeat":
        """Return the seat of the agents of a batch.

        Args:
            batch: The scenes.
            unknown_limit_mps: Speed limit where the map has none, above 0.
            has_avs: Whether to include the paths of the AVs.

        Raises:
            InvalidArgumentError: There is no map with lanes.
        """
        driving_map = batch.driving_map
        if batch.road is None or driving_map is None or driving_map.num_lanes == 0:
            raise InvalidArgumentError("IntelligentDriver: the batch has no map with lanes, which agents need")
        poses = poses_of_tracks(batch, find_lane_followers(batch))
        paths = make_lane_paths(poses, driving_map, unknown_limit_mps=unknown_limit_mps)
        if has_avs:
            of_avs = make_lane_paths(poses_of_avs(batch), driving_map, unknown_limit_mps=unknown_limit_mps)
            paths = join_paths(paths, of_avs)
        return cls(batch, paths, len(batch.tracks), unknown_limit_mps=unknown_limit_mps)

    def locate(self, state: TrafficState) -> Int64Array:
        """Update the motions of the vehicles to their current positions, and return the rows of the vehicles."""
        is_av = state.actors is None
        vehicles = state.scenes if is_av else state.actor_tracks
        is_lost = ~self._has_path[vehicles]
        if is_lost.any():
            first = int(np.argmax(is_lost))
            scene = int(state.batch.scene_indices[state.scenes[state.actor_scenes[first]]])
            raise InvalidArgumentError(
                f"IntelligentDriver: track {int(state.batch.tracks.track_ids[vehicles[first]])} of scene {scene} is on "
                "no lane at its start in the log, or parked; let AgentControl leave such agents to the log with "
                "tracks=driver.tracks"
            )

        # vehicles that were not located in the frame before are searched on the whole path
        is_new = self.kept.begin(vehicles, state.frame_indices[state.actor_scenes])
        boxes = state.ego_boxes if is_av else state.agents.boxes[state.actors]
        speeds_mps = state.actor_states.speeds_mps
        locate_vehicles(self.arrays, self.routes[vehicles], vehicles, boxes, speeds_mps, is_new, self.motions)
        return vehicles

    def bends_of(self, lateral_mps2: float | None, braking_mps2: float) -> Float64Array:
        """Return the highest speed at each point of the paths due to bends ahead; empty if bends are ignored."""
        bends = self._bends.setdefault((lateral_mps2, braking_mps2), PathBends(lateral_mps2, braking_mps2))
        return bends.on(self.arrays)

    def give_way_gaps(self, state: TrafficState, styles: Styles, gives_way: BoolArray) -> Float64Array:
        """Return the gap of each agent to the position where it gives way, infinite without one, (K,).

        Args:
            state: Agents that have been located.
            styles: Driving styles.
            gives_way: Mask of the styles that give way, (N,).
        """
        gaps_m = np.full(len(state), np.inf)
        if gives_way.any():
            write_give_way_gaps(
                np.ascontiguousarray(state.actors),
                state.arrays,
                self._kernel_routes(state),
                styles,
                gives_way,
                gaps_m,
            )
        return gaps_m

    def change_lanes(self, state: TrafficState, changes: Sequence[LaneChangeParams | None], styles: Styles) -> None:
        """Let agents that gain by it change lanes; from now on they follow paths on their new lanes.

        Args:
            state: Agents that have been located.
            changes: Lane change parameters of each of N styles, None for no changes.
            styles: Driving styles.
        """
        tracks = state.actor_tracks
        # each style considers a change every few frames, 0 for never; its tracks take turns by their ids
        step_s = state.step_time_s
        frames_between = [0 if each is None else max(round(each.every_s / step_s), 1) for each in changes]
        every = np.array(frames_between)[styles.of_vehicles[tracks]]
        frames = state.frame_indices[state.actor_scenes] + (state.batch.tracks.track_ids[tracks] % 1024).astype(
            np.int64
        )
        may_change: BoolArray = (every > 0) & (frames % np.maximum(every, 1) == 0)
        # not before the last change has ended, nor before the initial offset has faded
        may_change &= self.motions[tracks, ARC] >= self._settled_m[self.routes[tracks]]
        is_far_on: BoolArray = self.motions[tracks, ARC] - self.motions[tracks, ENTRY] >= FADE_M
        may_change &= is_far_on | (np.abs(self.motions[tracks, OFFSET]) < _BESIDE_M)
        if not may_change.any():
            return
        rules = self._rules(changes)
        targets, poses = np.full(len(tracks), -1), np.zeros((len(tracks), 3))
        choose_changes(
            np.ascontiguousarray(state.actors),
            may_change,
            state.arrays,
            self._kernel_routes(state),
            styles,
            rules,
            targets,
            poses,
        )
        chosen = np.flatnonzero(targets >= 0)
        if len(chosen):
            durations_s = rules.durations_s[styles.of_vehicles[tracks[chosen]]]
            changes_m = np.maximum(state.actor_states.speeds_mps[chosen] * durations_s, LEAST_CHANGE_M)
            positions_m = state.agents.boxes[state.actors][chosen, :2]
            self._follow_new_paths(state, tracks[chosen], targets[chosen], poses[chosen], positions_m, changes_m)

    def _follow_new_paths(
        self,
        state: TrafficState,
        tracks: Int64Array,
        targets: Int64Array,
        poses: Float64Array,
        positions_m: Float64Array,
        changes_m: Float64Array,
    ) -> None:
        """Give tracks (K,) paths from their positions onto their new lanes, over the lengths of their changes."""
        assert self._batch.driving_map is not None
        of_scenes = self._batch.tracks.scenes_of_tracks[tracks]
        remaining = self._batch.stops[of_scenes] - state.frame_indices[np.searchsorted(state.scenes, of_scenes)]
        remaining_s: Float64Array = remaining.astype(np.float64) * state.step_time_s
        # paths along the new lanes for the rest of the scene, which start beside the vehicles
        begun = TrackPoses(np.arange(len(tracks) + 1), poses[:, :2], poses[:, 2], remaining_s)
        paths = make_lane_paths(begun, self._batch.driving_map, unknown_limit_mps=self._unknown_limit_mps)

        # drop paths that start on a wrong lane, such as one above or below the target
        is_right = paths.has_path.copy()
        is_right[is_right] = paths.piece_lanes[paths.piece_starts[:-1][is_right]] == targets[is_right]
        points_m = paths.points_m.copy()
        for row in np.flatnonzero(is_right).tolist():
            own = slice(int(paths.starts[row]), int(paths.starts[row + 1]))
            # 1 - smoothstep: the initial offset fades without a kink at either end
            parts = np.minimum(PATH_STEP_M * np.arange(own.stop - own.start) / changes_m[row], 1.0)
            points_m[own] += ((1 + 2 * parts) * (1 - parts) ** 2)[:, None] * (positions_m[row] - poses[row, :2])
        first = len(self.paths)
        self.paths = join_paths(self.paths, replace(paths, points_m=points_m))
        self.arrays, self.styles = self.paths.arrays, None
        self._settled_m = np.concatenate([self._settled_m, changes_m])
        changed = tracks[is_right]
        self.routes[changed] = first + np.flatnonzero(is_right)
        self.motions[changed, ARC], self.motions[changed, ENTRY] = 0.0, -FADE_M
        self.motions[changed, OFFSET], self.motions[changed, SLOPE] = 0.0, 0.0

    def _kernel_routes(self, state: TrafficState) -> Routes:
        """Return the paths that agents and AVs follow."""
        of_tracks: Int64Array = np.where(self._has_path, self.routes, -1)
        of_avs: Int64Array = len(self._has_path) + state.scenes
        of_avs = np.where(self.paths.has_path[of_avs], of_avs, -1)
        return Routes(self.arrays, of_tracks, of_avs, self.motions, state.ego.accelerations_mps2)

    def _rules(self, changes: Sequence[LaneChangeParams | None]) -> ChangeRules:
        """Return the lane change rules of styles for kernels; styles without changes get defaults, but are skipped."""
        driving_map, road = self._batch.driving_map, self._batch.road
        assert driving_map is not None
        assert road is not None
        style_params = [LaneChangeParams() if each is None else each for each in changes]
        return ChangeRules(
            politeness=np.array([each.politeness for each in style_params], np.float64),
            least_gains_mps2=np.array([each.least_gain_mps2 for each in style_params], np.float64),
            safe_braking_mps2=np.array([each.safe_braking_mps2 for each in style_params], np.float64),
            durations_s=np.array([each.duration_s for each in style_params], np.float64),
            lanes=lane_arrays(driving_map),
            sides=find_lane_sides(road.api.network, driving_map.num_lanes),
            limits_mps=known_limits(driving_map, self._unknown_limit_mps),
            is_in_junction=driving_map.is_in_junction,
        )
