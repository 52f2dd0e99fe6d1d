"""Proximal policy optimisation (PPO) in one file: a policy along the route, with torch and the environments alone.

Run ``python examples/ppo.py`` for a made city, and with ``--data FOLDER`` for data of your own. It is a file to read
and to change, as those of CleanRL are. ``l5kit train-rl`` does the same with stable-baselines3, and can evaluate, save,
go on and drive besides. The algorithm is that of Schulman et al. 2017 (arXiv 1707.06347) with generalised advantages
(Schulman et al. 2016, arXiv 1506.02438): rollouts of all environments, advantages, and some passes over them in
minibatches, in which no action becomes much likelier than it was.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

from l5kit.configs.config import save_config_data
from l5kit.configs.overrides import load_driver_config
from l5kit.data import LocalDataManager
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.synthetic import make_city


class Policy(nn.Module):
    """Mean action and value of observations, each by three layers; the noise of actions is the same everywhere."""

    def __init__(self, num_inputs: int, num_actions: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_inputs))
        self.register_buffer("deviation", torch.ones(num_inputs))
        self.actor, self.critic = _layers(num_inputs, num_actions, gain=0.01), _layers(num_inputs, 1, gain=1.0)
        self.log_deviation = nn.Parameter(torch.full((num_actions,), -0.7))

    def forward(self, seen: torch.Tensor) -> tuple[Normal, torch.Tensor]:
        """Return what actions are drawn from, (B, A), and values, (B,)."""
        normalised = ((seen - self.mean) / self.deviation).clamp(-5, 5)
        return Normal(self.actor(normalised), self.log_deviation.exp()), self.critic(normalised).squeeze(-1)


def _layers(num_inputs: int, num_outputs: int, *, gain: float, width: int = 128) -> nn.Sequential:
    last = nn.Linear(width, num_outputs)
    nn.init.orthogonal_(last.weight, gain)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(num_inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), last)


def collect(env: L5VectorEnv, policy: Policy, seen: np.ndarray, options: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Drive all environments for some steps, and return what happened, (T, N, ...), with advantages and returns."""
    rows: dict[str, list[torch.Tensor]] = {}
    for _ in range(options.rollout):
        inputs = torch.from_numpy(seen.copy())
        with torch.no_grad():
            drawn_from, values = policy(inputs)
        actions = drawn_from.sample()
        seen, rewards, terminated, truncated, infos = env.step(actions.clamp(-1, 1).numpy())
        # an episode that ran out of frames would have gone on: what was to come counts as its last state is worth
        ahead = np.zeros(env.num_envs, np.float32)
        if truncated.any():
            last = torch.from_numpy(np.stack(infos["final_obs"][truncated]))
            with torch.no_grad():
                ahead[truncated] = policy(last)[1].numpy()
        step = {
            "seen": inputs,
            "actions": actions,
            "log_probabilities": drawn_from.log_prob(actions).sum(-1),
            "values": values,
            "paid": torch.from_numpy(rewards),
            "rewards": torch.from_numpy(rewards.astype(np.float32) / options.reward_scale + options.gamma * ahead),
            "ends": torch.from_numpy(terminated | truncated),
        }
        for name, value in step.items():
            rows.setdefault(name, []).append(value)
    with torch.no_grad():
        following = policy(torch.from_numpy(seen.copy()))[1]
    found = {name: torch.stack(values) for name, values in rows.items()}
    found["advantages"] = advantages_of(found, following, gamma=options.gamma, decay=0.95)
    found["returns"] = found["advantages"] + found["values"]
    found["last"] = torch.from_numpy(seen.copy())
    return found


def advantages_of(
    found: dict[str, torch.Tensor], following: torch.Tensor, *, gamma: float, decay: float
) -> torch.Tensor:
    """Return generalised advantages, (T, N): how much better a step was than the value of its state."""
    advantages, ahead = torch.zeros_like(found["rewards"]), torch.zeros_like(following)
    for step in reversed(range(len(advantages))):
        goes_on = 1.0 - found["ends"][step].float()
        surprise = found["rewards"][step] + gamma * following * goes_on - found["values"][step]
        ahead = surprise + gamma * decay * goes_on * ahead
        advantages[step], following = ahead, found["values"][step]
    return advantages


