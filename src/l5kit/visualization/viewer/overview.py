"""Overview of several simulations of the same scenes, with the data that its page requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from l5kit._types import JsonObject
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation


@dataclass(frozen=True)
class OverviewScene:
    """A scene that all P planners have driven.

    Attributes:
        scene: Index in the log.
        places: Index in each simulation, P.
        values: Score of each planner, P; None if it has none.
        failures: Short description of the failures of each planner, P.
        tags: Tags of the scene; empty if they were not requested.
    """

    scene: int
    places: Sequence[int]
    values: Sequence[float | None]
    failures: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True)
class Overview:
    """P planners in columns, scenes in rows.

    Attributes:
        label: Name of the values, such as ``Score``.
        digits: Decimal places of the values.
        low_is_better: Whether lower values are better.
        reference: Index of the planner that others are compared with.
        names: Names of the planners, P.
        means: Mean of each planner with its interval, as text, P.
        verdicts: ``better`` or ``worse`` for planners that differ significantly from the reference, else empty, P.
        logs: Simulation of each planner, P.
        scenes: The scenes.
    """

    label: str
    digits: int
    low_is_better: bool
    reference: int
    names: Sequence[str]
    means: Sequence[str]
    verdicts: Sequence[str]
    logs: Sequence[ViewedSimulation]
    scenes: Sequence[OverviewScene]

    def as_json(self) -> JsonObject:
        """Return the data of the page."""
        of_planners = zip(self.names, self.means, self.verdicts, strict=True)
        return {
            "label": self.label,
            "digits": self.digits,
            "low_is_better": self.low_is_better,
            "reference": self.reference,
            "planners": [{"name": name, "mean": mean, "verdict": verdict} for name, mean, verdict in of_planners],
            "scenes": [vars(scene) for scene in self.scenes],
        }
