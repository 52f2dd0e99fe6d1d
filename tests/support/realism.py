"""Synthetic traffic for tests of realism: cars along given poses at 10 Hz, and scenes with stationary ones."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from l5kit.data.scene_arrays import SceneArrays, read_scene_arrays
from support.logs import log_of, make_agent, make_frames, scenes_of

FAR_M = (0.0, -1000.0)


def scene_of_cars(cars: Sequence[Any], *, ego_m: Any = FAR_M, labels: Sequence[int] | None = None) -> SceneArrays:
    """Return a scene of cars of 4 x 2 m, each from its x, y and yaw in every frame (F, 3), NaN while it is absent.

    Track ids are 10, 20 and so on. By default the AV is stationary far away.
    """
    poses = np.array(cars, float)
    num_frames = poses.shape[1]
    frames = [
        [
            make_agent(10 * (car + 1), pose[:2], yaw=pose[2], label=3 if labels is None else labels[car])
            for car, pose in enumerate(poses[:, frame])
            if np.isfinite(pose).all()
        ]
        for frame in range(num_frames)
    ]
    records = make_frames(frames, positions_m=np.broadcast_to(ego_m, (num_frames, 2)))
    return read_scene_arrays(log_of(scenes_of([num_frames]), *records), 0)


def straight_car(num_frames: int, *, start_m: Sequence[float] = (0.0, 0.0), speed_mps: float = 10.0) -> Any:
    """Return poses of a car along x, (F, 3)."""
    poses = np.zeros((num_frames, 3))
    poses[:, :2] = start_m
    poses[:, 0] += 0.1 * speed_mps * np.arange(num_frames)
    return poses


def standing(scene: SceneArrays) -> SceneArrays:
    """Return a scene whose agents stay where they first appear."""
    agents = scene.agents
    _, firsts, inverse = np.unique(agents.track_ids, return_index=True, return_inverse=True)
    rows = firsts[inverse]
    stood = {name: getattr(agents, name)[rows] for name in ("centroids_m", "yaws_rad")}
    return dataclasses.replace(
        scene, agents=dataclasses.replace(agents, **stood, velocities_mps=np.zeros_like(agents.velocities_mps))
    )
