"""Steps per second of vector environments by number of threads, and whether their bits agree.

Run ``python benchmarks/environment_threads.py``: environments of ``l5kit train-rl`` (compact states, driving reward,
IDM) take random actions in a synthetic city, alternating between numbers of threads. Prints the medians of these
passes.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from l5kit.configs.config import save_config_data
from l5kit.configs.overrides import load_driver_config
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.synthetic import make_city

NUM_COMPARED = 30
NUM_PASSES = 7


def main() -> None:
    """Print the table; exit with status 1 if bits differ."""
    parser = argparse.ArgumentParser(description="Rates of vector environments in several threads.")
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 256, 1024, 2048], help="environments at once")
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="threads, compared with one")
    parser.add_argument("--city", type=Path, help="folder of a made city; one of twelve scenes is made without it")
    options = parser.parse_args()
    is_same = True
    with tempfile.TemporaryDirectory(prefix="l5kit-threads-") as scratch:
        city, config = options.city or Path(scratch) / "city", Path(scratch) / "env.yaml"
        if options.city is None:
            make_city(city, num_scenes=12)
        save_config_data(load_driver_config(None), str(config))
        print("| environments | threads | ms a step | frames/s | times one thread |\n| --- | --- | --- | --- | --- |")
        for num_envs in options.envs:
            is_same &= print_rows(num_envs, [1, *options.threads], city=city, config=config)
    sys.exit(0 if is_same else 1)


def print_rows(num_envs: int, threads: list[int], *, city: Path, config: Path) -> bool:
    """Print the rates of some number of environments, and return whether all threads give the same bits."""
    data = LocalDataManager(str(city))
    envs = {
        count: L5VectorEnv(num_envs, str(config), data, autoreset_mode="SameStep", copy=False, num_threads=count)
        for count in threads
    }
    generator = np.random.default_rng(0)
    actions = generator.uniform(-1, 1, (8, *(envs[1].action_space.shape or ()))).astype(np.float32)
    for env in envs.values():
        env.reset(seed=0)
    is_same = True
    for step in range(NUM_COMPARED):
        stepped = [[part.copy() for part in env.step(actions[step % 8])[:4]] for env in envs.values()]
        is_same &= all(np.array_equal(*pair) for other in stepped[1:] for pair in zip(stepped[0], other, strict=True))

    # alternate passes, so that other load on the machine affects all of them
    num_steps = max(4, 12_000 // num_envs)
    passes: dict[int, list[float]] = {count: [] for count in threads}
    for _ in range(NUM_PASSES):
        for count, env in envs.items():
            start_s = time.perf_counter()
            for step in range(num_steps):
                env.step(actions[step % 8])
            passes[count].append((time.perf_counter() - start_s) / num_steps)
    frames = num_envs * envs[1].episodes.parts.frames_per_action
    for count, seconds in passes.items():
        middle_s = statistics.median(seconds)
        ratio = statistics.median(one / other for one, other in zip(passes[1], seconds, strict=True))
        print(f"| {num_envs:,} | {count} | {1e3 * middle_s:.1f} | {frames / middle_s:,.0f} | {ratio:.2f} |", flush=True)
    if not is_same:
        print(f"the bits of {num_envs} environments depend on threads", file=sys.stderr)
    return is_same


if __name__ == "__main__":
    main()
