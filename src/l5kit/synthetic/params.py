"""Parameters of a synthetic city and their limits."""

from dataclasses import dataclass

from l5kit.data.log_facts import LogFacts
from l5kit.errors import InvalidArgumentError

FRAME_PERIOD_S = 0.1
"""Time between two frames, seconds (10 Hz)."""

FRAME_PERIOD_NS = 100_000_000
"""Time between two frames, nanoseconds."""

MADE_FACTS = LogFacts(step_time_s=FRAME_PERIOD_S)
"""Facts of synthetic logs, whose AV has the size of that of the published dataset."""

LIMITS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**63 - 1),
    "num_scenes": (1, 1_000_000),
    "num_train_scenes": (0, 1_000_000),
    "num_validate_scenes": (0, 1_000_000),
    "town_size": (250.0, 5000.0),
    "traffic_density": (0.0, 2.0),
    "num_frames": (1, 100_000),
    "aerial_resolution_m": (0.1, 2.0),
}
"""Smallest and largest value of each parameter."""

_INTEGERS = ("seed", "num_scenes", "num_train_scenes", "num_validate_scenes", "num_frames")


@dataclass(frozen=True)
class CityParams:
    """Contents of a synthetic city; all values are checked at construction.

    Args:
        seed: Random seed; the same parameters and seed give the same files.
        num_scenes: Scenes of ``scenes/sample.zarr``.
        num_train_scenes: Scenes of ``scenes/train.zarr``; 0 for none.
        num_validate_scenes: Scenes of ``scenes/validate.zarr``; 0 for none.
        town_size: Side of the square town, metres.
        traffic_density: Factor on the number of vehicles, cyclists and pedestrians; 0 leaves only the AV and stationary
            objects beside the roads, 1 gives about 90 agent rows per frame.
        num_frames: Frames per scene, at 10 Hz.
        aerial_resolution_m: Side of a pixel of the aerial picture, metres.
        noise: Whether the scenes are those perceived by a tracker, with the true ones next to them.

    Raises:
        InvalidArgumentError: A value has the wrong type or is out of range.
    """

    seed: int = 0
    num_scenes: int = 10
    num_train_scenes: int = 0
    num_validate_scenes: int = 0
    town_size: float = 750.0
    traffic_density: float = 1.0
    num_frames: int = 248
    aerial_resolution_m: float = 0.5
    noise: bool = False

    def __post_init__(self) -> None:
        """Check every field against its limits."""
        for name, (lowest, highest) in LIMITS.items():
            value = getattr(self, name)
            kind, method = ("an integer", "__index__") if name in _INTEGERS else ("a number", "__float__")
            if isinstance(value, bool) or not hasattr(value, method) or not lowest <= value <= highest:
                raise InvalidArgumentError(f"{name} must be {kind} from {lowest} to {highest}, got {value!r}")
        if not isinstance(self.noise, bool):
            raise InvalidArgumentError(f"noise must be True or False, got {self.noise!r}")
