"""Scores of a network on a log, accumulated from batches predicted in this process or by workers."""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from l5kit._types import Int64Array
from l5kit.configs.parameters import read_filter_agents_threshold
from l5kit.data.jobs.scene_jobs import KeptWorkers, map_scenes
from l5kit.data.progress import show_progress
from l5kit.dataset.agent import AgentDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.selection_parity import Selection, SelectionParity, check_selection_parity, compare_selections
from l5kit.openloop.chopped_set import CsvPredictions
from l5kit.openloop.files import OpenLoopResult
from l5kit.openloop.prediction import ModeScores, PredictedBatch, TrajectoryRows, predicted_batches, rows_of_batch
from l5kit.openloop.setup import OpenLoopOptions, OpenLoopSetup
from l5kit.workflows.samples import spread_indices
from l5kit.workflows.trajectories import Modes, Trajectories, TrajectoryScores


@dataclass(frozen=True)
class ScoredBatch:
    """Results of a predicted batch that are kept, without its rasters.

    Attributes:
        num_samples: Samples of the batch.
        trajectories: Likeliest predictions, truth and past.
        modes: All predictions.
        rows: Errors of single trajectories.
        predictions: Rows of the CSV file, for a test set.
    """

    num_samples: int
    trajectories: Trajectories
    modes: Modes
    rows: TrajectoryRows
    predictions: CsvPredictions | None

    @classmethod
    def of(cls, setup: OpenLoopSetup, predicted: PredictedBatch) -> "ScoredBatch":
        """Return the results of a batch that are kept."""
        predictions = None if setup.chopped_set is None else CsvPredictions.of_batch(predicted.batch, predicted.modes)
        rows = rows_of_batch(setup.samples, predicted)
        return cls(len(predicted.indices), predicted.trajectories, predicted.modes, rows, predictions)


def scored_batches(
    setup: OpenLoopSetup, indices: Int64Array, *, workers: Executor | KeptWorkers | Literal[1] = 1
) -> Iterator[ScoredBatch]:
    """Yield the batches of some samples in order, bit-identical for any workers.

    Args:
        setup: The network and the samples.
        indices: Indices of the samples in the dataset, (n,).
        workers: An executor, optionally with a folder for the parts, or 1 to predict in this process.

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
    # Workers get only the sample indices of their own batches.
    size = setup.loader.batch_size
    batches = range(-(-len(indices) // size))
    results = map_scenes(
        partial(_score_batches, setup),
        batches,
        workers,
        block_size=1,
        unit="batch",
        brief=lambda chosen: indices[int(chosen[0]) * size : (int(chosen[-1]) + 1) * size],
    )
    with closing(results):
        for scored in results:
            yield from scored


def _score_batches(setup: OpenLoopSetup, _: Int64Array, indices: Int64Array) -> list[ScoredBatch]:
    """Return scored batches of samples; the batch numbers only serve the messages of the caller."""
    return [ScoredBatch.of(setup, predicted) for predicted in predicted_batches(setup, indices)]


def score(setup: OpenLoopSetup, options: OpenLoopOptions) -> OpenLoopResult:
    """Predict the samples and return the scores, except for the file-based metrics of a test set.

    A ``RuntimeWarning`` is given if agents were selected differently than for the training.

    Args:
        setup: The network and the samples.
        options: Options of the evaluation.

    Raises:
        InvalidArgumentError: A horizon is no multiple of the step or beyond the predictions, ``max_samples`` would skip
            agents of a test set, or a prediction is not finite.
        SampleError: A sample cannot be made; the cause is chained.
    """
    start_s = time.perf_counter()
    params, horizons_s = setup.config.params, _horizons_s(setup, options.horizons_s)
    step_time_s = params.step_time_s
    num_samples, most = len(setup.samples), options.max_samples
    if setup.chopped_set is not None and most is not None and most < num_samples:
        raise InvalidArgumentError(
            f"max_samples is {most}, but all {num_samples} agents of a test set have to be predicted; leave it out"
        )
    indices = spread_indices(num_samples, most)
    selection = _compare_selection(setup)
    predicting_s = time.perf_counter()

    # only sums and small rows are kept of the batches
    scores = TrajectoryScores(horizons_s, step_time_s=step_time_s, past_step_time_s=params.past_step_time_s)
    mode_scores: ModeScores | None = None
    rows: list[TrajectoryRows] = []
    predictions: list[CsvPredictions] = []
    num_done = 0
    with show_progress("Predicting", visible=options.show_bar) as progress:
        for batch in scored_batches(setup, indices, workers=options.workers):
            scores.add(batch.trajectories)
            num_modes = batch.modes.probabilities.shape[1]
            if num_modes > 1:
                mode_scores = mode_scores or ModeScores(horizons_s, num_modes=num_modes, step_time_s=step_time_s)
                mode_scores.add(batch.trajectories, batch.modes)
            rows.append(batch.rows)
            if batch.predictions is not None:
                predictions.append(batch.predictions)
            num_done += batch.num_samples
            progress(num_done, len(indices))
    end_s = time.perf_counter()
    network, baselines = scores.mean_errors()
    return OpenLoopResult(
        checkpoint=setup.checkpoint,
        workflow=params.workflow,
        log=setup.log,
        data=setup.data,
        configuration=dict(setup.config.mapping),
        is_test_set=setup.chopped_set is not None,
        num_samples=len(indices),
        num_samples_of_log=num_samples,
        network=network,
        baselines=baselines,
        modes=mode_scores.scores() if mode_scores else None,
        rows=TrajectoryRows.joined(rows),
        selection=selection,
        predictions=CsvPredictions.joined(predictions) if predictions else None,
        competition={},
        device=str(setup.device),
        duration_s=end_s - start_s,
        samples_per_s=len(indices) / (end_s - predicting_s),
    )


def _horizons_s(setup: OpenLoopSetup, wanted_s: tuple[float, ...]) -> tuple[float, ...]:
    """Return the requested horizons after checking them, or every whole second and the end."""
    # A default horizon that is no whole number of steps is dropped; a requested one is refused.
    step_time_s, num_steps = setup.config.params.step_time_s, setup.config.params.future_num_frames
    end_s = num_steps * step_time_s
    steps = [(horizon_s, round(horizon_s / step_time_s)) for horizon_s in wanted_s or range(1, int(end_s + 1e-6) + 1)]
    fitting = {step for horizon_s, step in steps if abs(step * step_time_s - horizon_s) < 1e-6}
    if not wanted_s:
        return tuple(round(step * step_time_s, 6) for step in sorted(fitting | {num_steps}))
    if len(fitting) < len(steps) or max(fitting) > num_steps:
        raise InvalidArgumentError(
            f"horizons_s is {wanted_s}; allowed are different multiples of {step_time_s:g} s, up to the {end_s:g} s "
            "that the network predicts"
        )
    return tuple(sorted(wanted_s))


def _compare_selection(setup: OpenLoopSetup) -> SelectionParity | None:
    """Return how agents were selected for training and evaluation, and warn if this differs."""
    trained, here = setup.config.params.train_loader, setup.loader
    if not isinstance(setup.samples, AgentDataset):
        return None
    training = Selection(trained.min_frame_history, trained.min_frame_future)
    if setup.chopped_set is not None:
        return check_selection_parity(
            setup.chopped_set.folder, training, th_agent_prob=read_filter_agents_threshold(setup.config.mapping)
        )
    counts = setup.samples.load_agents_mask()[setup.samples.agents_indices]
    parity = compare_selections(counts, training, test=Selection(here.min_frame_history, here.min_frame_future))
    parity.warn(stacklevel=4)
    return parity
