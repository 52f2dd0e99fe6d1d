"""Simple drivers: log replay, standing, constant velocity, and full throttle."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, FloatArray, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.vehicle_models import VehicleStates


@dataclass(frozen=True)
class Replay:
    """AVs that drive as in the log. To reproduce the logged frames exactly, use no driver.

    Agents are replayed if no driver controls them.

    Attributes:
        num_steps: Number of planned steps; after the end of the log the AV stays at its last position.
    """

    num_steps: int = 30

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses of the log from now on, (R, T + 1, 3)."""
        if state.actors is not None:
            raise InvalidArgumentError("Replay drives AVs only; agents without a driver are replayed")
        log = state.batch.ego_log
        steps: Int64Array = np.arange(self.num_steps + 1)
        frames = state.frame_indices[:, None] + steps
        frames = np.minimum(frames, log.is_there.sum(axis=1)[state.scenes][:, None] - 1)
        scenes = state.scenes[:, None]
        poses = np.concatenate([log.positions_m[scenes, frames], log.yaws_rad[scenes, frames, None]], axis=-1)
        times_s: Float64Array = state.step_time_s * steps.astype(np.float64)
        return Actions(poses, times_s)


@dataclass(frozen=True)
class Standing:
    """Vehicles that keep their pose.

    Attributes:
        num_steps: Number of planned steps.
    """

    num_steps: int = 30

    def drive(self, state: TrafficState) -> Actions:
        """Return the current poses, (K, T, 3)."""
        return Actions(np.repeat(state.actor_states.poses[:, None], self.num_steps, axis=1))


@dataclass(frozen=True)
class ConstantVelocity:
    """Vehicles that drive straight at constant speed.

    Attributes:
        num_steps: Number of planned steps.
    """

    num_steps: int = 30

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses straight ahead, (K, T, 3)."""
        times_s = state.step_time_s * np.arange(1, self.num_steps + 1)
        return Actions(poses_ahead(state.actor_states, times_s))


@dataclass(frozen=True)
class FullThrottle:
    """Vehicles that drive straight and accelerate all the time: a score must punish this.

    Attributes:
        acceleration_mps2: Acceleration.
        num_steps: Number of planned steps.
    """

    acceleration_mps2: float = 4.0
    num_steps: int = 30

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses straight ahead, (K, T, 3)."""
        times_s = state.step_time_s * np.arange(1, self.num_steps + 1)
        return Actions(poses_ahead(state.actor_states, times_s, self.acceleration_mps2))


def poses_ahead(states: VehicleStates, times_s: FloatArray, acceleration_mps2: float = 0.0) -> Float64Array:
    """Return world poses (K, T, 3) at times (T,) of vehicles that drive straight with constant acceleration."""
    distances_m = states.speeds_mps[:, None] * times_s + acceleration_mps2 * times_s**2 / 2
    poses = np.empty((*distances_m.shape, 3))
    poses[..., 0] = states.positions_m[:, :1] + distances_m * np.cos(states.yaws_rad)[:, None]
    poses[..., 1] = states.positions_m[:, 1:] + distances_m * np.sin(states.yaws_rad)[:, None]
    poses[..., 2] = states.yaws_rad[:, None]
    return poses
