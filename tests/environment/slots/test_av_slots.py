"""AVs of slots: kernels move them like actions of any kind, and invalid actions move nobody."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from l5kit.environment.action_kinds import moves_in_kernels
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.model_actions import ModelActions, RouteActions, model_actions
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.vehicle_models import InvertibleBicycle, PoseChange, Unicycle
from support.environments import data_of, write_config

PARAMS = {"observation": "compact", "reward": "driving", "others": "idm", "num_simulation_steps": 20}


class OwnModelActions(ModelActions):
    """Actions of a model that are moved by their own method, as those of users are."""


class OwnRouteActions(RouteActions):
    """The same along the route."""


def own(kind):
    """The same actions, which no kernel moves."""
    make = OwnRouteActions if isinstance(kind, RouteActions) else OwnModelActions
    return make(kind.model, kind.lows, kind.highs, kind.grid)


@pytest.mark.parametrize(
    "kind",
    [
        *map(model_actions, ("bicycle", "curvature", "grid", "route", "route_emergency")),
        ModelActions(Unicycle(), (-4, -0.5), (4, 0.5)),
    ],
    ids=["bicycle", "curvature", "grid", "route", "route_emergency", "unicycle"],
)
def test_kernels_move_avs_as_the_methods_of_actions_do(city, tmp_path, kind):
    config, found = write_config(tmp_path, **PARAMS), []
    for actions in (kind, own(kind)):
        assert moves_in_kernels(actions) == (actions is kind)
        env, generator = L5VectorEnv(3, config, data_of(city), actions=actions), np.random.default_rng(1)
        env.action_space.seed(1)
        seen = [env.reset(seed=1)[0]]
        for _ in range(25):
            wanted = env.action_space.sample() if kind.grid else generator.uniform(-1, 1, env.action_space.shape)
            obs, rewards, *_ = env.step(wanted)
            seen += [obs, rewards[:, None], env.episodes.avs.arrays.motions.copy()]
        found.append(np.concatenate(seen, axis=1))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-9)


def test_models_that_no_kernel_moves_are_moved_by_their_method():
    assert not moves_in_kernels(model_actions("pose_change"))
    assert not moves_in_kernels(ModelActions(PoseChange(), (-1.0,), (1.0,)))  # its own check is the first step


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ModelActions(Unicycle(), (-1.0,), (1.0,)), "limits of 1 controls; Unicycle takes 2"),
        (ModelActions(Unicycle(), (-1.0,) * 3, (1.0,) * 3), "limits of 3 controls; Unicycle takes 2"),
        (RouteActions(InvertibleBicycle(), (-1.0, -1.0), (1.0, 1.0)), "limits of 2 controls; a route takes 1"),
    ],
)
def test_other_numbers_of_controls_are_refused_when_the_environment_is_made(city, tmp_path, kind, message):
    with pytest.raises(InvalidArgumentError, match=message):
        L5VectorEnv(2, write_config(tmp_path, **PARAMS), data_of(city), actions=kind)


def test_an_action_that_leads_nowhere_moves_nobody(city, tmp_path):
    endless = ModelActions(Unicycle((-1.7e308, 1.7e308), (-1.0, 1.0)), (-1.7e308, -1.0), (1.7e308, 1.0))
    env = L5VectorEnv(2, write_config(tmp_path, **PARAMS), data_of(city), actions=endless)
    env.reset(seed=1)
    before, frames = env.episodes.avs.arrays.boxes.copy(), env.frame_indices.copy()
    with pytest.raises(InvalidArgumentError, match=r"action of environment 1 is \[1.0, 0.0\], .* not finite"):
        env.step(np.array([[0.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(env.episodes.avs.arrays.boxes, before)
    np.testing.assert_array_equal(env.frame_indices, frames)
