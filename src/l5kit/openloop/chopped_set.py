"""Chopped test sets: their agents and true futures, and predictions written and scored as in the competition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

import numpy as np
import torch

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.csv_utils import read_gt_csv, write_pred_csv
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
from l5kit.evaluation.selection_parity import GROUND_TRUTH_FILE, MASK_FILE, load_mask
from l5kit.geometry.transform import transform_points
from l5kit.workflows.trajectories import Modes


@dataclass(frozen=True)
class ChoppedSet:
    """A test set: a log that ends where the futures of its test agents begin, and these futures.

    Attributes:
        folder: Folder of the test set.
        log: The log in this folder.
        mask: Whether each agent row of the log is a test agent, bool (N,).
        displacements_m: True displacements from the current positions, in metres along the world axes, (n, T, 2).
        is_known: Whether each of these is known, (n, T).
        rows: Index into both arrays by track and time in ns.
    """

    folder: Path
    log: Path
    mask: BoolArray = field(repr=False)
    displacements_m: Float64Array = field(repr=False)
    is_known: BoolArray = field(repr=False)
    rows: Mapping[tuple[int, int], int] = field(repr=False)

    @classmethod
    def read(cls, folder: Path) -> "ChoppedSet":
        """Read the files of a folder.

        Raises:
            InvalidArgumentError: The folder does not hold exactly one ``.zarr``, has no test agent, or a file is
                unreadable.
        """
        logs = sorted(folder.glob("*.zarr"))
        if len(logs) != 1:
            raise InvalidArgumentError(
                f"the test set {folder} must hold one .zarr, it has {len(logs)}; create it again with l5kit chop"
            )
        mask, _ = load_mask(folder)
        if not mask.any():
            raise InvalidArgumentError(f"the test set {folder} has no test agents; chop it with a smaller --min-future")
        truth = list(read_gt_csv(folder / GROUND_TRUTH_FILE))
        if not truth:
            raise InvalidArgumentError(
                f"{folder / GROUND_TRUTH_FILE} has no rows; create the test set again with l5kit chop"
            )
        return cls(
            folder=folder,
            log=logs[0],
            mask=mask,
            displacements_m=np.stack([row["coord"] for row in truth]),
            is_known=np.stack([row["avail"] > 0 for row in truth]),
            rows={(int(row["track_id"]), int(row["timestamp"])): index for index, row in enumerate(truth)},
        )

    @property
    def num_steps(self) -> int:
        """Steps of the true positions."""
        return len(self.displacements_m[0])

    def truth_of(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the true positions of a batch of test agents in their own frames, as samples of a longer log would.

        Args:
            batch: Samples of an ``AgentDataset``, (B, ...).

        Returns:
            ``target_positions`` float32 (B, T, 2) in metres and ``target_availabilities`` bool (B, T).

        Raises:
            InvalidArgumentError: The file of true positions has no row for an agent.
        """
        keys = list(zip(batch["track_id"].tolist(), batch["timestamp"].tolist(), strict=True))
        missing = [
            f"track {track_id} at {timestamp_ns}"
            for track_id, timestamp_ns in keys
            if (track_id, timestamp_ns) not in self.rows
        ]
        if missing:
            raise InvalidArgumentError(
                f"{self.folder / GROUND_TRUTH_FILE} has no row for {missing[0]}, a test agent by {MASK_FILE}; "
                "create the test set again with l5kit chop"
            )
        # The file holds displacements along the world axes, from the current position of the agent.
        rows = [self.rows[key] for key in keys]
        centroids_m = batch["centroid"].cpu().numpy()
        world_m = self.displacements_m[rows] + centroids_m[:, None]
        positions_m = transform_points(world_m, batch["agent_from_world"].cpu().numpy())
        device = batch["centroid"].device
        return {
            "target_positions": torch.from_numpy(positions_m).float().to(device),
            "target_availabilities": torch.from_numpy(self.is_known[rows]).to(device),
        }


_NAMES = {
    "average_displacement_error_oracle": "ade_oracle_unknown_as_zero_m",
    "average_displacement_error_mean": "ade_mean_unknown_as_zero_m",
    "final_displacement_error_oracle": "fde_oracle_unknown_as_zero_m",
    "final_displacement_error_mean": "fde_mean_unknown_as_zero_m",
}
"""Names of metrics whose means count unknown steps as distance 0; elsewhere ADE and FDE average known steps only."""

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
    """Predictions of n test agents, in the layout of the competition files.

    Attributes:
        timestamps_ns: Times, (n,).
        track_ids: Track ids of the agents, (n,).
        displacements_m: Predicted displacements in metres along the world axes, (n, M, T, 2).
        probabilities: Probability of each trajectory, (n, M).
    """

    timestamps_ns: Int64Array
    track_ids: Int64Array
    displacements_m: Float64Array
    probabilities: Float64Array

    @classmethod
    def of_batch(cls, batch: Mapping[str, torch.Tensor], modes: Modes) -> Self:
        """Return the predictions of a batch of agent samples."""
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
        """Return the concatenated predictions of several batches."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    def write(self, path: Path) -> None:
        """Write the predictions with all their modes, by :func:`l5kit.evaluation.csv_utils.write_pred_csv`."""
        num_modes = self.probabilities.shape[1]
        rows = (self.timestamps_ns, self.track_ids, self.displacements_m, self.probabilities)
        write_pred_csv(path, *rows, max_modes=num_modes)


def competition_metrics(truth: Path, predictions: Path, *, num_modes: int) -> dict[str, float | list[float]]:
    """Return the means of all metrics over the rows of two files, by name, as numbers and lists.

    The names are those of the functions in :mod:`l5kit.evaluation.metrics`. The displacement errors are called
    ``ade_oracle_unknown_as_zero_m``, ``ade_mean_unknown_as_zero_m``, ``fde_oracle_unknown_as_zero_m`` and
    ``fde_mean_unknown_as_zero_m`` instead: as in L5Kit 1.5, their means count steps with unknown truth as distance 0.

    Args:
        truth: File of true positions.
        predictions: File of predictions for each row of ``truth``.
        num_modes: Number of modes in the predictions.

    Raises:
        InvalidArgumentError: A row is missing, duplicated, or not in the other file.
    """
    metrics = compute_metrics_csv(truth, predictions, _METRICS, max_modes=num_modes)
    return {_NAMES.get(name, name): np.asarray(value).tolist() for name, value in metrics.items()}
