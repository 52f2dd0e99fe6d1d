"""Tiny scenes, maps and simulations for tests of the pages that show them."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from fixture_s_map import WORLD_TO_ECEF
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.map_builder import MapBuilder
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.geometry import yaw_as_rotation33


def make_agent(track_id, centroid_m=(0.0, 0.0), *, yaw=0.0, extent_m=(4, 2, 1), velocity=(0, 0), labels=None):
    """A record of an agent; ``labels`` gives the probability of classes by name, a car of 1.0 without."""
    probabilities = np.zeros(17, np.float32)
    for name, probability in (labels or {"CAR": 1.0}).items():
        probabilities[PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]] = probability
    return np.array((centroid_m, extent_m, yaw, velocity, track_id, probabilities), AGENT_DTYPE)


def make_agents(*agents):
    return np.array(list(agents), AGENT_DTYPE)


def make_faces(**statuses):
    """Records of faces, 1 for those that are on and 0 for those that are off."""
    return np.array([(face, "T", [on, 1 - on, 0]) for face, on in statuses.items()], TL_FACE_DTYPE)


def make_frames(agents_of_frames, faces_of_frames=None, *, positions_m=None, yaw=0.0):
    """Frames, agents and faces; the AV is at (k, 0) in frame k unless positions are given."""
    num_frames = len(agents_of_frames)
    faces_of_frames = faces_of_frames or [make_faces()] * num_frames
    frames = np.zeros(num_frames, FRAME_DTYPE)
    frames["timestamp"] = 100_000_000 * np.arange(num_frames)
    for name, rows in (
        ("agent_index_interval", agents_of_frames),
        ("traffic_light_faces_index_interval", faces_of_frames),
    ):
        ends = np.cumsum([len(of_frame) for of_frame in rows])
        frames[name] = np.stack([ends - [len(of_frame) for of_frame in rows], ends], axis=1)
    frames["ego_translation"][:, 0] = np.arange(num_frames)
    if positions_m is not None:
        frames["ego_translation"][:, :2] = positions_m
    frames["ego_rotation"] = yaw_as_rotation33(yaw)
    return frames, np.concatenate([make_agents(), *agents_of_frames]), np.concatenate([make_faces(), *faces_of_frames])


def make_scene(agents_of_frames, faces_of_frames=None, **kwargs):
    """A dataset of one scene in memory."""
    frames, agents, faces = make_frames(agents_of_frames, faces_of_frames, **kwargs)
    scenes = np.array([((0, len(frames)), "host", 0, 1)], SCENE_DTYPE)
    return ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=faces)


def lane_lines_m(y_m, *, start_m=-20.0, end_m=20.0):
    """Left and right boundary of a lane 4 m wide along x; the right one has a point more."""
    left = [[start_m, y_m + 2, 0], [end_m, y_m + 2, 0]]
    right = [[start_m, y_m - 2, 0], [0.5 * (start_m + end_m), y_m - 2, 0], [end_m, y_m - 2, 0]]
    return np.array(left, dtype=float), np.array(right, dtype=float)


def make_map(path):
    """Three lanes at the origin, one 49 m and one 51 m east of it, a near and a far crosswalk.

    Lane ``lights`` is controlled by faces of all colours, ``green`` by a green one.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    kinds = {"R": "signal_red_face", "Y": "signal_yellow_face", "G": "signal_green_face"}
    for face, kind in kinds.items():
        builder.add_traffic_light_face(face, kind)
    builder.add_lane("lights", *lane_lines_m(0.0), traffic_controls=["G", "R", "Y"])
    builder.add_lane("green", *lane_lines_m(4.0), traffic_controls=["G"])
    builder.add_lane("plain", *lane_lines_m(8.0))
    builder.add_lane("at 49 m", *lane_lines_m(0.0, start_m=49.0, end_m=60.0))
    builder.add_lane("at 51 m", *lane_lines_m(0.0, start_m=51.0, end_m=60.0))
    builder.add_crosswalk("near", np.array([[0.0, -5, 0], [3, -5, 0], [3, 5, 0]]))
    builder.add_crosswalk("far", np.array([[0.0, -500, 0], [3, -500, 0], [3, -490, 0]]))
    builder.save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


@dataclass
class InOutCase:
    """What a model got and gave for one track."""

    track_id: int
    inputs: dict
    outputs: dict

    @classmethod
    def make(cls, track_id, *, world_from_agent, targets_m, available, predicted_m):
        inputs = {
            "world_from_agent": np.array(world_from_agent, dtype=float),
            "target_positions": np.array(targets_m, dtype=np.float32),
            "target_availabilities": np.array(available, dtype=np.float32),
        }
        return cls(track_id, inputs, {"positions": np.array(predicted_m, dtype=np.float32)})


@dataclass
class SimulationCase:
    """What a simulation and what an episode of the environment give of a scene."""

    simulated_ego: np.ndarray
    simulated_agents: np.ndarray
    tls_frames: np.ndarray
    ego_ins_outs: list = field(default_factory=list)
    agents_ins_outs: list = field(default_factory=list)
    agents_th: float = 0.5

    @property
    def simulated_dataset(self):
        cfg = {"raster_params": {"filter_agents_threshold": self.agents_th}}
        return SimpleNamespace(dataset=SimpleNamespace(tl_faces=self.tls_frames), cfg=cfg)
