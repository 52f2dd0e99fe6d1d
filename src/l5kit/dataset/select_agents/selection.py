"""Agents mask of a dataset, computed and stored in it."""

from collections.abc import Callable

import numpy as np

from l5kit._types import Int64Array, UInt32Array
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.stored_mask import require_no_mask, write_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask

TABLE_STEPS = (0, 10, 30, 50)
"""Minimum numbers of past and future frames for which the report counts rows."""


def select_agents(
    zarr_dataset: ChunkedDataset,
    th_agent_prob: float,
    th_yaw_degree: float,
    th_extent_ratio: float,
    th_distance_av: float,
    *,
    progress: Callable[[int, int], None] | None = None,
    workers: Workers = 1,
) -> None:
    """Compute the agents mask of a dataset, store it inside the dataset folder and print a report.

    Args:
        zarr_dataset: An opened dataset in a writable folder.
        th_agent_prob: Strict lower bound of the summed probability of the kept classes.
        th_yaw_degree: Strict upper bound of the change of heading between two frames, degrees.
        th_extent_ratio: Strict upper bound of the ratio of areas between two frames.
        th_distance_av: Strict upper bound of the distance to the AV, metres.
        progress: Called with the number of finished scenes and of all scenes.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        FileExistsError: The dataset has a mask for this probability.
        InvalidArgumentError: The dataset is not a folder.
        ReadOnlyDatasetError: The folder is not writable.
    """
    thresholds = MaskThresholds(th_agent_prob, th_yaw_degree, th_extent_ratio, th_distance_av)
    require_no_mask(zarr_dataset, thresholds.probability)
    print(f"computing the agents mask of {zarr_dataset.path} ...")  # noqa: T201 - 1.x prints this report
    mask, report = compute_agents_mask(zarr_dataset, thresholds, progress=progress, workers=workers)
    folder = write_mask(zarr_dataset, thresholds, mask)

    # thresholds, rejections, and the numbers of rows with enough past and future frames
    lines = [f"{name}: {value}" for name, value in thresholds.as_attributes().items()]
    lines += [f"{name}: {count}" for name, count in sorted(report.items())]
    lines.append("rows by least number of past frames (down) and of future frames (across):")
    lines.append("past" + "".join(f"{step:>12}" for step in TABLE_STEPS))
    for step, row in zip(TABLE_STEPS, mask_table(mask), strict=True):
        lines.append(f"{step:>4}" + "".join(f"{count:>12}" for count in row.tolist()))
    print("\n".join(lines))  # noqa: T201
    print(f"agents mask stored in {folder}")  # noqa: T201


def mask_table(mask: UInt32Array) -> Int64Array:
    """Return the number of rows with at least 0, 10, 30, 50 past (axis 0) and future (axis 1) frames, (4, 4)."""
    past, future = mask[:, 0], mask[:, 1]
    return np.array(
        [
            [np.count_nonzero((past >= step) & (future >= future_step)) for future_step in TABLE_STEPS]
            for step in TABLE_STEPS
        ],
        dtype=np.int64,
    )
