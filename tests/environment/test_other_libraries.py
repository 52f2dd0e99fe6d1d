"""Environments in libraries that the documents name, other than stable-baselines3."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("pettingzoo")

from l5kit.environment.envs.l5_env import SimulationConfigGym
from l5kit.environment.envs.parallel_env import L5ParallelEnv
from support.environments import data_of, write_config


@pytest.fixture
def make_actors(city, tmp_path):
    """Function that makes parallel environments of 30 frames."""

    def make(**args):
        sim_cfg = SimulationConfigGym(num_simulation_steps=30)
        return L5ParallelEnv(write_config(tmp_path), data_of(city), sim_cfg, **args)

    return make


DRIVING = {"reward": "driving", "others": "idm", "ends_at": ["collision", "off_road"]}


@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested using version")
@pytest.mark.parametrize("actions", ["bicycle", "curvature", "pose_change", "grid"])
@pytest.mark.parametrize(
    "args", [{"controls": "ego"}, {"controls": 2}, {"max_vehicles": 4, **DRIVING}], ids=["ego", "two", "vehicles"]
)
def test_torchrl_steps_actors(make_actors, actions, args):
    pytest.importorskip("torchrl")
    from torchrl.envs import PettingZooWrapper
    from torchrl.envs.utils import check_env_specs

    env = PettingZooWrapper(
        make_actors(actions=actions, resets_all=True, **args),
        use_mask=True,
        done_on_any=False,
        categorical_actions=True,
        seed=1,
    )
    check_env_specs(env, seed=2)
    steps = env.rollout(40, break_when_any_done=False)
    assert steps.shape == (40,)
    assert steps["next", "done"].any(), "an episode ends and another one begins"
    told = steps["next", "ego", "info"]
    acts = steps["ego", "mask"][..., 0]
    assert (told["reward_tot"][acts] == steps["next", "ego", "reward"][acts][..., 0]).all()
