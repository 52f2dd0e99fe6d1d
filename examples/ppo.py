"""Proximal policy optimisation (PPO) in one file: a policy along the route, using only torch and the environments.

Run ``python examples/ppo.py`` with a synthetic city, or with ``--data FOLDER`` for your own data. Like CleanRL, it is
meant to be read and changed. ``l5kit train-rl`` does the same with stable-baselines3, and can also evaluate, save,
resume and drive. The algorithm is PPO with clipping (Schulman et al. 2017, arXiv 1707.06347) and generalised advantage
estimation (Schulman et al. 2016, arXiv 1506.02438).
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
    """Actor and critic with three layers each; the deviation of actions does not depend on the observation."""

    def __init__(self, num_inputs: int, num_actions: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_inputs))
        self.register_buffer("deviation", torch.ones(num_inputs))
        self.actor, self.critic = _layers(num_inputs, num_actions, gain=0.01), _layers(num_inputs, 1, gain=1.0)
        self.log_deviation = nn.Parameter(torch.full((num_actions,), -0.7))

    def forward(self, seen: torch.Tensor) -> tuple[Normal, torch.Tensor]:
        """Return the distribution of actions (B, A), and values (B,)."""
        normalised = ((seen - self.mean) / self.deviation).clamp(-5, 5)
        return Normal(self.actor(normalised), self.log_deviation.exp()), self.critic(normalised).squeeze(-1)


def _layers(num_inputs: int, num_outputs: int, *, gain: float, width: int = 128) -> nn.Sequential:
    last = nn.Linear(width, num_outputs)
    nn.init.orthogonal_(last.weight, gain)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(num_inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), last)


def collect(env: L5VectorEnv, policy: Policy, seen: np.ndarray, options: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Return a rollout of all environments, (T, N, ...), with advantages and returns."""
    rows: dict[str, list[torch.Tensor]] = {}
    for _ in range(options.rollout):
        inputs = torch.from_numpy(seen.copy())
        with torch.no_grad():
            distribution, values = policy(inputs)
        actions = distribution.sample()
        seen, rewards, terminated, truncated, infos = env.step(actions.clamp(-1, 1).numpy())
        # a truncated episode would have continued, so bootstrap from the value of its last observation
        ahead = np.zeros(env.num_envs, np.float32)
        if truncated.any():
            last = torch.from_numpy(np.stack(infos["final_obs"][truncated]))
            with torch.no_grad():
                ahead[truncated] = policy(last)[1].numpy()
        step = {
            "seen": inputs,
            "actions": actions,
            "log_probabilities": distribution.log_prob(actions).sum(-1),
            "values": values,
            "raw_rewards": torch.from_numpy(rewards),
            "rewards": torch.from_numpy(rewards.astype(np.float32) / options.reward_scale + options.gamma * ahead),
            "ends": torch.from_numpy(terminated | truncated),
        }
        for name, value in step.items():
            rows.setdefault(name, []).append(value)
    with torch.no_grad():
        following = policy(torch.from_numpy(seen.copy()))[1]
    rollout = {name: torch.stack(values) for name, values in rows.items()}
    rollout["advantages"] = advantages_of(rollout, following, gamma=options.gamma, decay=0.95)
    rollout["returns"] = rollout["advantages"] + rollout["values"]
    rollout["last"] = torch.from_numpy(seen.copy())
    return rollout


def advantages_of(
    rollout: dict[str, torch.Tensor], following: torch.Tensor, *, gamma: float, decay: float
) -> torch.Tensor:
    """Return generalised advantages, (T, N): how much better each step was than the value of its state."""
    advantages, ahead = torch.zeros_like(rollout["rewards"]), torch.zeros_like(following)
    for step in reversed(range(len(advantages))):
        continues = 1.0 - rollout["ends"][step].float()
        td_error = rollout["rewards"][step] + gamma * following * continues - rollout["values"][step]
        ahead = td_error + gamma * decay * continues * ahead
        advantages[step], following = ahead, rollout["values"][step]
    return advantages