def update(policy: Policy, optimiser: torch.optim.Optimizer, found: dict[str, torch.Tensor], batch_size: int) -> None:
    """Make actions likelier whose advantages are above 0, in three passes."""
    flat = {name: value.flatten(0, 1) for name, value in found.items() if name != "last"}
    advantages = (flat["advantages"] - flat["advantages"].mean()) / (flat["advantages"].std() + 1e-6)
    for _ in range(3):
        for rows in torch.randperm(len(advantages)).split(batch_size):
            drawn_from, values = policy(flat["seen"][rows])
            ratio = (drawn_from.log_prob(flat["actions"][rows]).sum(-1) - flat["log_probabilities"][rows]).exp()
            gain = torch.min(ratio * advantages[rows], ratio.clamp(0.8, 1.2) * advantages[rows]).mean()
            loss = 0.5 * (values - flat["returns"][rows]).square().mean() - gain
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimiser.step()


def main() -> None:
    """Make the environments that the options ask for, and train in them."""
    parser = argparse.ArgumentParser(description="Train a policy along the route by PPO, in one file.")
    parser.add_argument("--data", type=Path, help="folder of a dataset with its map; by default a city is made")
    parser.add_argument("--out", type=Path, default=Path("policy.pt"), help="file for the weights")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of training")
    parser.add_argument("--envs", type=int, default=256, help="environments that step at once")
    parser.add_argument("--rollout", type=int, default=32, help="steps of each between two updates")
    parser.add_argument("--batch-size", type=int, default=2048, help="steps of a minibatch")
    parser.add_argument("--gamma", type=float, default=0.97, help="discount of a step of 0.3 s")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="at the beginning; it falls to a fiftieth")
    parser.add_argument("--reward-scale", type=float, default=5.0, help="rewards are divided by this")
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise and episodes")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gym.yaml"
        save_config_data(load_driver_config(None), str(config))  # what is seen, done and paid for by l5kit train-rl
        data = options.data or make_city(Path(folder) / "city", num_scenes=40).path
        env = L5VectorEnv(options.envs, str(config), LocalDataManager(data), autoreset_mode="SameStep")
        train(env, options)


def train(env: L5VectorEnv, options: argparse.Namespace) -> int:
    """Train a policy in environments, tell how it goes, save it, and return the number of steps."""
    policy = Policy(env.single_observation_space.shape[0], env.single_action_space.shape[0])
    optimiser = torch.optim.Adam(policy.parameters(), options.learning_rate, eps=1e-5)
    seen, start_s, num_steps, done = env.reset(seed=options.seed)[0], time.perf_counter(), 0, 0.0
    while done < 1:
        found = collect(env, policy, seen, options)
        if num_steps == 0:  # what the first rollout saw says how large values are; it is too old to learn from then
            rows = found["seen"].flatten(0, 1)
            policy.mean, policy.deviation = rows.mean(0), rows.std(0).clamp(min=0.05)
        else:
            optimiser.param_groups[0]["lr"] = options.learning_rate * max(1 - done, 0.02)
            update(policy, optimiser, found, options.batch_size)
        seen, num_steps = found["last"].numpy(), num_steps + found["ends"].numel()
        seconds = time.perf_counter() - start_s
        done = seconds / 60 / options.minutes
        ends = int(found["ends"].sum())
        print(
            f"{num_steps:,} steps, {num_steps / seconds:,.0f} steps/s, reward of a step "
            f"{float(found['paid'].mean()):.3f}, {ends} episodes ended",
            flush=True,
        )
    torch.save(policy.state_dict(), options.out)
    print(f"wrote {options.out}")
    return num_steps


if __name__ == "__main__":
    main()
