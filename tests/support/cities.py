"""A small synthetic city for the tests of any package, and synthetic scenes of many seeds."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l5kit._types import Float64Array, RecordArray
from l5kit.synthetic import CityFolder, make_city
from l5kit.synthetic.scene import SceneArrays, Simulation, Town, build_town, record_scene, simulate_scene

NUM_SCENES = 3
NUM_FRAMES = 100
TOWNS = ((1, 500.0, 1.0), (2, 400.0, 1.0), (3, 300.0, 2.0), (4, 760.0, 1.0))
"""Seed, size in metres and traffic density."""
SCENES_PER_TOWN = 6
PERIOD_S = 0.1


def small_city(path: Path) -> CityFolder:
    """Make a town of nine intersections with three scenes of 100 frames in a folder that does not exist yet."""
    return make_city(path, seed=11, num_scenes=NUM_SCENES, num_frames=NUM_FRAMES, town_size=300.0)


@dataclass(frozen=True)
class MadeScene:
    """A scene as it happened and as it was recorded."""

    town: Town
    simulation: Simulation
    arrays: SceneArrays

    def agents_of(self, frame: int) -> RecordArray:
        """Return the agent rows of a frame."""
        return self.arrays.agents[slice(*self.arrays.frames["agent_index_interval"][frame])]

    def boxes_of(self, frame: int) -> Float64Array:
        """Return x, y, yaw, length and width of all agents of a frame, the AV last, (n + 1, 5)."""
        rows = self.agents_of(frame)
        agents = np.column_stack([rows["centroid"], rows["yaw"], rows["extent"][:, :2]])
        return np.concatenate([agents, self.simulation.log.vehicles.box[frame, :1]])


def make_scenes() -> list[MadeScene]:
    """Make scenes in towns of several sizes and densities."""
    scenes = []
    for seed, size_m, density in TOWNS:
        town = build_town(size_m, seed=seed)
        for scene in range(SCENES_PER_TOWN):
            rng = np.random.default_rng([seed, scene])
            simulation = simulate_scene(town, num_frames=248, traffic_density=density, rng=rng)
            arrays = record_scene(town, simulation, start_ns=5_000, rng=rng)
            scenes.append(MadeScene(town, simulation, arrays))
    return scenes
