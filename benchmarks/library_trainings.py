"""Trainings in the same environments with each RL library of the docs, and their closed-loop scores.

All trainings use the default environments of ``l5kit train-rl`` (compact observations in the frame of the route,
actions along it), the same minutes, and new weights. The policies then drive scenes of another town, as functions of
``PolicyDriver``. This only shows that each library learns here; it does not rank them, as network and batch sizes are
the defaults of their documentation.

Run ``python benchmarks/library_trainings.py --minutes 3`` for all, ``--only skrl`` for one, and ``--write`` to write
the table into docs/results/policies.md.
"""

import argparse
import runpy
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

import l5kit.environment  # noqa: F401  # registers the environment
from l5kit._types import Float32Array, NumericArray
from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.configs.config import save_config_data
from l5kit.configs.overrides import load_driver_config, with_overrides
from l5kit.data import LocalDataManager
from l5kit.environment import PolicyDriver, PolicyOptions, StableBaselinesVecEnv, parallel_env
from l5kit.environment.envs.parallel_env import L5ParallelEnv
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.synthetic import make_towns
from l5kit.synthetic.params import CityParams
from training_table import replace_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "results" / "policies.md"
START = "<!-- libraries: made by benchmarks/library_trainings.py -->"
START_FRAME = 10

Act = Callable[[Float32Array], NumericArray]
"""Function that returns actions without noise (R, A) for observations (R, D)."""


@dataclass(frozen=True)
class Course:
    """Common settings of all trainings.

    Attributes:
        config: Configuration file.
        data: Folder of the training town.
        minutes: Duration.
        num_envs: Number of environments.
    """

    config: str
    data: Path
    minutes: float
    num_envs: int = 64

    def make(self, autoreset: str = "NextStep") -> L5VectorEnv:
        """Return the environments of the training."""
        made = gymnasium.make_vec(
            "L5-CLE-v0",
            num_envs=self.num_envs,
            vectorization_mode="vector_entry_point",
            autoreset_mode=autoreset,
            env_config_path=self.config,
            dmg=LocalDataManager(self.data),
        )
        assert isinstance(made, L5VectorEnv)
        return made

    @property
    def clock(self) -> Callable[[], bool]:
        """Return a function that reports whether the minutes from now on are over."""
        end_s = time.perf_counter() + 60 * self.minutes
        return lambda: time.perf_counter() >= end_s


def train_sb3(course: Course) -> tuple[Act, int]:
    """PPO of stable-baselines3."""
    from stable_baselines3 import PPO

    env = StableBaselinesVecEnv(course.make("SameStep"))
    return _learn_with_sb3(PPO("MlpPolicy", env, n_steps=32, batch_size=512, n_epochs=4, gamma=0.97, seed=0), course)


def train_sb3_actors(course: Course) -> tuple[Act, int]:
    """PPO of stable-baselines3 for the AV and five vehicles of a PettingZoo environment, with a shared policy."""
    from stable_baselines3 import PPO

    # other actors enter and leave between the frames of an action
    cfg = with_overrides(load_driver_config(course.config), ["gym_params.frames_per_action=1"])
    config = Path(course.config).with_name("actors.yaml")
    save_config_data(cfg, str(config))
    actors = parallel_env(env_config_path=str(config), dmg=LocalDataManager(course.data), max_vehicles=5)
    env = make_actors_env(actors)
    return _learn_with_sb3(PPO("MlpPolicy", env, n_steps=256, batch_size=512, n_epochs=4, gamma=0.97, seed=0), course)


