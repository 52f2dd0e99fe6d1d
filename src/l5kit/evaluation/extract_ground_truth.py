"""True positions of agents, extracted from a dataset into a csv file."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import Float64Array, Int64Array, JsonObject, NumericArray, Sample
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.evaluation.csv_utils import write_gt_csv
from l5kit.geometry.transform import transform_points

if TYPE_CHECKING:
    from l5kit.dataset.agent import AgentDataset

_BATCH_SIZE = 1024


def export_zarr_to_csv(
    zarr_dataset: ChunkedDataset,
    csv_file_path: str | os.PathLike[str],
    future_num_frames: int,
    filter_agents_threshold: float,
    step_time: float = 0.1,
    agents_mask: NumericArray | None = None,
    *,
    strict_mask: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: Workers = 1,
) -> None:
    """Write the true future positions of agents: metres relative to their current position, along world axes.

    Args:
        zarr_dataset: An opened dataset.
        csv_file_path: The file, replaced if it exists; see :func:`l5kit.evaluation.csv_utils.write_gt_csv`.
        future_num_frames: Number of future steps.
        filter_agents_threshold: Minimum summed probability of the classes of road users.
        step_time: Seconds between two frames.
        agents_mask: The agent rows to use, bool (N,); None for those that :class:`AgentDataset` selects. Rows that do
            not pass the label filter are left out, and counted in a ``RuntimeWarning``.
        strict_mask: Use all rows of ``agents_mask``: one that does not pass the label filter is a ``SampleError``.
        progress: Called with the number of finished agents and the total.
        workers: Number of threads that extract positions, or an executor; the file is the same. See
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        InvalidArgumentError: ``agents_mask`` has another type or shape.
        SampleError: The future of an agent cannot be read; the cause is chained.
    """
    # agents need no past; the raster is never drawn but required by datasets
    cfg: JsonObject = {
        "raster_params": {
            "raster_size": [100, 100],
            "pixel_size": [0.25, 0.25],
            "ego_center": [0.5, 0.5],
            "set_origin_to_bottom": True,
            "map_type": "stub_debug",
            "filter_agents_threshold": filter_agents_threshold,
            "disable_traffic_light_faces": True,
        },
        "model_params": {
            "history_num_frames": 0,
            "future_num_frames": future_num_frames,
            "step_time": step_time,
            "render_ego_history": True,
        },
    }
    from l5kit.dataset.agent import AgentDataset  # imported here, as it imports torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a custom agents_mask is used", category=RuntimeWarning)
        dataset = AgentDataset(cfg, zarr_dataset, None, agents_mask=agents_mask, strict_mask=strict_mask)

    job, num_done = _FuturesOfBatches(dataset, _BATCH_SIZE), 0
    num_batches = -(-len(dataset) // job.batch_size)
    batches: list[tuple[NumericArray, ...]] = []
    with map_scenes(job, range(num_batches), workers, block_size=1, unit="batch") as parts:
        for batch in (batch for part in parts for batch in part):
            batches.append(batch)
            num_done += len(batch[0])
            if progress is not None:
                progress(num_done, len(dataset))
    if not batches:
        no_rows, shape = np.zeros(0, np.int64), (0, future_num_frames)
        batches = [(no_rows, no_rows, np.zeros((*shape, 2)), np.zeros(shape))]
    columns = [np.concatenate(column) for column in zip(*batches, strict=True)]
    write_gt_csv(csv_file_path, *columns)


def world_displacements(
    positions: NumericArray, world_from_agents: Float64Array, centroids: Float64Array
) -> Float64Array:
    """Return positions in the frame of csv files: metres relative to the centroid, along the axes of the world.

    Args:
        positions: Positions in the frames of their agents, (n, T, 2) or (n, M, T, 2), metres.
        world_from_agents: Poses of the agents, (n, 3, 3), key ``world_from_agent`` of samples.
        centroids: World positions of the agents in metres, (n, 2), key ``centroid`` of samples.

    Returns:
        Displacements, float64, shaped like ``positions``.
    """
    flat = positions.reshape(len(positions), int(np.prod(positions.shape[1:-1])), 2)
    displacements = transform_points(flat, world_from_agents) - centroids[:, None]
    return np.asarray(displacements, np.float64).reshape(positions.shape)


@dataclass(frozen=True)
class _FuturesOfBatches:
    """Job that returns times, tracks, displacements and availabilities of batches of agents, by batch index."""

    dataset: "AgentDataset"
    batch_size: int

    def __call__(self, batches: Int64Array) -> list[tuple[NumericArray, ...]]:
        futures: list[tuple[NumericArray, ...]] = []
        for start in (batches * self.batch_size).tolist():
            samples = self.dataset.__getitems__(range(start, min(start + self.batch_size, len(self.dataset))))
            positions, poses = _stack(samples, "target_positions"), _stack(samples, "world_from_agent")
            futures.append(
                (
                    _stack(samples, "timestamp"),
                    _stack(samples, "track_id"),
                    world_displacements(positions, poses, _stack(samples, "centroid")),
                    _stack(samples, "target_availabilities"),
                )
            )
        return futures


def _stack(samples: list[Sample], key: str) -> NumericArray:
    return np.stack([sample[key] for sample in samples])
