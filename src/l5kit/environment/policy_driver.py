"""Policy driver: a policy of reinforcement learning drives AVs or agents of a simulation as in environments."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from l5kit._types import Float32Array, NumericArray
from l5kit.environment.model_actions import ModelActions, RouteActions, model_actions
from l5kit.environment.observations.compact_state import RouteRows
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.policy_file import find_policy_file, read_policy
from l5kit.environment.policy_options import PolicyOptions
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.path_positions import follow_routes
from l5kit.planning.weights_file import is_onnx
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.lanes.route_tracking import begin_gently
from l5kit.simulation.lanes.track_poses import find_lane_followers
from l5kit.simulation.vehicle_models import PoseChange

_MEMORY: Final = "policy driver"
_STEP_SLACK_S: Final = 1e-6
_PLANNED_S: Final = 4.0
_HELD_S: Final = 1.5


class ActingNetwork(Protocol):
    """Protocol of a policy network; :class:`~l5kit.environment.policy_file.PolicyNetwork` is one."""

    @property
    def num_inputs(self) -> int:
        """Values of an observation, D."""

    @property
    def num_outputs(self) -> int:
        """Values of an action, or number of actions to choose from, A."""

    def act(self, seen: Float32Array) -> NumericArray:
        """Return means of actions, or a logit of each action, (R, A), for observations (R, D)."""


@dataclass(frozen=True, eq=False)
class _FunctionNetwork:
    """A user function, whose results are checked."""

    function: Callable[[Float32Array], NumericArray]
    num_inputs: int
    num_outputs: int

    def act(self, seen: Float32Array) -> NumericArray:
        outputs, shape = np.asarray(self.function(seen)), (len(seen), self.num_outputs)
        if outputs.shape != shape or not np.isfinite(outputs).all():
            raise InvalidArgumentError(
                f"the policy must give finite values of shape {shape} for {len(seen)} observations, got shape "
                f"{outputs.shape}{'' if outputs.shape != shape else ', not all finite'}"
            )
        return outputs


@dataclass(frozen=True, eq=False)
class PolicyDriver:
    """Policy that drives AVs or agents without noise: it sees compact observations and returns controls of a model.

    In the same states it sees and does the same as in an environment, up to float32 rounding. Its actions are controls
    of its own vehicle model, so pass its seat: ``simulate(..., planner=PolicyDriver.load("driver").seat)``.

    Attributes:
        network: Network from observations to actions.
        options: Its training options.
        digest: SHA-256 of its file and options; empty for a function.
        actions: Its kind of actions.

    Raises:
        UnsupportedValueError: It was trained with observations or actions that simulations do not support.
        InvalidArgumentError: The sizes of the network disagree with the options.
    """

    network: ActingNetwork = field(repr=False)
    options: PolicyOptions
    digest: str
    actions: ModelActions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options = self.options
        options.require_simulated()
        object.__setattr__(self, "actions", model_actions(options.actions))
        sizes = (self.network.num_inputs, self.network.num_outputs)
        expected = (options.layout.size, self.actions.num_outputs)
        if sizes != expected:
            raise InvalidArgumentError(
                f"the policy takes {sizes[0]} values and gives {sizes[1]}; its options tell of {expected[0]} and "
                f"{expected[1]}"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PolicyDriver":
        """Return the driver of a file written by ``l5kit train-rl``.

        Only weights and options are read; pickled objects in the file are never loaded.

        Args:
            path: A ``.zip``, an exported ``.onnx``, the folder of a training, for its ``driver.zip``, or the name of a
                policy that ships with l5kit.

        Raises:
            FileNotFoundError: There is no such file, or the training has not ended.
            InvalidArgumentError: The file is broken, not a policy, or lacks its training options.
            UnsupportedValueError: It was trained with observations or actions that simulations do not support.
        """
        file = find_policy_file(path)
        network: ActingNetwork
        if is_onnx(file):
            from l5kit.environment.policy_export import ExportedPolicy  # imported here, as it needs torch

            network = ExportedPolicy(file)
            options = network.options
        else:
            network, options = read_policy(file)
        digest = hashlib.sha256(file.read_bytes())
        digest.update(json.dumps(options.as_json(), sort_keys=True).encode())
        return cls(network, options, digest.hexdigest())

    @classmethod
    def of_function(cls, function: Callable[[Float32Array], NumericArray], options: PolicyOptions) -> "PolicyDriver":
        """Return the driver of a policy of any library.

        Args:
            function: Takes observations, float32 (R, D), and returns actions without noise, (R, A), scaled as those of
                the environments; for a grid, a logit of each of its actions.
            options: Its training options.

        Raises:
            UnsupportedValueError: It was trained with observations or actions that simulations do not support.
        """
        options.require_simulated()
        return cls(
            _FunctionNetwork(function, options.layout.size, model_actions(options.actions).num_outputs),
            options,
            digest="",
        )

    @property
    def seat(self) -> EgoSeat:
        """The driver with the vehicle model of its training."""
        model = self.actions.model
        return EgoSeat(self, Controls(model, has_motion=not isinstance(model, PoseChange)))

    def drive(self, state: TrafficState) -> Actions:
        """Return controls of the vehicle model for AVs or agents, (K, A).

        Raises:
            InvalidArgumentError: The step time differs from that of its training, or it should drive agents without a
                map.
        """
        actions, routes = self._decide(state)
        if isinstance(self.actions, RouteActions):
            controls = self.actions.steered(actions, state.actor_states, routes, state.step_time_s)
            # limit the jerk like at the start of an episode, as a simulation continues a log
            since_start = (state.frame_indices - state.batch.starts[state.scenes])[state.actor_scenes]
            since_start_s, before_mps2 = since_start * state.step_time_s, state.actor_states.accelerations_mps2
            controls[:, 0] = begin_gently(controls[:, 0], before_mps2, since_start_s, step_s=state.step_time_s)
            return Actions(controls)
        return Actions(self.actions.controls(actions))

    @property
    def agent_seat(self) -> AgentSeat:
        """The driver with its vehicle model for agents: vehicles that follow lanes; all others are replayed."""
        return AgentSeat(self, self.seat.model, AgentControl.of_traffic(tracks=find_lane_followers))

    @property
    def as_planner(self) -> "RoutePolicyPlanner | None":
        """The same policy as a driver that plans poses; None if its actions are not along the route."""
        return RoutePolicyPlanner(self) if isinstance(self.actions, RouteActions) else None

    def _decide(self, state: TrafficState) -> tuple[NumericArray, RouteRows]:
        """Return actions of AVs or agents, as in environments, and their routes."""
        if abs(state.step_time_s - self.options.step_time_s) > _STEP_SLACK_S:
            raise InvalidArgumentError(
                f"a step of the log takes {state.step_time_s:g} s; the policy was trained with steps of "
                f"{self.options.step_time_s:g} s"
            )
        sight = state.memory.get(_MEMORY)
        if sight is None:
            sight = CompactSight(
                state.batch,
                self.options.layout,
                threshold=self.options.threshold,
                of_agents=state.actors is not None,
            )
            state.memory[_MEMORY] = sight
        seen, routes = sight.look(state)
        outputs = self.network.act(seen)
        chooses = self.actions.grid is not None
        return np.argmax(outputs, axis=1) if chooses else outputs, routes


@dataclass(frozen=True, eq=False)
class RoutePolicyPlanner:
    """Policy along the route that plans: the path that its current action leads to.

    An acceleration is held for 1.5 s, after which the speed is constant; braking is held to the end, since vehicles
    usually keep braking. Speed limits and bends limit the plan. The policy decides again in the next step.

    Attributes:
        policy: The policy.
    """

    policy: PolicyDriver

    def drive(self, state: TrafficState) -> Actions:
        """Return world poses of the next 4 s, in steps of the log, (K, T, 3); see :meth:`PolicyDriver.drive`."""
        kind = self.policy.actions
        assert isinstance(kind, RouteActions)
        actions, routes = self.policy._decide(state)
        step_s, states, positions = state.step_time_s, state.actor_states, routes.positions.copy()
        poses = np.empty((len(actions), round(_PLANNED_S / step_s), 3))
        for step in range(poses.shape[1]):
            # an acceleration ends after a while, braking does not
            held = actions if step * step_s < _HELD_S else np.minimum(actions, 0)
            controls = kind.steered(held, states, routes._replace(positions=positions), step_s)
            states = kind.model.step(states, controls, step_s)
            poses[:, step, :2], poses[:, step, 2] = states.positions_m, states.yaws_rad
            follow_routes(routes.paths, routes.routes, poses[:, step], positions)
        return Actions(poses)
