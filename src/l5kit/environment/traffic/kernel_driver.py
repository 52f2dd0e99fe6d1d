"""Drivers of vehicles as kernels take them: their parameters, and speeds by the paths of a bank."""

from l5kit.lanes.lane_paths import PathArrays
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.intelligent_driver import AGENT_DRIVER
from l5kit.simulation.lanes.lane_following import Drive
from l5kit.simulation.lanes.path_bends import PathBends


class KernelDriver:
    """A driver of vehicles as kernels take it, on paths to which more may come.

    Args:
        driver: The driver.
        step_time_s: Seconds of a step.
    """

    def __init__(self, driver: IntelligentDriver, step_time_s: float) -> None:
        self._driver, self._step_s = driver, float(step_time_s)
        braking_mps2 = (driver.params or AGENT_DRIVER).max_braking_mps2
        self._bends = PathBends(driver.max_lateral_mps2, braking_mps2)

    @property
    def fixed(self) -> tuple[tuple[float, float, float, float, float], float, float]:
        """How it drives, but for what the paths say."""
        params = self._driver.params or AGENT_DRIVER
        return params.kernel_parameters, float(self._driver.limit_part), self._step_s

    def on(self, paths: PathArrays) -> Drive:
        """Return how it drives on paths, the first of which are those of the last call."""
        return *self.fixed, self._bends.on(paths)
