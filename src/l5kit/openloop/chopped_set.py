"""The test agents of a chopped dataset, and where they go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from l5kit._types import BoolArray, Float64Array
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.csv_utils import read_gt_csv
from l5kit.evaluation.selection_parity import GROUND_TRUTH_FILE, MASK_FILE, MASK_KEY, describe_test_set
from l5kit.geometry.transform import transform_points


@dataclass(frozen=True)
class ChoppedSet:
    """A test set: a log that ends where the futures of its test agents begin, and these futures.

    Attributes:
        folder: Where it is.
        log: The log in it.
        mask: Which agent rows of the log are test agents, bool (N,).
        displacements_m: Where they go: metres from where they are, along the axes of the world, (n, T, 2).
        is_known: Where that is known, (n, T).
        rows: Place in both by track and time in ns.
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
            InvalidArgumentError: There is not one ``.zarr``, no test agent, or a file cannot be read.
        """
        logs = sorted(folder.glob("*.zarr"))
        if len(logs) != 1:
            raise InvalidArgumentError(f"the test set {folder} must hold one .zarr, it has {len(logs)}; chop it anew")
        if describe_test_set(folder)["test_agents"] == 0:
            raise InvalidArgumentError(f"the test set {folder} has no test agents; chop it with a smaller --min-future")
        with np.load(folder / MASK_FILE) as arrays:
            mask = arrays[MASK_KEY]
        truth = list(read_gt_csv(folder / GROUND_TRUTH_FILE))
        if not truth:
            raise InvalidArgumentError(f"{folder / GROUND_TRUTH_FILE} has no rows; chop the test set anew")
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
        """Return the true positions of a batch of test agents in their frames, as samples of a longer log have them.

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
                "chop the test set anew"
            )
        # The file has displacements along the axes of the world, from where an agent is.
        rows = [self.rows[key] for key in keys]
        centroids_m = batch["centroid"].cpu().numpy()
        world_m = self.displacements_m[rows] + centroids_m[:, None]
        positions_m = transform_points(world_m, batch["agent_from_world"].cpu().numpy())
        device = batch["centroid"].device
        return {
            "target_positions": torch.from_numpy(positions_m).float().to(device),
            "target_availabilities": torch.from_numpy(self.is_known[rows]).to(device),
        }
