#!/usr/bin/env python3
"""Measure simulations on a device: scenes with IDM traffic that all make each step at the same time.

Usage: python benchmarks/device_simulation.py [--device cuda] [--slots 1024] [--steps 100] [--scenes 8]

An agent-step is one driven agent that is moved by one frame; replayed ones do not count. ``traffic`` moves road users
only, with AVs of the log; ``simulation`` drives AVs by a bicycle too, and looks for collisions and for corners off the
road in each step. The first steps, which compile, are not measured. Each figure is the best of some rounds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.device.backend import Backend
from l5kit.device.opening import open_backend
from l5kit.environment.device.device_simulation import DeviceModel, DeviceSimulation
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.vehicle_models import KinematicBicycle
from l5kit.synthetic import make_city

WARM_STEPS = 3
"""Steps before a round is measured: kernels are compiled in the first one, memory is taken in the next."""


def make_bank(folder: Path, args: argparse.Namespace) -> SceneBank:
    """Return the scenes of a made city, all of them prepared."""
    num_frames = args.steps + WARM_STEPS + 40
    city = make_city(folder / "city", num_scenes=args.scenes, num_frames=num_frames, town_size=args.town_size)
    files = find_dataset_files(city.path)
    bank = SceneBank(ChunkedDataset(str(files.dataset)).open(), road=RoadMap(open_map(files)), drives_agents=True)
    bank.prepare(np.arange(args.scenes))
    return bank


def measure(make_step: Callable[[], Callable[[], torch.Tensor]], backend: Backend, args: argparse.Namespace) -> tuple:
    """Return seconds of a round of steps, and how many agents were moved in it, of the fastest round."""
    rounds = []
    for _ in range(args.rounds):
        step = make_step()
        for _ in range(WARM_STEPS):
            step()
        num_moved = torch.zeros((), dtype=torch.int64, device=backend.device)
        backend.wait()
        start = time.perf_counter()
        for _ in range(args.steps):
            num_moved += step().sum()
        backend.wait()
        rounds.append((time.perf_counter() - start, int(num_moved)))
    return min(rounds)


def make_simulation(bank: SceneBank, model: DeviceModel | None, backend: Backend, num_slots: int) -> DeviceSimulation:
    """Return scenes at frames from 1 to 30, with IDM traffic."""
    simulation = DeviceSimulation(bank, num_slots, model=model, drives=IntelligentDriver(), backend=backend)
    slots = np.arange(num_slots)
    simulation.reset(bank.scenes[slots % len(bank)], 1 + slots // len(bank) % 30)
    return simulation


def traffic_steps(bank: SceneBank, backend: Backend, num_slots: int) -> Callable[[], Callable[[], torch.Tensor]]:
    """Return what makes a step of road users alone, whose AVs stand where the log has them at first."""

    def make() -> Callable[[], torch.Tensor]:
        simulation = make_simulation(bank, None, backend, num_slots)
        traffic, boxes = simulation.traffic, simulation.boxes
        slots, velocities = traffic.every, torch.zeros((num_slots, 2), dtype=torch.float64, device=backend.device)

        def step() -> torch.Tensor:
            traffic.step(slots, boxes, velocities)
            traffic.enter(slots, boxes)
            return traffic.num_driven

        return step

    return make


def simulation_steps(bank: SceneBank, backend: Backend, num_slots: int) -> Callable[[], Callable[[], torch.Tensor]]:
    """Return what makes a step of whole scenes, whose AVs keep their speed and steering."""

    def make() -> Callable[[], torch.Tensor]:
        simulation = make_simulation(bank, KinematicBicycle(), backend, num_slots)
        actions = torch.zeros((num_slots, 2), dtype=torch.float64, device=backend.device)
        return lambda: simulation.step(actions).num_driven

    return make


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
    with tempfile.TemporaryDirectory() as folder:
        bank = make_bank(Path(folder), args)
    name = torch.cuda.get_device_name(backend.device) if backend.device != "cpu" else "the processor"
    print(f"{args.slots} slots, {args.steps} steps, {args.scenes} scenes, on {name}")
    for title, make_step in (("traffic", traffic_steps), ("simulation", simulation_steps)):
        seconds, num_moved = measure(make_step(bank, backend, args.slots), backend, args)
        scene_steps = args.slots * args.steps
        print(
            f"{title}: {scene_steps / seconds:,.0f} scene-steps/s, {num_moved / seconds:,.0f} agent-steps/s, "
            f"{1e3 * seconds / args.steps:.3f} ms a step, {num_moved / scene_steps:.1f} driven agents a scene"
        )


if __name__ == "__main__":
    main()
