"""Parameters of a synthetic city and their limits."""

from dataclasses import dataclass

from l5kit.data.log_facts import LogFacts
from l5kit.errors import InvalidArgumentError

FRAME_PERIOD_S = 0.1
"""Time between two frames, seconds (10 Hz)."""

FRAME_PERIOD_NS = 100_000_000
"""Time between two frames, nanoseconds."""

MADE_FACTS = LogFacts(step_time_s=FRAME_PERIOD_S)
"""Facts of made logs; their AV is as large as that of the published dataset."""

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
"""Least and greatest value of each parameter."""

_INTEGERS = ("seed", "num_scenes", "num_train_scenes", "num_validate_scenes", "num_frames")


@dataclass(frozen=True)
class CityParams:
    """What a synthetic city holds; every value is checked when the object is made.

    Args:
        seed: decides everything random; the same parameters and seed give the same files.
        num_scenes: scenes of ``scenes/sample.zarr``.
        num_train_scenes: scenes of ``scenes/train.zarr``, which is left out when 0.
        num_validate_scenes: scenes of ``scenes/validate.zarr``, which is left out when 0.
        town_size: side of the square town, metres.
        traffic_density: factor on the number of vehicles, cyclists and pedestrians; 0 leaves only the AV and what
            stands beside the roads, 1 gives about 90 agent rows a frame.
        num_frames: frames per scene, 10 a second.
        aerial_resolution_m: side of a pixel of the aerial picture, metres.
        noise: whether the scenes are those that a tracker perceives, and the true ones stand beside them.

    Raises:
        InvalidArgumentError: if a value has the wrong type or is out of range.
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
