"""Base class of scene edits, their inputs besides the scene, and the error for scenes that an edit does not fit."""

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
    """Inputs of edits besides the arrays of a scene.

    Attributes:
        facts: Facts of the log; edits need the size of the AV.
        map_api: Map of the scene; None without one, so that paths end where the log ends.
        driving_map: Lanes of the map for drivers; None without a map. Built by :meth:`on`.
        seed: Seed of all random choices, at least 0.
    """

    facts: LogFacts = field(default_factory=LogFacts)
    map_api: MapAPI | None = None
    driving_map: DrivingMap | None = None
    seed: int = 0

    @classmethod
    def on(cls, map_api: MapAPI | None, *, facts: LogFacts | None = None, seed: int = 0) -> "SceneSetting":
        """Return the setting for scenes on a map."""
        driving_map = None if map_api is None else build_driving_map(map_api)
        return cls(facts or LogFacts(), map_api, driving_map, seed)

    def require_map(self, edit: "SceneEdit") -> tuple[MapAPI, DrivingMap]:
        """Return map and lanes for an edit that needs them.

        Raises:
            ImpossibleEditError: There is no map with lanes.
        """
        if self.map_api is None or self.driving_map is None or self.driving_map.num_lanes == 0:
            raise ImpossibleEditError(
                f"{type(edit).__name__} needs a semantic map with lanes, but the scene has none; name one (map_path)"
            )
        return self.map_api, self.driving_map


class SceneEdit(ABC):
    """Edit of a scene: a frozen dataclass, whose parameters alone define the edit."""

    @abstractmethod
    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the edited scene; the result depends only on the arguments, which are not changed.

        Args:
            scene: The scene.
            setting: Map, log facts and seed.

        Raises:
            ImpossibleEditError: The edit does not fit the scene.
        """


def require_in_range(edit: SceneEdit, **ranges: tuple[float, float]) -> None:
    """Refuse parameters of an edit outside a range; both ends of the range are allowed.

    NumPy numbers, as from ``np.arange``, are converted to Python numbers, for records and texts of edits.

    Raises:
        InvalidArgumentError: A parameter is outside its range, or not a number.
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
    """Refuse a parameter of an edit that is not one of the allowed words.

    Raises:
        InvalidArgumentError: The word is not allowed.
    """
    value = getattr(edit, name)
    if value not in allowed:
        raise InvalidArgumentError(f"{type(edit).__name__}: {name} must be one of {', '.join(allowed)}, got {value!r}")
