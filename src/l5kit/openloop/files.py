"""Result of an open-loop evaluation and its files, each written atomically."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from l5kit import __version__
from l5kit._files import clear_leftovers_in, replaced_when_complete, write_json
from l5kit._types import JsonObject
from l5kit.configs.texts import reported_values
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.jobs.owned_outputs import OutputKind, holds_keys, require_own_folder
from l5kit.data.jobs.receipts import RECEIPT_FILE, finish_output
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.horizon_scores import HorizonScore
from l5kit.evaluation.result_files import MISS_THRESHOLD_M, SAMPLES_TABLE, SCORES_FILE, SCORES_TABLE
from l5kit.evaluation.selection_parity import SelectionParity
from l5kit.kinematic.baselines import BASELINES, Baseline
from l5kit.openloop.chopped_set import CsvPredictions
from l5kit.openloop.prediction import ModeScore, TrajectoryRows, label_name


@dataclass(frozen=True)
class OpenLoopResult:
    """The outcome of an evaluation.

    Attributes:
        checkpoint: File of the weights.
        workflow: Workflow of the training.
        log: Log of the samples.
        data: Record of the log, or of the folder of the test set.
        configuration: The configuration of the network, with the log as ``val_data_loader``.
        is_test_set: Whether the samples are the test agents of a chopped dataset.
        num_samples: Number of predicted samples.
        num_samples_of_log: Number of samples in the log.
        network: Mean errors of the likeliest trajectories, for each horizon.
        baselines: The same for the kinematic baselines; empty if no past was known.
        modes: Metrics over all trajectories; None for networks with a single mode.
        rows: The errors of each trajectory.
        selection: How agents were selected for training and evaluation; None for workflows that do not select agents.
        predictions: Predictions of a test set, else None.
        competition: Metrics of the files of a test set by the names of
            :func:`l5kit.openloop.chopped_set.competition_metrics`, numbers or lists; empty otherwise.
        device: Device of the network.
        duration_s: Duration of the evaluation in seconds.
        samples_per_s: Samples loaded and predicted per second.
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


PREDICTIONS_FILE: Final = "predictions.csv"
"""Predictions of a test set, in the format of the competition."""

WORST_FOLDER: Final = "worst"
_FINISHED: Final = (SCORES_FILE, SCORES_TABLE, SAMPLES_TABLE, PREDICTIONS_FILE, WORST_FOLDER)

_ROWS_AT_ONCE: Final = 10_000

_SAMPLE_COLUMNS: Final = (
    *("scene_index", "frame_index", "timestamp", "track_id", "label"),
    *(f"{who}{name}" for who in ("", *(f"{name}_" for name in BASELINES)) for name in ("ade_m", "fde_m", "miss")),
)


_COMMAND: Final = "evaluate"
_EVALUATION: Final = OutputKind(
    "an evaluation",
    # also an unfinished evaluation, or one of a version that wrote no receipt
    lambda folder: (
        holds_keys(folder / RECEIPT_FILE, {"command"}, command=_COMMAND)
        if (folder / RECEIPT_FILE).is_file()
        else holds_keys(folder / SCORES_FILE, {"checkpoint", "workflow", "num_samples", "scores"})
    ),
    rf"{'|'.join(re.escape(name) for name in (RECEIPT_FILE, *_FINISHED))}"
    rf"|{WORST_FOLDER}/\d+_scene\d+_frame\d+_\w+\.png",
)


