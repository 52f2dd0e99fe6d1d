"""Simulated scenes made by hand, as metrics read them, without a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from l5kit._types import RecordArray
from support.logs import make_frames

STEP_S = 0.1


@dataclass
class SceneStandIn:
    """The attributes of a simulation output that metrics read."""

    scene_id: int
    simulated_ego_states: torch.Tensor
    recorded_ego_states: torch.Tensor
    simulated_agents: RecordArray
    simulated_ego: RecordArray

    def get_scene_id(self) -> int:
        return self.scene_id

    @classmethod
    def make(
        cls, simulated: Any, recorded: Any = None, agents: Sequence[Any] | None = None, scene_id: int = 0
    ) -> "SceneStandIn":
        """Return a scene from x, y and yaw of each frame (N, 3), by default recorded as simulated.

        ``agents`` are arguments of :func:`support.logs.make_agents` for each frame.
        """
        frames, rows, _ = make_frames(len(simulated) if agents is None else agents)
        states = make_states(simulated)
        return cls(scene_id, states, states.clone() if recorded is None else make_states(recorded), rows, frames)

    @classmethod
    def along_x(
        cls, simulated_x_m: Any, recorded_x_m: Any = None, agents: Sequence[Any] | None = None, scene_id: int = 0
    ) -> "SceneStandIn":
        """Return a scene in which the AV drives along x."""
        recorded = None if recorded_x_m is None else poses_along_x(recorded_x_m)
        return cls.make(poses_along_x(simulated_x_m), recorded, agents, scene_id)


def poses_along_x(x_m: Any) -> np.ndarray:
    """Return x, y and yaw (N, 3) on the x axis."""
    x_m = np.asarray(x_m, np.float64)
    return np.stack([x_m, np.zeros_like(x_m), np.zeros_like(x_m)], axis=1)


def make_states(poses: Any) -> torch.Tensor:
    """Return states of the AV (N, 7) float32 from x, y and yaw (N, 3), a tenth of a second apart."""
    poses = np.asarray(poses, np.float64).reshape(-1, 3)
    states = np.zeros((len(poses), 7), np.float32)
    states[:, :3] = poses
    states[:, 6] = STEP_S * np.arange(len(poses))
    return torch.from_numpy(states)
