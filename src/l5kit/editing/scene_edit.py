"""What every edit of a scene is, what it knows beside the scene, and how it refuses one that it does not fit."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from l5kit.data.log_facts import LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_arrays import SceneArrays
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import DrivingMap, build_driving_map


class ImpossibleEditError(InvalidArgumentError):
    """An edit does not fit a scene: there is no room, no lane, no light, or the AV does not get there."""


@dataclass(frozen=True, eq=False)
class SceneSetting:
    """What edits know beside the arrays of a scene.

    Attributes:
        facts: Facts of the log; edits need the size of the AV.
        map_api: The map that the scene is on; None where there is none, and paths end where the log ends.
        driving_map: Its lanes as drivers see them; None without a map. :meth:`on` makes it.
        seed: Decides everything that is drawn, at least 0.
    """

    facts: LogFacts = field(default_factory=LogFacts)
    map_api: MapAPI | None = None
    driving_map: DrivingMap | None = None
    seed: int = 0

    @classmethod
    def on(cls, map_api: MapAPI | None, *, facts: LogFacts | None = None, seed: int = 0) -> "SceneSetting":
        """Return the setting of scenes on a map."""
        driving_map = None if map_api is None else build_driving_map(map_api)
        return cls(facts or LogFacts(), map_api, driving_map, seed)

    def require_map(self, edit: "SceneEdit") -> tuple[MapAPI, DrivingMap]:
        """Return map and lanes for an edit that needs them.

        Raises:
            ImpossibleEditError: There are none.
        """
        if self.map_api is None or self.driving_map is None or self.driving_map.num_lanes == 0:
            raise ImpossibleEditError(
                f"{type(edit).__name__} needs a semantic map with lanes, and the scene has none; name one (map_path)"
            )
        return self.map_api, self.driving_map


class SceneEdit(ABC):
    """An edit of a scene, which is a frozen dataclass of its parameters and decides nothing else."""

    @abstractmethod
    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the edited scene; the same arguments give the same scene, and none of them is changed.

        Args:
            scene: The scene.
            setting: What is known beside it.

        Raises:
            ImpossibleEditError: The edit does not fit the scene.
        """


def require_in_range(edit: SceneEdit, **ranges: tuple[float, float]) -> None:
    """Refuse parameters of an edit that are not within a range, both ends of which are allowed.

    Numbers of NumPy, as from ``np.arange``, become those of Python, which records and texts of edits hold.

    Raises:
        InvalidArgumentError: One is outside, or not a number.
    """
    for name, (least, most) in ranges.items():
        value = getattr(edit, name)
        if isinstance(value, (np.integer, np.floating)):
            value = value.item()
            object.__setattr__(edit, name, value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise InvalidArgumentError(
                f"{type(edit).__name__}: {name} must be a number from {least:g} to {most:g}, got {value!r}"
            )


def require_one_of(edit: SceneEdit, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse a parameter of an edit that is none of some words.

    Raises:
        InvalidArgumentError: It is none of them.
    """
    value = getattr(edit, name)
    if value not in allowed:
        raise InvalidArgumentError(f"{type(edit).__name__}: {name} must be one of {', '.join(allowed)}, got {value!r}")
