"""Open-loop evaluation of a trained network: its predictions on a log, compared with the recorded future.

Nothing here needs Lightning.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

from l5kit._types import Config
from l5kit.evaluation.selection_parity import GROUND_TRUTH_FILE
from l5kit.openloop.chopped_set import competition_metrics
from l5kit.openloop.files import (
    PREDICTIONS_FILE,
    WORST_FOLDER,
    OpenLoopResult,
    prepare_folder,
    require_folder,
    write_scores,
)
from l5kit.openloop.scoring import score
from l5kit.openloop.setup import OpenLoopOptions, set_up
from l5kit.openloop.worst_cases import draw_worst_cases, worst_rows
from l5kit.planning.weights_file import network_of
from l5kit.visualization.images import write_png
from l5kit.workflows.trained_network import configuration_of

_DEFAULTS = OpenLoopOptions()


def evaluate(
    checkpoint: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    cfg: Config | None = None,
    data_folder: str | os.PathLike[str] | None = None,
    options: OpenLoopOptions = _DEFAULTS,
) -> OpenLoopResult:
    """Score a trained network on a log, or on the test agents of a chopped dataset.

    The folder gets ``scores.json``, ``scores.csv`` (a line for each horizon of the network and of each baseline),
    ``samples.csv`` (a line for each trajectory), ``worst/`` with pictures, and for a test set ``predictions.csv``. The
    network never sees the future. A ``RuntimeWarning`` reports agents that were selected differently than for the
    training.

    Args:
        checkpoint: File of weights that :func:`l5kit.planning.checkpoint.load_checkpoint` reads, run folder of a
            training (its final weights are used), or name of a network that ships with l5kit.
        folder: Output folder; new or empty, unless ``options.overwrite``.
        cfg: The configuration of the training; None for the one in the checkpoint, which only checkpoints of l5kit
            have.
        data_folder: Folder that the keys of the data are relative to; None for the environment's
            ``L5KIT_DATA_FOLDER``.
        options: Choice of log, samples, device and pictures.

    Raises:
        ConfigError: There is no configuration, or a key is unknown, missing, of the wrong type or out of range.
        FileNotFoundError: The checkpoint, the log or the map is missing.
        InvalidArgumentError: The folder holds files, a horizon lies beyond the predictions, or the network cannot
            predict the test set.
        CheckpointError: The file is no checkpoint or broken, or needs ``options.allow_pickle``.
        CheckpointMismatchError: The weights do not fit the configuration; the message lists the differences.
    """
    start_s = time.perf_counter()
    target = Path(os.path.abspath(folder))  # user code may change the working directory
    require_folder(target, overwrite=options.overwrite)
    file = network_of(checkpoint)
    if cfg is None:
        cfg = configuration_of(file, allow_pickle=options.allow_pickle)
    setup = set_up(file, cfg, data_folder=data_folder, options=options)
    result = score(setup, options)
    prepare_folder(target)
    if setup.chopped_set is not None and result.predictions is not None:
        # the metrics of a test set are computed from its file, as in the competition
        file_of_predictions = target / PREDICTIONS_FILE
        result.predictions.write(file_of_predictions)
        num_modes, truth = result.predictions.probabilities.shape[1], setup.chopped_set.folder / GROUND_TRUTH_FILE
        competition = competition_metrics(truth, file_of_predictions, num_modes=num_modes)
        result = replace(result, competition=competition)

    # pictures of the worst cases, ranked from the worst; cases of one agent are some frames apart
    rows = result.rows
    worst = worst_rows(
        rows,
        options.num_worst,
        error_m=rows.fde_m if options.worst_by == "fde" else rows.ade_m,
        frames_apart=setup.config.params.future_num_frames,
    )
    for rank, (name, picture) in enumerate(draw_worst_cases(setup, rows.taken(worst)), start=1):
        (target / WORST_FOLDER).mkdir(exist_ok=True)
        write_png(target / WORST_FOLDER / f"{rank:02d}_{name}.png", picture)
    result = replace(result, duration_s=time.perf_counter() - start_s)
    write_scores(target, result)
    return result
