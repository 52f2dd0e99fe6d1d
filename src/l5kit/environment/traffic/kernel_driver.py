"""Drivers of vehicles as kernels take them: their parameters, and speeds by the paths of a bank."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.lanes.lane_paths import PathArrays, write_highest_speeds
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.intelligent_driver import AGENT_DRIVER
from l5kit.simulation.lanes.lane_following import Drive


class KernelDriver:
    """A driver of vehicles as kernels take it, on paths to which more may come.

    Args:
        driver: The driver.
        step_time_s: Seconds of a step.
    """

    def __init__(self, driver: IntelligentDriver, step_time_s: float) -> None:
        self._driver, self._step_s = driver, float(step_time_s)
        self._bends_mps: Float64Array = np.empty(0)
        self._num_bent = 0

    @property
    def fixed(self) -> tuple[tuple[float, float, float, float, float], float, float]:
        """How it drives, but for what the paths say."""
        params = self._driver.params or AGENT_DRIVER
        return params.kernel_parameters, float(self._driver.limit_part), self._step_s

    def on(self, paths: PathArrays) -> Drive:
        """Return how it drives on paths, the first of which are those of the last call."""
        lateral_mps2 = self._driver.max_lateral_mps2
        num_paths = len(paths.lengths_m)
        if lateral_mps2 is not None and self._num_bent < num_paths:
            known, self._bends_mps = self._bends_mps, np.empty(len(paths.points_m))
            self._bends_mps[: len(known)] = known
            new = slice(self._num_bent, None)
            of_new = paths._replace(
                starts=paths.starts[new], lengths_m=paths.lengths_m[new], piece_starts=paths.piece_starts[new]
            )
            braking_mps2 = float((self._driver.params or AGENT_DRIVER).max_braking_mps2)
            write_highest_speeds(of_new, float(lateral_mps2), braking_mps2, False, self._bends_mps)
            self._num_bent = num_paths
        return *self.fixed, self._bends_mps
