"""Policy driver: a reinforcement learning policy drives AVs or agents of a simulation as in its environments."""

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
    """Protocol of the network of a policy, such as :class:`~l5kit.environment.policy_file.PolicyNetwork`."""

    @property
    def num_inputs(self) -> int:
        """Values of an observation, D."""

    @property
    def num_outputs(self) -> int:
        """Values of an action, or the number of discrete actions, A."""

    def act(self, seen: Float32Array) -> NumericArray:
        """Return means of actions, or a logit of each discrete action, (R, A), for observations (R, D)."""


@dataclass(frozen=True, eq=False)
class _FunctionNetwork:
    """Network that calls a function of the user and checks its results."""

    function: Callable[[Float32Array], NumericArray]
    num_inputs: int
    num_outputs: int

    def act(self, seen: Float32Array) -> NumericArray:
        outputs, shape = np.asarray(self.function(seen)), (len(seen), self.num_outputs)
        if outputs.shape != shape or not np.isfinite(outputs).all():
            raise InvalidArgumentError(
                f"the policy must return finite values of shape {shape} for {len(seen)} observations, got shape "
                f"{outputs.shape}{'' if outputs.shape != shape else ', not all finite'}"
            )
        return outputs


@dataclass(frozen=True, eq=False)
class PolicyDriver:
    """Driver of AVs or agents by a policy without noise, from compact observations to controls of a vehicle model.

    In the same states its observations and actions are those of an environment, up to float32 rounding. Its actions are
    controls, so it comes with a seat: ``simulate(..., planner=PolicyDriver.load("driver").seat)``.

    Attributes:
        network: Network from observations to actions.
        options: Options of its training.
        digest: SHA-256 of its file and options; empty for a function.
        actions: Kind of its actions.

    Raises:
        UnsupportedValueError: Its observations or actions are not supported in simulations.
        InvalidArgumentError: The input or output size of the network does not match the options.
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
                f"the policy takes {sizes[0]} values and gives {sizes[1]}; its options need {expected[0]} and "
                f"{expected[1]}"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PolicyDriver":
        """Return the driver of a policy file from ``l5kit train-rl``.

        Only weights and options are read; pickled objects in the file are never loaded.

        Args:
            path: A ``.zip``, an exported ``.onnx``, the folder of a training, for its ``driver.zip``, or the name of a
                policy that ships with l5kit.

        Raises:
            FileNotFoundError: The file does not exist, or the training is not finished.
            InvalidArgumentError: The file is broken, is not a policy, or lacks the options of its training.
            UnsupportedValueError: Its observations or actions are not supported in simulations.
        """
        file = find_policy_file(path)
        network: ActingNetwork
        if is_onnx(file):
            from l5kit.environment.policy_export import ExportedPolicy  # imported here, as it imports torch

            network = ExportedPolicy(file)
            options = network.options
        else:
            network, options = read_policy(file)
        digest = hashlib.sha256(file.read_bytes())
        digest.update(json.dumps(options.as_json(), sort_keys=True).encode())
        return cls(network, options, digest.hexdigest())

    @classmethod
    def of_function(cls, function: Callable[[Float32Array], NumericArray], options: PolicyOptions) -> "PolicyDriver":
        """Return the driver of a policy from any library.

        Args:
            function: Function from observations, float32 (R, D), to actions without noise, (R, A), scaled as in the
                environments; for a grid, to a logit of each of its actions.
            options: Options of its training.

        Raises:
            UnsupportedValueError: Its observations or actions are not supported in simulations.
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
            InvalidArgumentError: The step time differs from that of the training, or agents are to be driven without a
                map.
        """
        actions, routes = self._decide(state)
        if isinstance(self.actions, RouteActions):
            controls = self.actions.steered(actions, state.actor_states, routes, state.step_time_s)
            # Limit the jerk at the start of the drive, as episodes do: the simulation continues a log.
            since_start = (state.frame_indices - state.batch.starts[state.scenes])[state.actor_scenes]
            since_start_s, before_mps2 = since_start * state.step_time_s, state.actor_states.accelerations_mps2
            controls[:, 0] = begin_gently(controls[:, 0], before_mps2, since_start_s, step_s=state.step_time_s)
            return Actions(controls)
        return Actions(self.actions.controls(actions))

    @property
    def agent_seat(self) -> AgentSeat:
        """The driver with its vehicle model for agents: vehicles that follow lanes; other agents are replayed."""
        return AgentSeat(self, self.seat.model, AgentControl.of_traffic(tracks=find_lane_followers))

    @property
    def as_planner(self) -> "RoutePolicyPlanner | None":
        """The same driver as a planner of poses; None if its actions are not along the route."""
        return RoutePolicyPlanner(self) if isinstance(self.actions, RouteActions) else None

    def _decide(self, state: TrafficState) -> tuple[NumericArray, RouteRows]:
        """Return actions of AVs or agents as in environments, and their routes."""
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
    """Planner from a policy with actions along the route: the poses that follow from its current action.

    An acceleration is held for 1.5 s, then the speed is kept; braking is held to the end, as its cause usually remains.
    Speed limits and bends bound the speed throughout. Each step plans anew.

    Attributes:
        policy: Policy that chooses the actions.
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
            # acceleration ends after a while, braking does not
            held = actions if step * step_s < _HELD_S else np.minimum(actions, 0)
            controls = kind.steered(held, states, routes._replace(positions=positions), step_s)
            states = kind.model.step(states, controls, step_s)
            poses[:, step, :2], poses[:, step, 2] = states.positions_m, states.yaws_rad
            follow_routes(routes.paths, routes.routes, poses[:, step], positions)
        return Actions(poses)
