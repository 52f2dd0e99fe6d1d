"""Folders of simulations for tests of what shows them: constant velocity drives, and fails in one scene."""

from pathlib import Path

import numpy as np

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_simulation import AgentSeat


class _FaultyInOneScene:
    """Constant velocity, which breaks in a frame of one scene."""

    def __init__(self, scene, frame):
        self.scene, self.frame = scene, frame
        self.driver = ConstantVelocity(30)

    def drive(self, state):
        actions = self.driver.drive(state)
        is_here = (state.scenes[state.actor_scenes] == self.scene) & (
            state.frame_indices[state.actor_scenes] == self.frame
        )
        actions.values[is_here] = np.nan
        return actions


def drive_city(city: Path, out: Path, *, faulty=(1, 30), drives_agents: bool = True) -> Path:
    """Drive all scenes of a synthetic city with constant velocity; the driver fails in one frame of one scene.

    Args:
        city: Folder of the city.
        out: Folder to create.
        faulty: Scene and frame of the failure; None for none.
        drives_agents: Whether agents keep their velocity as well.
    """
    agents = AgentSeat(ConstantVelocity(), control=AgentControl(near_m=30.0, far_m=50.0)) if drives_agents else "replay"
    driver = _FaultyInOneScene(*(faulty or (-1, -1)))
    options = ClosedLoopOptions(start_frame=5, show_bar=False)
    return simulate(city, out, planner=driver, agents=agents, options=options).folder
