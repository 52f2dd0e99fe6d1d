"""Fixture S: a small made scene whose known answers the tests of several packages share."""

import numpy as np

from l5kit._types import RecordArray
from l5kit.data import ChunkedDataset
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE

NUM_FRAMES = 30
_NS_PER_FRAME = 100_000_000


def make_fixture_s_arrays() -> tuple[RecordArray, RecordArray, RecordArray, RecordArray]:
    """Return scenes, frames, agents and traffic light faces: 1 scene, 30 frames, 98 agent rows, 60 faces."""
    scenes = np.zeros(1, SCENE_DTYPE)
    scenes[0] = ((0, NUM_FRAMES), "host-x", 1_000_000_000, 1_000_000_000 + 29 * _NS_PER_FRAME)
    agents_by_frame = [_make_agents(k) for k in range(NUM_FRAMES)]
    faces_by_frame = [_make_faces() for _ in range(NUM_FRAMES)]
    agent_ends = np.cumsum([len(agents) for agents in agents_by_frame])
    frames = np.zeros(NUM_FRAMES, FRAME_DTYPE)
    for k in range(NUM_FRAMES):
        frames[k] = (
            1_000_000_000 + k * _NS_PER_FRAME,
            (agent_ends[k] - len(agents_by_frame[k]), agent_ends[k]),
            (2 * k, 2 * k + 2),
            (-195 + 0.5 * k, 0.02 * k, 287.8),
            _rotation_about_z(0.01 * k),
        )
    return scenes, frames, np.concatenate(agents_by_frame), np.concatenate(faces_by_frame)


def make_fixture_s() -> ChunkedDataset:
    """Return fixture S as a dataset in memory."""
    scenes, frames, agents, tl_faces = make_fixture_s_arrays()
    return ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=tl_faces)


def _rotation_about_z(yaw_rad: float) -> list[list[float]]:
    cos, sin = np.cos(yaw_rad), np.sin(yaw_rad)
    return [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]


def _make_agents(k: int) -> RecordArray:
    rows = [_make_agent(1, (-185 + 0.4 * k, 0.3), 0.02, (4.5, 1.9, 1.5), 3, 1.0)]
    if 5 <= k < 25:
        rows.append(_make_agent(2, (-186, -8 + 0.3 * (k - 5)), 1.5, (4.2, 1.8, 1.5), 3, 0.6))
    rows.append(_make_agent(7, (-180, 5), -0.7, (1, 1, 1.7), 14, 0.4))
    if k >= 12:
        rows.append(_make_agent(300, (-200 + 0.2 * k, -3), 3.1, (5, 2, 1.6), 7, 0.9))
    return np.array(rows, dtype=AGENT_DTYPE)


def _make_agent(
    track_id: int,
    centroid_m: tuple[float, float],
    yaw_rad: float,
    extent_m: tuple[float, float, float],
    label: int,
    probability: float,
) -> tuple[object, ...]:
    probabilities = np.zeros(17, np.float32)
    probabilities[label] = probability
    return (centroid_m, extent_m, yaw_rad, (0.0, 0.0), track_id, probabilities)


def _make_faces() -> RecordArray:
    return np.array([("F1", "T1", [1, 0, 0]), ("F2", "T1", [0, 1, 0])], dtype=TL_FACE_DTYPE)
