"""Predictions of a model over a log, from a file or arrays, sorted by time."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, Int64Array
from l5kit.errors import DatasetNotFoundError, DuplicateTrackError, InvalidArgumentError
from l5kit.visualization.viewer.prediction_file import PredictionFile

_FILE_NAMES: Final = ("predictions.csv", "predictions.csv.gz", "pred.csv", "pred.csv.gz")
_MAX_LISTED: Final = 5


class PredictedRows(Protocol):
    """Protocol of a source of the numbers of rows."""

    def read(self, rows: Int64Array) -> tuple[Float64Array, Float64Array]:
        """Return probabilities (k, M) and positions (k, M, T, 2) of rows, in metres along world axes."""


@dataclass(frozen=True)
class Predictions:
    """The n predictions of a model: M paths of an agent after a frame, with T steps, one per frame.

    Positions are metres relative to the position of the agent in that frame (its centroid, or the position of the AV),
    along world axes, as in files of predictions.

    Attributes:
        name: Display name.
        timestamps_ns: Times of the frames, ascending, int64 (n,).
        track_ids: The agents, :data:`EGO_TRACK_ID` for the AV, int64 (n,).
        rows: Index of each prediction in ``source``, int64 (n,).
        num_modes: Modes M.
        num_steps: Steps T; the first is the frame after that of the prediction.
        source: Source of the numbers.
    """

    name: str
    timestamps_ns: Int64Array
    track_ids: Int64Array
    rows: Int64Array
    num_modes: int
    num_steps: int
    source: PredictedRows

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file of predictions, or the one in a folder of results or its subfolders.

        The file is scanned once; its numbers are read when a scene is shown.

        Args:
            path: A csv file as written by :func:`l5kit.evaluation.write_pred_csv`, gzipped or not, or the folder of
                ``l5kit evaluate``.

        Raises:
            DatasetNotFoundError: There is nothing at the path, or no predictions in the folder.
            InvalidArgumentError: It is not such a file, the folder has several, a row cannot be read, or an agent
                occurs twice at a time.
        """
        folder = Path(path)
        files = [folder] if folder.is_file() else []
        if not files and not folder.is_dir():
            raise DatasetNotFoundError(
                f"there are no predictions at {str(folder)!r}, which does not exist; give a csv file of predictions or "
                "the folder of l5kit evaluate"
            )
        # search the subfolders if the folder itself has no file
        if not files:
            files = _prediction_files([folder]) or _prediction_files(sorted(filter(Path.is_dir, folder.iterdir())))
        if len(files) > 1:
            names = ", ".join(str(file.relative_to(folder)) for file in files[:_MAX_LISTED])
            raise InvalidArgumentError(f"{str(folder)!r} has several files of predictions ({names}); give one")
        if not files:
            raise DatasetNotFoundError(
                f"{str(folder)!r} has no {_FILE_NAMES[0]}; l5kit evaluate writes it for test sets (--key FOLDER of "
                "l5kit chop), and l5kit.evaluation.write_pred_csv for any predictions"
            )

        # sort rows by time and track, which must be unique
        (file_path,) = files
        file = PredictionFile(file_path)
        order = _order_of(file.timestamps_ns, file.track_ids)
        times_ns, tracks = file.timestamps_ns[order], file.track_ids[order]
        _require_distinct(os.fspath(file_path), "lines", times_ns, tracks, file.lines[order])
        return cls(
            name=file_path.name,
            timestamps_ns=times_ns,
            track_ids=tracks,
            rows=order,
            num_modes=file.num_modes,
            num_steps=file.num_steps,
            source=file,
        )

    @classmethod
    def of_arrays(
        cls,
        timestamps: ArrayLike,
        track_ids: ArrayLike,
        coords: ArrayLike,
        confidences: ArrayLike | None = None,
        *,
        name: str = "predictions",
    ) -> Self:
        """Return predictions from arrays, such as those for ``write_pred_csv``.

        Args:
            timestamps: Times in ns, integers, (n,).
            track_ids: Agents, -1 for the AV, (n,).
            coords: Metres relative to the agent along world axes, (n, M, T, 2), or (n, T, 2) for one mode;
                :func:`l5kit.evaluation.world_displacements` computes them from model outputs.
            confidences: Probabilities of the modes, (n, M); None for one mode.
            name: Display name.

        Raises:
            InvalidArgumentError: The shapes do not fit, or an agent occurs twice at a time.
        """
        times_ns, tracks = _as_keys("timestamps", timestamps), _as_keys("track_ids", track_ids)
        positions_m = np.asarray(coords, np.float64)
        if positions_m.ndim == 3 and confidences is None:  # one mode
            positions_m, confidences = positions_m[:, None], np.ones((len(positions_m), 1))
        if positions_m.ndim != 4 or positions_m.shape[3] != 2:
            raise InvalidArgumentError(
                f"coords has shape {positions_m.shape}; it must be (n, modes, steps, 2) with confidences, or "
                "(n, steps, 2) without"
            )
        modes_shape = positions_m.shape[:2]
        if confidences is None:
            raise InvalidArgumentError(f"coords of shape {positions_m.shape} needs confidences of shape {modes_shape}")
        probabilities = np.asarray(confidences, np.float64)
        if probabilities.shape != modes_shape:
            raise InvalidArgumentError(f"confidences has shape {probabilities.shape}; it must be {modes_shape}")
        for key, values in (("timestamps", times_ns), ("track_ids", tracks)):
            if values.shape != positions_m.shape[:1]:
                raise InvalidArgumentError(f"{key} has shape {values.shape}; it must be {positions_m.shape[:1]}")
        order = _order_of(times_ns, tracks)
        _require_distinct(name, "rows", times_ns[order], tracks[order], order)
        return cls(
            name=name,
            timestamps_ns=times_ns[order],
            track_ids=tracks[order],
            rows=order,
            num_modes=positions_m.shape[1],
            num_steps=positions_m.shape[2],
            source=_HeldRows(probabilities, positions_m),
        )

    def __len__(self) -> int:
        return len(self.timestamps_ns)

    def read(self, indices: Int64Array) -> tuple[Float64Array, Float64Array]:
        """Return probabilities (k, M) and positions (k, M, T, 2) of the predictions at indices.

        Padding modes of a file, all zeros with probability 0, become NaN.

        Raises:
            InvalidArgumentError: A row of the file contains something other than numbers.
            DataChangedError: The file has changed since it was opened.
        """
        confidences, positions_m = self.source.read(self.rows[indices])
        is_filled_up = (confidences == 0) & (positions_m == 0).all(axis=(2, 3))
        return (
            np.where(is_filled_up, np.nan, confidences),
            np.where(is_filled_up[:, :, None, None], np.nan, positions_m),
        )


