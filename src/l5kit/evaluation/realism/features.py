"""Features of traffic whose distributions are compared: names, units, ranges and bins."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError

CELLS_PER_BIN = 20
"""Each bin is cut into so many cells; Wasserstein distances are computed from these."""


@dataclass(frozen=True)
class Feature:
    """What is counted of each subject in each frame, and into which bins.

    Attributes:
        name: The attribute of :class:`~l5kit.evaluation.realism.traffic_values.TrafficValues` that holds it.
        unit: Of the values, and so of Wasserstein distances.
        lowest: Values below it count as it.
        highest: Values above it count as it.
        num_bins: Bins of equal width between the two, for the Jensen-Shannon distance.

    Raises:
        InvalidArgumentError: The range is empty, or there are no bins.
    """

    name: str
    unit: str
    lowest: float
    highest: float
    num_bins: int

    def __post_init__(self) -> None:
        if not (self.lowest < self.highest and self.num_bins > 0):
            raise InvalidArgumentError(
                f"Feature {self.name}: lowest must be below highest and num_bins above 0, got {self.lowest}, "
                f"{self.highest} and {self.num_bins}"
            )

    @property
    def num_cells(self) -> int:
        """Cells of all bins."""
        return self.num_bins * CELLS_PER_BIN

    @property
    def cell_width(self) -> float:
        """In the unit of the feature."""
        return (self.highest - self.lowest) / self.num_cells

    def cells_of(self, values: Float64Array) -> Int64Array:
        """Return the cell of each value, none of them NaN, any shape."""
        inside = np.clip(values, self.lowest, self.highest)
        cells: Int64Array = np.floor((inside - self.lowest) / self.cell_width).astype(np.int64)
        return np.minimum(cells, self.num_cells - 1)


FEATURES = (
    Feature("speeds_mps", "m/s", 0.0, 40.0, 80),
    Feature("accelerations_mps2", "m/s²", -10.0, 10.0, 80),
    Feature("yaw_rates_radps", "rad/s", -1.0, 1.0, 80),
    Feature("nearest_gaps_m", "m", 0.0, 40.0, 80),
    Feature("times_to_collision_s", "s", 0.0, 5.0, 50),
    Feature("road_edge_distances_m", "m", -10.0, 10.0, 80),
)
"""All features, in the order of tables."""
