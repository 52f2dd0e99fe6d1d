"""Scored batches: the little that scores need of predicted ones, made here or by the workers of an engine."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from l5kit._types import Int64Array
from l5kit.data.scene_jobs import KeptWorkers, map_scenes
from l5kit.openloop.csv_predictions import CsvPredictions
from l5kit.openloop.prediction import PredictedBatch, predicted_batches
from l5kit.openloop.setup import OpenLoopSetup
from l5kit.openloop.trajectory_rows import TrajectoryRows, rows_of_batch
from l5kit.workflows.trajectories import Modes, Trajectories


@dataclass(frozen=True)
class ScoredBatch:
    """What is kept of a predicted batch, none of its pictures.

    Attributes:
        num_samples: Samples of the batch.
        trajectories: Likeliest predictions, truth and past.
        modes: All predictions.
        rows: Errors of single trajectories.
        predictions: Lines of the csv file, of a test set.
    """

    num_samples: int
    trajectories: Trajectories
    modes: Modes
    rows: TrajectoryRows
    predictions: CsvPredictions | None

    @classmethod
    def of(cls, setup: OpenLoopSetup, predicted: PredictedBatch) -> "ScoredBatch":
        """Return what is kept of a batch."""
        predictions = None if setup.chopped_set is None else CsvPredictions.of_batch(predicted.batch, predicted.modes)
        rows = rows_of_batch(setup.samples, predicted)
        return cls(len(predicted.indices), predicted.trajectories, predicted.modes, rows, predictions)


def scored_batches(
    setup: OpenLoopSetup, indices: Int64Array, *, workers: Executor | KeptWorkers | Literal[1] = 1
) -> Iterator[ScoredBatch]:
    """Yield the batches of some samples, in their order and with the same bits whoever makes them.

    Args:
        setup: The network and the samples.
        indices: Places of the samples in the dataset, (n,).
        workers: An executor, also with a folder for the parts, or 1 to predict here.

    Raises:
        InvalidArgumentError: A prediction is not finite, or a test set lacks the truth of one of its agents.
        SampleError: A sample cannot be made; the cause is chained.
        WorkerDiedError: A worker has died.
    """
    if not isinstance(workers, Executor | KeptWorkers):
        yield from (ScoredBatch.of(setup, predicted) for predicted in predicted_batches(setup, indices))
        return
    if isinstance(workers, KeptWorkers):
        workers.job.require_same("data", setup.data.as_dict())
    # Workers are sent the indices of the samples of their batches, and not all of them.
    size = setup.loader.batch_size
    batches = range(-(-len(indices) // size))

    def indices_of(batch_indices: Int64Array) -> Int64Array:
        return indices[int(batch_indices[0]) * size : (int(batch_indices[-1]) + 1) * size]

    results = map_scenes(_ScoreBatches(setup), batches, workers, block_size=1, unit="batch", brief=indices_of)
    with closing(results):
        for scored in results:
            yield from scored


@dataclass(frozen=True)
class _ScoreBatches:
    """Predicts and scores batches; their numbers are for messages."""

    setup: OpenLoopSetup

    def __call__(self, batch_indices: Int64Array, indices: Int64Array) -> list[ScoredBatch]:  # noqa: ARG002
        return [ScoredBatch.of(self.setup, predicted) for predicted in predicted_batches(self.setup, indices)]
