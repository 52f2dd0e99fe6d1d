"""Configurations and a slow reference vectorizer that the tests of vector samples share."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from l5kit.data.filter import (
    filter_agents_by_distance,
    filter_agents_by_labels,
    filter_tl_faces_by_status,
    get_other_agents_ids,
)
from l5kit.data.map.api import InterpolationMethod, MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.geometry import transform_points
from l5kit.sampling.agent_sampling import get_agent_context, get_relative_poses

KNOWN_ANSWERS_CFG: dict[str, Any] = {
    "format_version": 7,
    "model_params": {
        "history_num_frames_ego": 1,
        "history_num_frames_agents": 3,
        "future_num_frames": 5,
        "step_time": 0.1,
    },
    "raster_params": {
        "semantic_map_key": "semantic_map.pb",
        "dataset_meta_key": "meta.json",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
    },
    "data_generation_params": {
        "other_agents_num": 4,
        "max_agents_distance": 35,
        "lane_params": {
            "max_num_lanes": 3,
            "max_points_per_lane": 20,
            "max_points_per_crosswalk": 5,
            "max_retrieval_distance_m": 35,
            "max_num_crosswalks": 2,
        },
    },
}
"""The configuration of the known answers of fixture S."""


def make_vector_cfg(**overrides: Any) -> dict[str, Any]:
    """Return the configuration of the known answers with some keys replaced, in any section."""
    cfg = copy.deepcopy(KNOWN_ANSWERS_CFG)
    generation = cfg["data_generation_params"]
    sections = [cfg["model_params"], cfg["raster_params"], generation["lane_params"], generation]
    places = {key: section for section in sections for key in section}
    new_keys = {
        "history_step_size": cfg["model_params"],
        "future_step_size": cfg["model_params"],
        "speed_from_history": cfg["model_params"],
        "route": cfg["model_params"],
        "order_agents_by_distance": generation,
        "order_agents_by_route": generation,
        "route_params": generation,
    }
    for key, value in overrides.items():
        (places | new_keys)[key][key] = value
    return cfg


@dataclass(frozen=True)
class SlowVectorizer:
    """Computes what is around the target of a sample one thing after the other, from a log of one scene."""

    cfg: dict[str, Any]
    log: ChunkedDataset
    map_api: MapAPI

    def vectorize(self, state_index: int, track_id: int | None, sample: dict[str, Any]) -> dict[str, Any]:
        model, log = self.cfg["model_params"], self.log
        num_history = max(model["history_num_frames_ego"], model["history_num_frames_agents"])
        num_future = model["future_num_frames"]
        context = get_agent_context(state_index, log.frames, log.agents, log.tl_faces, num_history, num_future)
        return (
            self._past(context, track_id, sample, num_history + 1)
            | self._poses("future", num_future, context[1], context[3], self._ids(context, track_id, sample), sample)
            | self._map(context[4][0], sample)
        )

    def _nearby(self, rows: Any, sample: dict[str, Any]) -> Any:
        rows = filter_agents_by_labels(rows, self.cfg["raster_params"]["filter_agents_threshold"])
        return filter_agents_by_distance(
            rows, sample["centroid"], self.cfg["data_generation_params"]["max_agents_distance"]
        )

    def _ids(self, context: Any, track_id: int | None, sample: dict[str, Any]) -> list[np.uint64]:
        all_ids = self._nearby(np.concatenate(context[2]), sample)["track_id"]
        current_ids = self._nearby(context[2][0], sample)["track_id"]
        return get_other_agents_ids(
            all_ids, current_ids, track_id, self.cfg["data_generation_params"]["other_agents_num"]
        )

    def _past(self, context: Any, track_id: int | None, sample: dict[str, Any], length: int) -> dict[str, Any]:
        ids = self._ids(context, track_id, sample)
        found = self._poses("history", length, context[0], context[2], ids, sample)
        for array in found.values():
            array[:, self.cfg["model_params"]["history_num_frames_agents"] + 1 :] = 0
        prefix, num_agents = "all_other_agents", self.cfg["data_generation_params"]["other_agents_num"]
        found["other_agents_polyline"] = np.concatenate(
            [found[f"{prefix}_history_positions"], found[f"{prefix}_history_yaws"]], axis=-1
        )
        found["other_agents_polyline_availability"] = found[f"{prefix}_history_availability"]
        found[f"{prefix}_types"], found[f"{prefix}_track_ids"] = np.zeros((2, num_agents), np.int64)
        for i, other in enumerate(ids):
            found[f"{prefix}_track_ids"][i] = other
            found[f"{prefix}_types"][i] = self._newest_label(other, context[2], sample)
        positions, yaws = sample["history_positions"], sample["history_yaws"]
        found["agent_trajectory_polyline"] = np.concatenate([positions, yaws], axis=-1)
        found["agent_polyline_availability"] = sample["history_availabilities"]
        return found

    def _newest_label(self, track_id: np.uint64, history_agents: Any, sample: dict[str, Any]) -> int:
        for rows in history_agents:
            for row in rows[rows["track_id"] == track_id]:
                if len(self._nearby(row[None], sample)):
                    return int(row["label_probabilities"].argmax())
        raise ValueError(track_id)

    def _poses(
        self, part: str, length: int, frames: Any, agents: Any, ids: list[np.uint64], sample: dict[str, Any]
    ) -> dict[str, Any]:
        shape = self.cfg["data_generation_params"]["other_agents_num"], length
        found = [
            np.zeros((*shape, 2), np.float32),
            np.zeros((*shape, 1), np.float32),
            np.zeros((*shape, 2), np.float32),
        ]
        available = np.zeros(shape, np.bool_)
        for i, other in enumerate(ids):
            poses = get_relative_poses(length, frames, int(other), agents, sample["agent_from_world"], sample["yaw"])
            found[0][i], found[1][i], found[2][i], available[i] = *poses[:3], poses[3] > 0
        names = [f"all_other_agents_{part}_{name}" for name in ("positions", "yaws", "extents", "availability")]
        return dict(zip(names, [*found, available], strict=True))

    def _map(self, faces: Any, sample: dict[str, Any]) -> dict[str, Any]:
        params = self.cfg["data_generation_params"]["lane_params"]
        num_lanes, num_points = params["max_num_lanes"], params["max_points_per_lane"]
        num_vertices = params["max_points_per_crosswalk"]
        lanes, mid = (
            np.zeros((2 * num_lanes, num_points, 3), np.float32),
            np.zeros((num_lanes, num_points, 3), np.float32),
        )
        crosswalks = np.zeros((params["max_num_crosswalks"], num_vertices, 3), np.float32)
        is_vertex, is_lane, is_mid = (np.zeros(array.shape[:2], np.bool_) for array in (crosswalks, lanes, mid))

        def write(line: Any, value: float, polyline: Any, available: Any) -> None:
            polyline[:, :2] = transform_points(line[:, :2], sample["agent_from_world"])
            polyline[:, 2] = value
            radius_m = np.float32(params["max_retrieval_distance_m"])
            available[:] = np.linalg.norm(polyline[:, :2], axis=-1) < radius_m

        active = self._active(faces)
        for i, (lane_id, lines) in enumerate(self._nearest_lanes(sample)[:num_lanes]):
            write(lines["xyz_left"], 0, lanes[2 * i], is_lane[2 * i])
            write(lines["xyz_right"], 0, lanes[2 * i + 1], is_lane[2 * i + 1])
            write(lines["xyz_midlane"], self.map_api.get_tl_feature_for_lane(lane_id, active), mid[i], is_mid[i])
        for i, crosswalk in enumerate(self._in_reach("crosswalks", sample)[: params["max_num_crosswalks"]]):
            polygon = self.map_api.get_crosswalk_coords(crosswalk)["xyz"][:num_vertices]
            write(polygon, 0, crosswalks[i, : len(polygon)], is_vertex[i, : len(polygon)])
            is_vertex[i, : len(polygon)] = True
        return {
            "lanes": lanes,
            "lanes_availabilities": is_lane,
            "lanes_mid": mid,
            "lanes_mid_availabilities": is_mid,
            "crosswalks": crosswalks,
            "crosswalks_availabilities": is_vertex,
        }

    def _active(self, faces: Any) -> dict[str, str]:
        ids = filter_tl_faces_by_status(faces, "ACTIVE")["face_id"].tolist()
        colors = {face: self.map_api.get_face_color_or_none(face) for face in ids}
        return {face: color.lower() for face, color in colors.items() if color is not None}

    def _in_reach(self, kind: str, sample: dict[str, Any]) -> list[str]:
        info, center = self.map_api.bounds_info[kind], sample["centroid"]
        radius_m = self.cfg["data_generation_params"]["lane_params"]["max_retrieval_distance_m"]
        above, below = info["bounds"][:, 0] - radius_m < center, center < info["bounds"][:, 1] + radius_m
        return [info["ids"][i] for i in np.flatnonzero((above & below).all(axis=1))]

    def _nearest_lanes(self, sample: dict[str, Any]) -> list[tuple[str, Any]]:
        num_points = self.cfg["data_generation_params"]["lane_params"]["max_points_per_lane"]
        method = InterpolationMethod.INTER_ENSURE_LEN
        lanes = [
            (lane_id, self.map_api.get_lane_as_interpolation(lane_id, num_points, method))
            for lane_id in self._in_reach("lanes", sample)
        ]
        middles = [lines["xyz_midlane"][:, :2] for _, lines in lanes]
        distances = [np.linalg.norm(middle - sample["centroid"], axis=1).min() for middle in middles]
        return [lanes[i] for i in np.argsort(distances, kind="stable")]
