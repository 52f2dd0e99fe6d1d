"""Latency of a session, from a moment to its plan, for planners by name.

    OMP_NUM_THREADS=1 python benchmarks/session_latency.py city [rules route_planner route_policy ...]

The AV of each scene follows the plans among replayed agents, at 10 Hz. Prints the table of docs/session.md in Markdown:
p50 and p99 of all steps except the first ten, in milliseconds of wall-clock time and of thread time, which does not
depend on other load.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

from l5kit.closedloop import open_session
from l5kit.closedloop.checkpoints import NetworkContext
from l5kit.closedloop.planners import open_planner
from l5kit.data import ChunkedDataset, SceneRecords, find_dataset_files, open_map
from l5kit.simulation import RoadMap, SceneBatch, SceneSimulation

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.moments import moment_of, route_of

NUM_FIRST = 10
"""Warm-up steps, which compile kernels and find paths."""


def measure(city: str, name: str, fallback: str | None) -> tuple[list[float], list[float], float]:
    """Return wall-clock and thread seconds of each step, and the mean number of road users."""
    files = find_dataset_files(city)
    log = ChunkedDataset(files.dataset).open()
    road = RoadMap(open_map(files))
    seat = open_planner(name, context=NetworkContext(files, log.facts, device="cpu"), fallback=fallback).seat
    wall_s: list[float] = []
    thread_s: list[float] = []
    num_objects: list[int] = []
    for index in range(len(log.scenes)):
        scene = SceneRecords.read(log, index)
        batch = SceneBatch.of_scenes([scene], facts=log.facts, road=road)
        simulation = SceneSimulation(batch, ego=seat, strict=True)
        session = open_session(
            name,
            map_path=files.semantic_map,
            meta_path=files.meta,
            route=route_of(scene),
            fallback=fallback,
            facts=log.facts,
            device="cpu",
        )
        number = 0
        while len(simulation.running):
            moment = moment_of(simulation.state())
            wall, thread = time.perf_counter(), time.thread_time()
            session.step(moment)
            taken = time.perf_counter() - wall, time.thread_time() - thread
            if number >= NUM_FIRST:
                wall_s.append(taken[0])
                thread_s.append(taken[1])
                num_objects.append(len(moment.objects))
            simulation.step()
            number += 1
    return wall_s, thread_s, float(np.mean(num_objects))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("city")
    parser.add_argument("planners", nargs="*", default=["rules", "idm", "route_planner", "route_planner+rules"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| planner | road users | p50, thread | p99, thread | p50, wall | p99, wall |\n|---|---|---|---|---|---|")
    for planner in given.planners:
        name, _, fallback = planner.partition("+")
        wall_s, thread_s, num_objects = measure(given.city, name, fallback or None)
        parts = [f"{1e3 * np.percentile(times, q):.2f} ms" for times in (thread_s, wall_s) for q in (50, 99)]
        print(f"| `{planner}` | {num_objects:.0f} | {' | '.join(parts)} |", flush=True)


if __name__ == "__main__":
    main()