def require_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written to.

    Raises:
        InvalidArgumentError: It is a file, holds files and ``overwrite`` is not set, or holds files that do not belong
            to an evaluation.
    """
    require_own_folder(folder.resolve(), _EVALUATION, argument="folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds files; name another, or replace the evaluation in it (--overwrite)"
        )


def prepare_folder(folder: Path) -> None:
    """Make a folder, mark it, and remove the files of an older evaluation from it."""
    folder.mkdir(parents=True, exist_ok=True)
    clear_leftovers_in(folder)
    finish_output(folder, _COMMAND, of=())
    for name in (SCORES_FILE, SCORES_TABLE, SAMPLES_TABLE, PREDICTIONS_FILE):
        (folder / name).unlink(missing_ok=True)
    for picture in (folder / WORST_FOLDER).glob("[0-9]*_scene*_frame*_*.png"):
        picture.unlink()


def write_scores(folder: Path, result: OpenLoopResult) -> None:
    """Write the tables, then the scores as JSON, and the receipt last."""
    _write_table(folder / SAMPLES_TABLE, _SAMPLE_COLUMNS, _sample_rows(result.rows))
    scores = scores_of(result)
    # Each item of a list gets its own numbered column; values are rounded to a sensible number of digits.
    rows = []
    for row in scores["scores"]:
        cells: dict[str, object] = {}
        for name, value in row.items():
            several = isinstance(value, list)
            items = {f"{name}_{index}": item for index, item in enumerate(value)} if several else {name: value}
            cells |= {key: round(item, 6) if isinstance(item, float) else item for key, item in items.items()}
        rows.append(cells)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    _write_table(folder / SCORES_TABLE, columns, ([row.get(name, "") for name in columns] for row in rows))
    write_json(folder / SCORES_FILE, scores, allow_nan=False)
    finish_output(folder, _COMMAND, _FINISHED)


def scores_of(result: OpenLoopResult) -> JsonObject:
    """Return everything but the single trajectories as JSON values; unknown values are None."""
    by_who = [("network", result.network), *result.baselines.items()]
    modes = {score.horizon_s: score for score in result.modes or ()}
    scores = [
        {"who": who, **asdict(score)} | (asdict(modes[score.horizon_s]) if modes and who == "network" else {})
        for who, row in by_who
        for score in row
    ]
    selection = result.selection
    facts = {
        "checkpoint": str(result.checkpoint),
        "workflow": result.workflow,
        "log": str(result.log),
        "data": result.data.as_dict(),
        "l5kit": __version__,
        "is_test_set": result.is_test_set,
        "num_samples": result.num_samples,
        "num_samples_of_log": result.num_samples_of_log,
        "num_trajectories": len(result.rows),
        "device": result.device,
        "duration_s": round(result.duration_s, 3),
        "samples_per_s": round(result.samples_per_s, 1),
        "selection": selection
        and {
            "training": asdict(selection.training),
            "evaluation": asdict(selection.test),
            "differences": list(selection.differences),
        },
        "scores": scores,
        "competition": result.competition,
        "configuration": result.configuration,
    }
    known: JsonObject = reported_values(facts)
    return known


def _sample_rows(rows: TrajectoryRows) -> Iterator[Sequence[object]]:
    """Yield the table lines of all trajectories, converting a limited number of rows at a time."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows.taken(slice(start, start + _ROWS_AT_ONCE))
        columns = (part.scene_index, part.frame_index, part.timestamp_ns, part.track_id, part.label_index)
        ades_m = np.column_stack([part.ade_m, part.baseline_ade_m])
        fdes_m = np.column_stack([part.fde_m, part.baseline_fde_m])
        for *cells, label_index, ade_m, fde_m in zip(
            *(column.tolist() for column in (*columns, ades_m, fdes_m)), strict=True
        ):
            # ADE, FDE and miss of the network and of each baseline; empty where unknown
            errors: list[str] = []
            for ade, fde in zip(ade_m, fde_m, strict=True):
                is_known = not math.isnan(fde)
                errors += ["" if math.isnan(ade) else f"{ade:.4f}", f"{fde:.4f}" if is_known else ""]
                errors.append(str(int(fde > MISS_THRESHOLD_M)) if is_known else "")
            yield (*cells, label_name(label_index), *errors)


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with (
        replaced_when_complete(path, argument="folder") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