def update(policy: Policy, optimiser: torch.optim.Optimizer, rollout: dict[str, torch.Tensor], batch_size: int) -> None:
    """Update the policy in three passes over a rollout, with clipped probability ratios."""
    flat = {name: value.flatten(0, 1) for name, value in rollout.items() if name != "last"}
    advantages = (flat["advantages"] - flat["advantages"].mean()) / (flat["advantages"].std() + 1e-6)
    for _ in range(3):
        for rows in torch.randperm(len(advantages)).split(batch_size):
            distribution, values = policy(flat["seen"][rows])
            ratio = (distribution.log_prob(flat["actions"][rows]).sum(-1) - flat["log_probabilities"][rows]).exp()
            gain = torch.min(ratio * advantages[rows], ratio.clamp(0.8, 1.2) * advantages[rows]).mean()
            loss = 0.5 * (values - flat["returns"][rows]).square().mean() - gain
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimiser.step()


def main() -> None:
    """Create the environments and train in them."""
    parser = argparse.ArgumentParser(description="Train a policy along the route by PPO, in one file.")
    parser.add_argument("--data", type=Path, help="dataset folder with its map; default: generate a city")
    parser.add_argument("--out", type=Path, default=Path("policy.pt"), help="file for the weights")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of training")
    parser.add_argument("--envs", type=int, default=256, help="number of environments")
    parser.add_argument("--rollout", type=int, default=32, help="steps of each environment between two updates")
    parser.add_argument("--batch-size", type=int, default=2048, help="steps in a minibatch")
    parser.add_argument("--gamma", type=float, default=0.97, help="discount of a step of 0.3 s")
    parser.add_argument(
        "--learning-rate", type=float, default=5e-4, help="initial learning rate; it falls to a fiftieth"
    )
    parser.add_argument("--reward-scale", type=float, default=5.0, help="divisor of rewards")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, noise and episodes")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gym.yaml"
        save_config_data(load_driver_config(None), str(config))  # observations, actions and rewards of l5kit train-rl
        data = options.data or make_city(Path(folder) / "city", num_scenes=40).path
        env = L5VectorEnv(options.envs, str(config), LocalDataManager(data), autoreset_mode="SameStep")
        train(env, options)


def train(env: L5VectorEnv, options: argparse.Namespace) -> int:
    """Train a policy, print its progress, save it, and return the number of steps."""
    policy = Policy(env.single_observation_space.shape[0], env.single_action_space.shape[0])
    optimiser = torch.optim.Adam(policy.parameters(), options.learning_rate, eps=1e-5)
    seen, start_s, num_steps, done = env.reset(seed=options.seed)[0], time.perf_counter(), 0, 0.0
    while done < 1:
        rollout = collect(env, policy, seen, options)
        if num_steps == 0:  # only normalises observations: its log-probabilities are outdated afterwards
            rows = rollout["seen"].flatten(0, 1)
            policy.mean, policy.deviation = rows.mean(0), rows.std(0).clamp(min=0.05)
        else:
            optimiser.param_groups[0]["lr"] = options.learning_rate * max(1 - done, 0.02)
            update(policy, optimiser, rollout, options.batch_size)
        seen, num_steps = rollout["last"].numpy(), num_steps + rollout["ends"].numel()
        seconds = time.perf_counter() - start_s
        done = seconds / 60 / options.minutes
        ends = int(rollout["ends"].sum())
        print(
            f"{num_steps:,} steps, {num_steps / seconds:,.0f} steps/s, reward of a step "
            f"{float(rollout['raw_rewards'].mean()):.3f}, {ends} episodes ended",
            flush=True,
        )
    torch.save(policy.state_dict(), options.out)
    print(f"wrote {options.out}")
    return num_steps


if __name__ == "__main__":
    main()
