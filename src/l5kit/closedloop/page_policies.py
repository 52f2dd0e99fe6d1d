"""Policies for the page of ``l5kit drive``: their weights, and the layout of their observations and actions."""

import numpy as np

from l5kit._types import JsonObject
from l5kit.environment.model_actions import RouteActions
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.environment.policy_file import PolicyNetwork
from l5kit.errors import UnsupportedValueError
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.visualization.drive.drive_folder import PagePolicy
from l5kit.visualization.viewer.packed_arrays import pack_arrays

_AGENTS = "agents"


def page_policy(policy: PolicyDriver, *, name: str) -> PagePolicy:
    """Return a policy in the form in which the page evaluates it.

    Args:
        policy: Drives along its route; see :attr:`~l5kit.environment.policy_driver.PolicyDriver.as_planner`.
        name: Its name on the page.

    Raises:
        UnsupportedValueError: The page does not support its observations, network or actions.
    """
    network, options, actions = policy.network, policy.options, policy.actions
    layout = options.layout
    encoder = network.encoder if isinstance(network, PolicyNetwork) else None
    if (
        not isinstance(network, PolicyNetwork)
        or encoder is None
        or tuple(encoder.sets) != (_AGENTS,)
        or not isinstance(actions, RouteActions)
        or (layout.frame, layout.forecast, layout.num_lane_points) != ("route", "velocity", 0)
        or options.threshold != SceneBatch.threshold
    ):
        raise UnsupportedValueError(
            f"policy {name!r} has the layout {layout}, a {type(network).__name__}, the actions {options.actions!r} and "
            f"the threshold {options.threshold}; the page supports policies of l5kit train-rl with actions along the "
            "route, a network of agents or attention, frame='route', forecast='velocity' and no lane points"
        )
    # layout of an observation: the columns of the AV with its route, followed by those of each agent
    own_columns, (num_agents, agent_columns) = layout.parts[_AGENTS]
    facts: JsonObject = {
        "own_columns": own_columns.start,
        "agent_columns": agent_columns,
        "num_agents": num_agents,
        "num_layers": len(network.layers),
        "layout": {
            "num_agents": layout.num_agents,
            "num_route_points": layout.num_route_points,
            "route_step_m": float(layout.route_step_m),
            "reach_m": float(layout.reach_m),
        },
        "low_mps2": actions.lows[0],
        "high_mps2": actions.highs[0],
        "curvature": list(actions.model.parameters(options.step_time_s)),
    }

    # weights and biases of all layers, by name
    of_agents = encoder.sets[_AGENTS]
    layers = {"own": encoder.own, "agents_first": of_agents.first, "agents_second": of_agents.second}
    layers |= {f"layer_{index}": layer for index, layer in enumerate(network.layers)}
    if of_agents.query is not None:
        layers["agents_query"] = of_agents.query
    arrays = {"means": encoder.scales[0], "deviations": encoder.scales[1], "agents_mix_weights": of_agents.mix}
    for layer_name, (weights, offsets) in layers.items():
        arrays |= {f"{layer_name}_weights": weights, f"{layer_name}_offsets": offsets}
    arrays = {key: np.ascontiguousarray(array, np.float32) for key, array in arrays.items()}
    return PagePolicy(name, options.step_time_s, pack_arrays(facts, arrays))
