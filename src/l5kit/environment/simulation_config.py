"""Simulation configuration of environments: how many frames an episode has, and who moves."""

from dataclasses import dataclass

from l5kit.simulation.dataset import SimulationConfig


@dataclass
class SimulationConfigGym(SimulationConfig):
    """What is simulated in an episode: of its frames the first tells the speed, and actions begin in the second.

    Attributes:
        num_simulation_steps: Number of frames; None for all of the scene. An episode has two steps less.
    """

    use_agents_gt: bool = True
    num_simulation_steps: int | None = 33
