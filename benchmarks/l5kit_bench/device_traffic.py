"""Row of traffic on a device: scenes whose road users step together."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.device.backend import Backend
from l5kit.environment.slots.slot_simulation import SlotSimulation
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.vehicle_models import KinematicBicycle

__all__ = ["TrafficBench"]

WARM_STEPS: Final = 3
"""Warm-up steps of a round: the first one compiles kernels, the next one allocates memory."""

_FIRST_FRAMES: Final = 30
"""Scenes start at frames from 1 to this one, so that they differ."""


@dataclass(frozen=True)
class TrafficBench:
    """Scenes of a synthetic city, prepared for stepping.

    Attributes:
        bank: The scenes.
    """

    bank: SceneBank

    @classmethod
    def of_city(cls, folder: Path, num_scenes: int, make_city: Callable[[Path, int], None]) -> "TrafficBench":
        """Return the scenes of a city that is generated in a folder."""
        make_city(folder, num_scenes)
        files = find_dataset_files(folder)
        log = ChunkedDataset(str(files.dataset)).open()
        road_map = open_map(files)
        bank = SceneBank(log, road=None if road_map is None else RoadMap(road_map), drives_agents=True)
        bank.prepare(np.arange(len(log.scenes)))
        return cls(bank)

    def measure(
        self, backend: Backend, num_slots: int, num_steps: int, num_rounds: int, *, drives_avs: bool = False
    ) -> tuple[float, int]:
        """Return the seconds of the fastest round of steps, and how many agents were driven in it by one frame each.

        Replayed agents do not count.

        Args:
            backend: The device.
            num_slots: Scenes that make steps at the same time.
            num_steps: Steps of a round.
            num_rounds: Rounds.
            drives_avs: Whether AVs are driven by a bicycle, and faults are looked for in each step; else they stand
                where the log has them at first.
        """
        rounds = []
        for _ in range(num_rounds):
            step = self._steps_of_all(backend, num_slots) if drives_avs else self._steps_of_traffic(backend, num_slots)
            for _ in range(WARM_STEPS):
                step()
            num_moved = torch.zeros((), dtype=torch.int64, device=backend.device)
            backend.wait()
            start = time.perf_counter()
            for _ in range(num_steps):
                num_moved += step().sum()
            backend.wait()
            rounds.append((time.perf_counter() - start, int(num_moved)))
        return min(rounds)

    def _simulation(self, model: KinematicBicycle | None, backend: Backend, num_slots: int) -> SlotSimulation:
        simulation = SlotSimulation(self.bank, num_slots, model=model, drives=IntelligentDriver(), backend=backend)
        slots = np.arange(num_slots)
        simulation.reset(self.bank.scenes[slots % len(self.bank)], 1 + slots // len(self.bank) % _FIRST_FRAMES)
        return simulation

    def _steps_of_traffic(self, backend: Backend, num_slots: int) -> Callable[[], torch.Tensor]:
        """Return a step function of road users alone."""
        simulation = self._simulation(None, backend, num_slots)
        traffic, boxes = simulation.traffic, simulation.boxes
        slots = torch.arange(num_slots, device=backend.device)
        velocities = torch.zeros((num_slots, 2), dtype=torch.float64, device=backend.device)

        def step() -> torch.Tensor:
            traffic.step(slots, boxes, velocities)
            traffic.enter(slots, boxes)
            return backend.tensor(traffic.current.num_driven)

        return step

    def _steps_of_all(self, backend: Backend, num_slots: int) -> Callable[[], torch.Tensor]:
        """Return a step function of whole scenes, whose AVs keep their speed and steering."""
        simulation = self._simulation(KinematicBicycle(), backend, num_slots)
        actions = torch.zeros((num_slots, 2), dtype=torch.float64, device=backend.device)
        return lambda: simulation.step(actions).num_driven
