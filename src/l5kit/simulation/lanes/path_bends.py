"""Bends of paths: highest speed of a driver at each point, computed incrementally as paths are added."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.lanes.lane_paths import PathArrays, write_highest_speeds


class PathBends:
    """Cached speeds in bends for one driver.

    Args:
        lateral_mps2: Lateral acceleration in bends, above 0; None to ignore bends.
        braking_mps2: Braking before a bend, above 0.
    """

    def __init__(self, lateral_mps2: float | None, braking_mps2: float) -> None:
        self._lateral_mps2, self._braking_mps2 = lateral_mps2, float(braking_mps2)
        self._bends_mps: Float64Array = np.empty(0)
        self._num_bent = 0

    def on(self, paths: PathArrays) -> Float64Array:
        """Return the highest speed at each point of paths, (P,); of length 0 if bends are ignored.

        Args:
            paths: The paths, starting with those of the last call.
        """
        num_paths = len(paths.lengths_m)
        if self._lateral_mps2 is not None and self._num_bent < num_paths:
            known, self._bends_mps = self._bends_mps, np.empty(len(paths.points_m))
            self._bends_mps[: len(known)] = known
            new = slice(self._num_bent, None)
            new_paths = paths._replace(
                starts=paths.starts[new], lengths_m=paths.lengths_m[new], piece_starts=paths.piece_starts[new]
            )
            write_highest_speeds(new_paths, float(self._lateral_mps2), self._braking_mps2, False, self._bends_mps)
            self._num_bent = num_paths
        return self._bends_mps
