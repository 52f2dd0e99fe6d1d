#!/usr/bin/env python3
"""Simulations on a device: agent-steps per second of scenes with IDM traffic that step together.

Usage: python benchmarks/device_simulation.py [--device cuda] [--slots 1024] [--steps 100] [--scenes 8]

An agent-step is one driven agent moved by one frame; replayed agents do not count. ``traffic`` moves road users only,
with logged AVs; ``simulation`` also drives the AVs with a bicycle model and checks collisions and corners off the road
in each step. The first steps, which compile kernels, are not measured. Figures are the best of several rounds.
"""

import argparse
import tempfile
from pathlib import Path

import torch

from l5kit.device.opening import open_backend
from l5kit.synthetic import make_city
from l5kit_bench.device_traffic import WARM_STEPS, TrafficBench


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cpu, cuda, or cuda: and a number")
    parser.add_argument("--slots", type=int, default=1024, help="scenes that make steps at the same time")
    parser.add_argument("--steps", type=int, default=100, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, the fastest of which counts")
    parser.add_argument("--scenes", type=int, default=8, help="scenes of the city, which slots share")
    parser.add_argument("--town-size", type=float, default=400.0, help="metres")
    args = parser.parse_args(argv)
    backend = open_backend(args.device)

    def make(folder: Path, num_scenes: int) -> None:
        num_frames = args.steps + WARM_STEPS + 40
        make_city(folder, num_scenes=num_scenes, num_frames=num_frames, town_size=args.town_size)

    with tempfile.TemporaryDirectory() as folder:
        bench = TrafficBench.of_city(Path(folder) / "city", args.scenes, make)
    name = torch.cuda.get_device_name(backend.device) if backend.device != "cpu" else "the processor"
    print(f"{args.slots} slots, {args.steps} steps, {args.scenes} scenes, on {name}")
    for title, drives_avs in (("traffic", False), ("simulation", True)):
        seconds, num_moved = bench.measure(backend, args.slots, args.steps, args.rounds, drives_avs=drives_avs)
        scene_steps = args.slots * args.steps
        print(
            f"{title}: {scene_steps / seconds:,.0f} scene-steps/s, {num_moved / seconds:,.0f} agent-steps/s, "
            f"{1e3 * seconds / args.steps:.3f} ms a step, {num_moved / scene_steps:.1f} driven agents a scene"
        )


if __name__ == "__main__":
    main()
