"""Predictions of a test set, written and scored as in the competition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.csv_utils import write_pred_csv
from l5kit.evaluation.extract_ground_truth import world_displacements
from l5kit.evaluation.extract_metrics import compute_metrics_csv
from l5kit.evaluation.metrics import (
    average_displacement_error_mean,
    average_displacement_error_oracle,
    final_displacement_error_mean,
    final_displacement_error_oracle,
    miss_rate,
    neg_multi_log_likelihood,
    prob_true_mode,
    rmse,
    time_displace,
)
from l5kit.workflows.trajectories import Modes

_NAMES = {
    "average_displacement_error_oracle": "ade_oracle_unknown_as_zero_m",
    "average_displacement_error_mean": "ade_mean_unknown_as_zero_m",
    "final_displacement_error_oracle": "fde_oracle_unknown_as_zero_m",
    "final_displacement_error_mean": "fde_mean_unknown_as_zero_m",
}
"""Names of what counts unknown steps as distance 0 in its means; ADE and FDE are over known steps everywhere else."""

_METRICS = (
    neg_multi_log_likelihood,
    rmse,
    prob_true_mode,
    time_displace,
    average_displacement_error_oracle,
    average_displacement_error_mean,
    final_displacement_error_oracle,
    final_displacement_error_mean,
    miss_rate,
)


@dataclass(frozen=True)
class CsvPredictions:
    """Predictions of n test agents, as the files of the competition have them.

    Attributes:
        timestamps_ns: Times, (n,).
        track_ids: Agents, (n,).
        displacements_m: Metres from where they are, along the axes of the world, (n, M, T, 2).
        probabilities: How likely each trajectory is, (n, M).
    """

    timestamps_ns: Int64Array
    track_ids: Int64Array
    displacements_m: Float64Array
    probabilities: Float64Array

    @classmethod
    def of_batch(cls, batch: Mapping[str, torch.Tensor], modes: Modes) -> Self:
        """Return the predictions of a batch of samples of agents."""
        timestamps_ns, track_ids, poses, centroids_m = (
            batch[key].cpu().numpy() for key in ("timestamp", "track_id", "world_from_agent", "centroid")
        )
        positions_m = modes.predicted_m.double().cpu().numpy()
        return cls(
            timestamps_ns,
            track_ids,
            world_displacements(positions_m, poses, centroids_m),
            modes.probabilities.double().cpu().numpy(),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the predictions of several batches, one after the other."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    def write(self, path: Path) -> None:
        """Write them with :func:`l5kit.evaluation.csv_utils.write_pred_csv`, as many modes as there are."""
        num_modes = self.probabilities.shape[1]
        rows = (self.timestamps_ns, self.track_ids, self.displacements_m, self.probabilities)
        write_pred_csv(path, *rows, max_modes=num_modes)


def competition_metrics(truth: Path, predictions: Path, *, num_modes: int) -> dict[str, float | list[float]]:
    """Return the means of all metrics over the rows of two files, by name, as numbers and lists.

    The names are those of the functions in :mod:`l5kit.evaluation.metrics`, but ``ade_oracle_unknown_as_zero_m``,
    ``ade_mean_unknown_as_zero_m``, ``fde_oracle_unknown_as_zero_m`` and ``fde_mean_unknown_as_zero_m`` for the
    displacement errors: as in L5Kit 1.5, their means count steps whose truth is not known as distance 0.

    Args:
        truth: File of true positions.
        predictions: File of predictions for each of its rows.
        num_modes: Modes in it.

    Raises:
        InvalidArgumentError: A row is missing, twice there, or not in the other file.
    """
    metrics = compute_metrics_csv(truth, predictions, _METRICS, max_modes=num_modes)
    return {_NAMES.get(name, name): np.asarray(value).tolist() for name, value in metrics.items()}
