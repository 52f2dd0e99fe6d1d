"""Memory of environments over many steps, and whether episodes are independent of the autoreset mode.

Run ``python benchmarks/environment_memory.py``: 1,024 environments with compact states take random actions for 20
million steps of the AV, a sixth of them with each autoreset mode of Gymnasium and with replayed agents or IDM. The
resident memory of the process is printed every million steps. The n-th episode of an environment has the same scene,
start and actions in all modes, so its summed reward must be identical to the bit.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from l5kit.configs.overrides import load_driver_config
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.synthetic import make_city
from l5kit_bench.machine import read_process_memory

MODES = ("NextStep", "SameStep", "Disabled")
OTHERS = ("log", "idm")
NUM_TABLED = 509
NUM_REMEMBERED = 256


def main() -> None:
    """Step the environments and print the memory; exit with status 1 if modes disagree."""
    parser = argparse.ArgumentParser(description="Memory of environments, and whether their modes agree.")
    parser.add_argument("--steps", type=int, default=20_000_000, help="steps of the AV in all")
    parser.add_argument("--every", type=int, default=1_000_000, help="steps between two readings of the memory")
    parser.add_argument("--envs", type=int, default=1024, help="environments that step at once")
    parser.add_argument("--city", type=Path, help="folder of a made city; one of twelve scenes is made without it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="l5kit-environments-") as scratch:
        city = options.city or Path(scratch) / "city"
        if options.city is None:
            print("making a city of twelve scenes", flush=True)
            make_city(city, num_scenes=12)
        tell = MemoryTeller(options.every)
        agrees = run_all(city, Path(scratch), num_steps=options.steps, num_envs=options.envs, tell=tell)
    sys.exit(0 if agrees else 1)


class MemoryTeller:
    """Prints the resident memory of this process every so many steps.

    Args:
        every: Steps between two lines.
    """

    def __init__(self, every: int) -> None:
        self.every, self.num_steps, self._start_s = every, 0, time.perf_counter()

    def __call__(self, title: str, num_steps: int) -> None:
        """Count steps, and print a line when it is due."""
        before, self.num_steps = self.num_steps, self.num_steps + num_steps
        if self.num_steps // self.every > before // self.every:
            memory_mb, passed_s = read_process_memory().resident_mb, time.perf_counter() - self._start_s
            print(f"{self.num_steps:>12,} steps  {memory_mb:8,.1f} MB  {passed_s:6,.0f} s  {title}", flush=True)


def run_all(
    city: Path, scratch: Path, *, num_steps: int, num_envs: int, tell: Callable[[str, int], None], seed: int = 0
) -> bool:
    """Step environments of all modes in turn, and return whether their episodes have equal rewards."""
    agrees = True
    for others in OTHERS:
        found = {}
        for mode in MODES:
            config = write_config(scratch, others)
            env = L5VectorEnv(num_envs, config, LocalDataManager(str(city)), autoreset_mode=mode, copy=False)
            found[mode] = run_mode(env, num_steps // (len(MODES) * len(OTHERS)), tell=tell, others=others, seed=seed)
            env.close()
        agrees &= compare_modes(found, others)
    return agrees


def write_config(folder: Path, others: str) -> str:
    """Write the configuration of ``l5kit train-rl`` with other agents of a kind, and return its path."""
    cfg = load_driver_config(None)
    cfg["gym_params"]["others"] = others
    path = folder / f"{others}.yaml"
    path.write_text(json.dumps(cfg), "utf-8")
    return str(path)


def run_mode(
    env: L5VectorEnv, num_steps: int, *, tell: Callable[[str, int], None], others: str, seed: int
) -> np.ndarray:
    """Step environments, and return the summed rewards of their first episodes, (N, 256).

    The action of a step depends only on the environment, the index of its episode and that of the step.
    """
    num_envs, mode = env.num_envs, env.autoreset_mode.value
    shape = (NUM_TABLED, *env.action_space.shape)
    table = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    slots, returns = np.arange(num_envs), np.full((num_envs, NUM_REMEMBERED), np.nan)
    episodes, steps, sums = (np.zeros(num_envs, kind) for kind in (np.int64, np.int64, np.float64))
    is_over, num_done = np.zeros(num_envs, np.bool_), 0
    env.reset(seed=seed)
    while num_done < num_steps:
        is_driven = ~is_over if mode == "NextStep" else np.ones(num_envs, np.bool_)
        actions = table[(31 * episodes + steps) % NUM_TABLED, slots]
        _, rewards, terminated, truncated, _ = env.step(actions)
        is_over = terminated | truncated
        sums += np.where(is_driven, rewards, 0.0)
        steps += is_driven
        ended = slots[is_over & (episodes < NUM_REMEMBERED)]
        returns[ended, episodes[ended]] = sums[ended]
        episodes += is_over
        steps[is_over], sums[is_over] = 0, 0.0
        if mode == "Disabled" and is_over.any():
            env.reset(options={"reset_mask": is_over})
        done = int(np.count_nonzero(is_driven))
        num_done += done
        tell(f"{others}, {mode}", done)
    return returns


def compare_modes(found: dict[str, np.ndarray], others: str) -> bool:
    """Print and return whether episodes have equal rewards in all modes, as far as they have ended in all of them."""
    has_ended = np.all([~np.isnan(returns) for returns in found.values()], axis=0)
    first, *rest = found.values()
    is_other = has_ended & np.any([returns != first for returns in rest], axis=0)
    num_ended, num_other = int(has_ended.sum()), int(is_other.sum())
    verdict = "all are the same to the bit" if num_other == 0 else f"{num_other:,} DIFFER"
    print(f"{others}: {num_ended:,} episodes ended in {', '.join(found)}: {verdict}", flush=True)
    return num_ended > 0 and num_other == 0


if __name__ == "__main__":
    main()