def make_actors_env(actors: L5ParallelEnv) -> Any:
    """Return a vector environment of stable-baselines3 with one slot for each actor, zeros while it is absent."""
    from stable_baselines3.common.vec_env import VecEnv

    names = actors.possible_agents
    spaces = actors.observation_space(names[0]), actors.action_space(names[0])

    class ActorsVecEnv(VecEnv):
        """Adapter that steps the actors of one scene after another as a vector environment."""

        def rows_of(self, seen: Mapping[str, Float32Array]) -> Float32Array:
            none = np.zeros(spaces[0].shape, np.float32)
            return np.stack([seen.get(name, none) for name in names])

        def reset(self) -> Float32Array:
            return self.rows_of(actors.reset()[0])

        def step_async(self, actions: NumericArray) -> None:
            self.acts = {name: action for name, action in zip(names, actions, strict=True) if name in actors.agents}

        def step_wait(self) -> Any:
            seen, paid, terminated, truncated, _ = actors.step(self.acts)
            ends = np.array([terminated.get(name, False) or truncated.get(name, False) for name in names])
            rewards = np.array([paid.get(name, 0.0) for name in names], np.float32)
            infos: list[dict[str, Any]] = [{} for _ in names]
            for slot, name in enumerate(names):
                if truncated.get(name, False):
                    infos[slot] = {"terminal_observation": seen[name], "TimeLimit.truncated": not terminated[name]}
                elif ends[slot]:
                    infos[slot] = {"terminal_observation": seen[name]}
            return (self.rows_of(seen) if actors.agents else self.reset()), rewards, ends, infos

        def close(self) -> None:
            actors.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:  # noqa: ARG002
            return [getattr(actors, attr_name, None)] * self.num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002
            setattr(actors, attr_name, value)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:  # noqa: ARG002
            return [getattr(actors, method_name)(*args, **kwargs)] * self.num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
            return [False] * self.num_envs

    return ActorsVecEnv(len(names), *spaces)


def _learn_with_sb3(model: Any, course: Course) -> tuple[Act, int]:
    is_over = course.clock
    model.learn(10**9, callback=lambda *_: not is_over())
    return (lambda seen: model.policy.predict(seen, deterministic=True)[0]), model.num_timesteps


def train_torchrl(course: Course) -> tuple[Act, int]:
    """Clipped PPO of TorchRL."""
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.envs import GymWrapper
    from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    torch.manual_seed(0)
    env = GymWrapper(course.make("Disabled"))
    num_inputs, num_actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    shape = {"num_cells": [128, 128], "activation_class": torch.nn.Tanh}
    means = torch.nn.Sequential(MLP(num_inputs, 2 * num_actions, **shape), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(means, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(num_inputs, 1, **shape), in_keys=["observation"])
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0)
    advantage = GAE(gamma=0.97, lmbda=0.95, value_network=critic)
    optimiser, is_over, num_steps = torch.optim.Adam(loss.parameters(), 3e-4), course.clock, 0
    for batch in Collector(env, actor, frames_per_batch=32 * course.num_envs, total_frames=-1):
        with torch.no_grad():
            advantage(batch)
        flat, num_steps = batch.reshape(-1), num_steps + batch.numel()
        for _ in range(4):
            for rows in torch.randperm(len(flat)).split(512):
                losses = loss(flat[rows])
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        if is_over():
            break
    return _acting(lambda seen: torch.tanh(means(seen)[0])), num_steps


def train_skrl(course: Course) -> tuple[Act, int]:
    """PPO of skrl."""
    from skrl.agents.torch.ppo import PPO
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils import set_seed
    from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

    set_seed(0)
    env = wrap_env(course.make())
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    layers = [{"name": "net", "input": "OBSERVATIONS", "layers": [128, 128], "activations": "tanh"}]
    policy = gaussian_model(**spaces, network=layers, output="ACTIONS", initial_log_std=-0.7)
    models = {"policy": policy, "value": deterministic_model(**spaces, network=layers, output="ONE")}
    memory = RandomMemory(memory_size=32, num_envs=course.num_envs, device=env.device)
    learning = {"rollouts": 32, "mini_batches": 4, "learning_epochs": 4, "learning_rate": 3e-4}
    learning |= {"discount_factor": 0.97, "time_limit_bootstrap": True}
    learning |= {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}  # no log folder
    agent = PPO(models=models, memory=memory, **spaces, cfg=learning)
    is_over, num_steps = course.clock, 0
    while not is_over():
        trainer = {"timesteps": 64, "headless": True, "close_environment_at_exit": False, "disable_progressbar": True}
        SequentialTrainer(env=env, agents=agent, cfg=trainer).train()
        num_steps += 64 * course.num_envs
    return _acting(lambda seen: policy.act({"observations": seen}, role="policy")[1]["mean_actions"]), num_steps


