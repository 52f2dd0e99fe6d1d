"""Bends of paths: how fast a driver may be at each point, on paths to which more may come."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.lanes.lane_paths import PathArrays, write_highest_speeds


class PathBends:
    """Speeds in bends for one driver, each path looked at once.

    Args:
        lateral_mps2: Acceleration across in bends, above 0; None where bends do not matter.
        braking_mps2: How hard the driver brakes before a bend, above 0.
    """

    def __init__(self, lateral_mps2: float | None, braking_mps2: float) -> None:
        self._lateral_mps2, self._braking_mps2 = lateral_mps2, float(braking_mps2)
        self._bends_mps: Float64Array = np.empty(0)
        self._num_bent = 0

    def on(self, paths: PathArrays) -> Float64Array:
        """Return how fast the driver may be at each point of paths, (P,); of length 0 where bends do not matter.

        Args:
            paths: The paths, the first of which are those of the last call.
        """
        num_paths = len(paths.lengths_m)
        if self._lateral_mps2 is not None and self._num_bent < num_paths:
            known, self._bends_mps = self._bends_mps, np.empty(len(paths.points_m))
            self._bends_mps[: len(known)] = known
            new = slice(self._num_bent, None)
            of_new = paths._replace(
                starts=paths.starts[new], lengths_m=paths.lengths_m[new], piece_starts=paths.piece_starts[new]
            )
            write_highest_speeds(of_new, float(self._lateral_mps2), self._braking_mps2, False, self._bends_mps)
            self._num_bent = num_paths
        return self._bends_mps
