"""Several simulations of the same scenes as the page of the viewer asks for them: an overview, and each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from l5kit._types import JsonObject
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation


@dataclass(frozen=True)
class OverviewScene:
    """A scene that all P planners have driven.

    Attributes:
        scene: Its number in the log.
        places: Its number in each of the simulations, P.
        values: The score of each planner, P; None where it has none.
        failures: What fails with each planner, in few words, P.
        tags: What happens in the scene; nothing where nobody asked.
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
        label: What the values are, such as ``Score``.
        digits: Digits of them that make sense.
        low_is_better: Whether low values are the better ones.
        reference: Which planner others are compared with.
        names: Names of the planners, P.
        means: The mean of each with its interval, as people read it, P.
        verdicts: Whether each is ``better`` or ``worse`` than the reference by more than chance, else empty, P.
        logs: What each has driven, P.
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
        """Return what the page shows."""
        of_planners = zip(self.names, self.means, self.verdicts, strict=True)
        return {
            "label": self.label,
            "digits": self.digits,
            "low_is_better": self.low_is_better,
            "reference": self.reference,
            "planners": [{"name": name, "mean": mean, "verdict": verdict} for name, mean, verdict in of_planners],
            "scenes": [vars(scene) for scene in self.scenes],
        }