def train_one_file(course: Course) -> tuple[Act, int]:
    """PPO in one file, examples/ppo.py."""
    example = runpy.run_path(str(ROOT / "examples" / "ppo.py"), run_name="ppo")
    env = course.make("SameStep")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "policy.pt"
        options = argparse.Namespace(
            minutes=course.minutes, rollout=32, batch_size=512, gamma=0.97, learning_rate=5e-4, reward_scale=5.0
        )
        torch.manual_seed(0)
        num_steps = example["train"](env, argparse.Namespace(**vars(options), seed=0, out=out))
        policy = example["Policy"](env.single_observation_space.shape[0], env.single_action_space.shape[0])
        policy.load_state_dict(torch.load(out, weights_only=True))
    return _acting(lambda seen: policy(seen)[0].mean), num_steps


def _acting(network: Callable[[torch.Tensor], torch.Tensor]) -> Act:
    """Return a function of arrays that calls a torch network."""

    def act(seen: Float32Array) -> NumericArray:
        with torch.no_grad():
            acts: NumericArray = network(torch.from_numpy(seen.copy())).numpy()
        return acts

    return act


LIBRARIES: Mapping[str, Callable[[Course], tuple[Act, int]]] = {
    "stable-baselines3": train_sb3,
    "stable-baselines3, actors of PettingZoo": train_sb3_actors,
    "TorchRL": train_torchrl,
    "skrl": train_skrl,
    "one file (`examples/ppo.py`)": train_one_file,
}
"""Libraries and their training functions, which return the policy and the number of decisions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, drive, print the table and return the exit status."""
    parser = argparse.ArgumentParser(description="One training with each library.")
    parser.add_argument("--work", type=Path, default=Path("library-trainings"), help="folder of towns and drives")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each training")
    parser.add_argument("--scenes", type=int, default=20, help="that are driven")
    parser.add_argument("--only", action="append", help="a part of a name; may be given several times; all")
    parser.add_argument("--write", action="store_true", help="write the table into the document")
    options = parser.parse_args(arguments)
    rows = measure(options)
    lines = [
        f"| trained with, {options.minutes:g} minutes | decisions | score, others by `idm` | before |",
        "| --- | ---: | ---: | ---: |",
        *rows,
    ]
    print("\n".join(lines))
    if options.write:
        replace_table(DOCUMENT, ["", *lines, ""], start=START)
    return 0


def measure(options: argparse.Namespace) -> list[str]:
    """Return the rows of the table."""
    trained, driven = make_towns(options.work / "towns", 2, params=CityParams(seed=31, num_scenes=40))
    cfg, rows = load_driver_config(None), []
    options.work.mkdir(parents=True, exist_ok=True)
    config = options.work / "gym.yaml"
    save_config_data(cfg, str(config))
    course = Course(str(config), trained.path, options.minutes)
    before = score_of(lambda seen: np.zeros((len(seen), 1)), cfg, driven.path, options)
    for name, train in LIBRARIES.items():
        if options.only is None or any(part in name for part in options.only):
            act, num_steps = train(course)
            rows.append(f"| {name} | {num_steps:,} | {score_of(act, cfg, driven.path, options):.2f} | {before:.2f} |")
            print(rows[-1], flush=True)
    return rows


def score_of(act: Act, cfg: Mapping[str, Any], city: Path, options: argparse.Namespace) -> float:
    """Return the mean score of a policy over the scenes of a town."""
    driver = PolicyDriver.of_function(act, PolicyOptions.of_cfg(cfg))
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        drives = ClosedLoopOptions(start_frame=START_FRAME, keeps_plans=False, scenes=range(options.scenes))
        result = simulate(city, Path(folder) / "drives", planner=driver.seat, agents="idm", options=drives)
        return float(result.score or 0.0)


if __name__ == "__main__":
    raise SystemExit(main())
