"""Tags of the scenes of a log, read scene by scene."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.map.api import MapAPI
from l5kit.data.map.opened import SceneMaps
from l5kit.data.progress import Progress
from l5kit.data.records import FACE_INTERVAL
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.record_faults import find_record_fault
from l5kit.evaluation.driving.scene_states import read_ego_states, read_road_users
from l5kit.evaluation.scene_tags.neighbour_tags import tag_neighbours
from l5kit.evaluation.scene_tags.road_tags import find_lane_changes, find_stops_at_red, find_unprotected_crossings
from l5kit.evaluation.scene_tags.tag_map import SceneTagMaps, TagMap, as_tag_map
from l5kit.evaluation.scene_tags.tag_table import SceneTags, TagThresholds, find_runs


def tag_scenes(
    dataset: ChunkedDataset,
    map_api: MapAPI | SceneMaps | TagMap | SceneTagMaps | None = None,
    *,
    scenes: Sequence[int] | Int64Array | None = None,
    thresholds: TagThresholds | None = None,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> SceneTags:
    """Return the events in scenes, and their frames.

    A damaged scene has an empty row and an entry in ``errors``; the others are not affected.

    Args:
        dataset: An opened dataset.
        map_api: Its map or maps, possibly prepared for tags; without any, tags that need a map are unknown.
        scenes: Indices of the scenes; all by default.
        thresholds: Thresholds of the definitions; see :class:`TagThresholds`.
        progress: Called with the number of finished scenes and the total; an exception ends the job.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        InvalidArgumentError: A scene does not exist.
    """
    indices = np.arange(len(dataset.scenes)) if scenes is None else np.asarray(scenes, np.int64)
    job = _TagJob(dataset, as_tag_map(map_api), thresholds or TagThresholds())
    with map_scenes(job, indices, workers, progress=progress) as parts:
        tags_of_scenes = [each for part in parts for each in part]
    errors = {
        scene: each for scene, each in zip(indices.tolist(), tags_of_scenes, strict=True) if isinstance(each, str)
    }
    return SceneTags.of_rows(indices, [{} if isinstance(each, str) else each for each in tags_of_scenes], errors)


@dataclass(frozen=True)
class _TagJob:
    """Job that tags scenes: returns their events, or the fault of a damaged scene."""

    dataset: ChunkedDataset
    tag_map: TagMap | SceneTagMaps | None
    thresholds: TagThresholds

    def __call__(self, scenes: Int64Array) -> list[dict[str, Int64Array] | str]:
        return [self._tag(scene) for scene in scenes.tolist()]

    def _tag(self, scene: int) -> dict[str, Int64Array] | str:
        try:
            recorded = SceneRecords.read(self.dataset, scene)
            if len(recorded.frames) == 0:
                return f"scene {scene} has no frame"
            fault = find_record_fault(recorded)
            if fault is not None:
                return f"frame {fault.frame}: {fault.message}"
            body = EgoBody.of_extent(*self.dataset.facts.ego_extent_m[:2])
            tag_map = self.tag_map
            if isinstance(tag_map, SceneTagMaps):
                tag_map = tag_map.of_scene(self.dataset, scene)

            # events (n, 2) by tag; without a map, tags that need one are left out as unknown
            arrays = [SceneArrays.of_records(recorded)]
            states, road_users = read_ego_states(arrays, body=body), read_road_users(arrays)
            tags = tag_motion(states, self.thresholds) | tag_neighbours(states, road_users, self.thresholds)
            if tag_map is None:
                return tags
            driving_map = tag_map.driving_map
            lane_positions = find_lane_positions(states, driving_map)
            red_lanes = tag_map.red_lanes(np.asarray(recorded.frames[FACE_INTERVAL], np.int64), recorded.tl_faces)
            return tags | {
                "stop_at_red": find_stops_at_red(
                    states,
                    lane_positions,
                    red_lanes,
                    standing=tags["standing"],
                    driving_map=driving_map,
                    thresholds=self.thresholds,
                ),
                "lane_change": find_lane_changes(
                    states, lane_positions, driving_map=driving_map, thresholds=self.thresholds
                ),
                "unprotected_crossing": find_unprotected_crossings(
                    states, road_users, lane_positions, tag_map=tag_map, thresholds=self.thresholds
                ),
            }
        except (L5KitError, OSError) as error:
            return str(error)


def tag_motion(states: EgoStates, thresholds: TagThresholds) -> dict[str, Int64Array]:
    """Return the runs (R, 2) of the tags of a scene about the motion of the AV, by name.

    Args:
        states: One scene.
        thresholds: Thresholds of the definitions.
    """
    times_s, speeds_mps = states.timestamps_s[0], states.speeds_mps[0]
    is_slow = speeds_mps < thresholds.standing_mps
    slow = find_runs(is_slow, times_s, merge_s=thresholds.merge_s)
    # the AV stands if it is slow for a while, from the first frame to the last
    slow_s = times_s[slow[:, 1] - 1] - times_s[slow[:, 0]]
    is_braking = -rates_around(speeds_mps, times_s, thresholds.window_s) >= thresholds.brake_mps2 - 1e-9
    return {
        "left_turn": _find_turns(states, thresholds, sign=1.0),
        "right_turn": _find_turns(states, thresholds, sign=-1.0),
        "standing": slow[slow_s >= thresholds.standing_s - 1e-9],
        "hard_brake": find_runs(is_braking, times_s, merge_s=thresholds.merge_s),
    }


def _find_turns(states: EgoStates, thresholds: TagThresholds, *, sign: float) -> Int64Array:
    """Return the runs of frames in which the heading changes steadily, and far enough."""
    times_s, yaws_rad = states.timestamps_s[0], sign * np.unwrap(states.yaws_rad[0])
    is_turning = np.degrees(rates_around(yaws_rad, times_s, thresholds.window_s)) >= thresholds.turn_rate_deg_s
    runs = find_runs(is_turning, times_s, merge_s=thresholds.merge_s)
    turned_deg = np.degrees(yaws_rad[runs[:, 1] - 1] - yaws_rad[runs[:, 0]])
    turns: Int64Array = runs[turned_deg >= thresholds.turn_deg - 1e-9]
    return turns


def rates_around(values: Float64Array, times_s: Float64Array, window_s: float) -> Float64Array:
    """Return the mean rate of values (F,) in a window around each frame, cut off at both ends of the scene.

    Rates over less than half a window are 0.
    """
    starts_s = np.maximum(times_s - 0.5 * window_s, times_s[0])
    ends_s = np.minimum(times_s + 0.5 * window_s, times_s[-1])
    changes, spans_s = np.interp(ends_s, times_s, values) - np.interp(starts_s, times_s, values), ends_s - starts_s
    rates: Float64Array = np.zeros(len(values))
    np.divide(changes, spans_s, out=rates, where=spans_s >= 0.5 * window_s - 1e-9)
    return rates
