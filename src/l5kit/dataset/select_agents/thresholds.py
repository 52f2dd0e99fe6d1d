"""Thresholds of the agents mask."""

from dataclasses import dataclass

from l5kit.errors import InvalidArgumentError

TH_YAW_DEGREE = 30
"""Largest change of heading between two frames, in degrees."""

TH_EXTENT_RATIO = 1.1
"""Largest ratio of the areas of a track's box in two frames."""

TH_DISTANCE_AV = 50
"""Largest distance to the AV, in metres."""


@dataclass(frozen=True)
class MaskThresholds:
    """The bounds that an agent row must keep to be valid; all are strict.

    Attributes:
        probability: Lower bound of the summed probability of the kept classes.
        yaw_degree: Upper bound of the change of heading since the frame before, degrees.
        extent_ratio: Upper bound of the ratio of areas since the frame before.
        distance_av_m: Upper bound of the distance to the AV.
    """

    probability: float
    yaw_degree: float = TH_YAW_DEGREE
    extent_ratio: float = TH_EXTENT_RATIO
    distance_av_m: float = TH_DISTANCE_AV

    def __post_init__(self) -> None:
        for name in ("probability", "yaw_degree", "extent_ratio", "distance_av_m"):
            if not isinstance(getattr(self, name), (int, float)):
                raise InvalidArgumentError(f"threshold {name} must be a number, got {getattr(self, name)!r}")

    def as_attributes(self) -> dict[str, float]:
        """Return the thresholds as they are stored beside a mask."""
        return {
            "th_agent_filter_probability_threshold": self.probability,
            "th_yaw_degree": self.yaw_degree,
            "th_extent_ratio": self.extent_ratio,
            "th_distance_av": self.distance_av_m,
        }
