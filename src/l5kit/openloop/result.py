"""Results of an open-loop evaluation: scores, and the errors of each trajectory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.data.data_record import DataRecord
from l5kit.evaluation.horizon_scores import HorizonScore
from l5kit.evaluation.selection_parity import SelectionParity
from l5kit.kinematic.baselines import Baseline
from l5kit.openloop.csv_predictions import CsvPredictions
from l5kit.openloop.mode_scores import ModeScore
from l5kit.openloop.trajectory_rows import TrajectoryRows


@dataclass(frozen=True)
class OpenLoopResult:
    """The outcome of an evaluation.

    Attributes:
        checkpoint: File of the weights.
        workflow: What was trained.
        log: Where the samples are from.
        data: Record of the log, or of the folder of the test set.
        configuration: The configuration of the network, with the log as ``val_data_loader``.
        is_test_set: Whether they are the test agents of a chopped dataset.
        num_samples: Samples that were predicted.
        num_samples_of_log: Samples that there are.
        network: Mean errors of the likeliest trajectories, one for each horizon.
        baselines: The same of the kinematic baselines; nothing if no past was known.
        modes: Metrics of all trajectories; None for networks with one.
        rows: The errors of each trajectory.
        selection: How agents were selected for the training and here; None for workflows that do not select.
        predictions: Of a test set, else None.
        competition: Metrics of the files of a test set by the names of
            :func:`l5kit.openloop.csv_predictions.competition_metrics`, numbers or lists; empty otherwise.
        device: What the network ran on.
        duration_s: Seconds that this took.
        samples_per_s: Samples that were made and predicted in a second.
    """

    checkpoint: Path
    workflow: str
    log: Path
    data: DataRecord
    configuration: JsonObject = field(repr=False)
    is_test_set: bool
    num_samples: int
    num_samples_of_log: int
    network: tuple[HorizonScore, ...]
    baselines: Mapping[Baseline, tuple[HorizonScore, ...]]
    modes: tuple[ModeScore, ...] | None
    rows: TrajectoryRows = field(repr=False)
    selection: SelectionParity | None
    predictions: CsvPredictions | None = field(repr=False)
    competition: Mapping[str, float | list[float]]
    device: str
    duration_s: float
    samples_per_s: float

    def __repr__(self) -> str:
        last = self.network[-1]
        return (
            f"<OpenLoopResult of {str(self.checkpoint)!r} on {str(self.log)!r}: {self.num_samples} of "
            f"{self.num_samples_of_log} samples, ADE {last.ade_m:.3f} m and FDE {last.fde_m:.3f} m in "
            f"{last.horizon_s:g} s>"
        )