@dataclass(frozen=True)
class _HeldRows:
    """Rows in memory: probabilities (n, M) and positions (n, M, T, 2)."""

    confidences: Float64Array
    positions_m: Float64Array

    def read(self, rows: Int64Array) -> tuple[Float64Array, Float64Array]:
        return self.confidences[rows], self.positions_m[rows]


def _prediction_files(folders: Sequence[Path]) -> list[Path]:
    return [each / name for each in folders for name in _FILE_NAMES if (each / name).is_file()]


def refuse_predictions(predictions: object, simulation: object) -> None:
    """Refuse predictions for a simulation, whose agents differ from the log; None is allowed.

    Raises:
        InvalidArgumentError: There are predictions.
    """
    if predictions is not None:
        raise InvalidArgumentError(
            f"{str(simulation)!r} is a simulation, which shows the plans of its planner; predictions are shown over a "
            "log: give the log that they were made on"
        )


def _order_of(timestamps_ns: Int64Array, track_ids: Int64Array) -> Int64Array:
    order: Int64Array = np.lexsort((track_ids, timestamps_ns)).astype(np.int64)
    return order


def _require_distinct(name: str, what: str, timestamps_ns: Int64Array, track_ids: Int64Array, rows: Int64Array) -> None:
    """Refuse duplicate keys; the keys are sorted."""
    is_same = (timestamps_ns[1:] == timestamps_ns[:-1]) & (track_ids[1:] == track_ids[:-1])
    if is_same.any():
        at = int(is_same.argmax())
        raise DuplicateTrackError(
            f"{name!r}: {what} {rows[at]} and {rows[at + 1]} are both track {track_ids[at]} at {timestamps_ns[at]} "
            f"({int(is_same.sum())} such pairs); give one row per agent and time, with all modes"
        )


def _as_keys(name: str, values: ArrayLike) -> Int64Array:
    keys = np.asarray(values)
    if keys.dtype.kind not in "iu" and keys.size:
        raise InvalidArgumentError(f"{name} is of {keys.dtype}; it must have integers")
    return keys.astype(np.int64)
