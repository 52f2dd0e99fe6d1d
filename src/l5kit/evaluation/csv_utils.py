"""Csv files of true and predicted positions, in the format of the competition.

A row is one agent at one time. Its coordinates are metres relative to the position of the agent at that time, along the
axes of the world, with 5 decimals. Files are written atomically.
"""

import csv
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from l5kit._files import replaced_when_complete
from l5kit._types import Float64Array, NumericArray
from l5kit.data.progress import show_progress
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.csv_rows import KEY_COLUMNS, column_order, listed, read_rows

MAX_MODES = 3
"""Number of modes of a prediction in the competition."""

_MODES_WITH_PLAIN_NAMES = 10
"""With more modes, ``coord_x110`` could be step 10 of mode 1 or step 0 of mode 11."""

_ROWS_PER_PROGRESS = 100


class KeyedRow(TypedDict):
    """Key of a row: track and time, as text in the file."""

    track_id: str
    timestamp: str


class TrueRow(KeyedRow):
    """A row of a file of true positions: ``coord`` (T, 2) in metres and ``avail`` (T,)."""

    coord: Float64Array
    avail: Float64Array


class PredictedRow(KeyedRow):
    """A row of a file of predicted positions: ``coords`` (M, T, 2) in metres and ``conf`` (M,)."""

    coords: Float64Array
    conf: Float64Array


def write_gt_csv(
    csv_path: str | os.PathLike[str], timestamps: ArrayLike, track_ids: ArrayLike, coords: ArrayLike, avails: ArrayLike
) -> None:
    """Write true positions.

    Columns: ``timestamp``, ``track_id``, ``avail_0`` to ``avail_{T-1}``, then ``coord_x0{t}``, ``coord_y0{t}`` for each
    step t.

    Args:
        csv_path: The file, replaced if it exists.
        timestamps: Times in ns, (n,).
        track_ids: Tracks, (n,).
        coords: Displacements in metres along world axes, (n, T, 2).
        avails: 1 where the position is known, else 0, (n, T).

    Raises:
        InvalidArgumentError: The shapes do not fit, or a coordinate is not finite.
    """
    times, tracks, positions_m = np.asarray(timestamps), np.asarray(track_ids), np.asarray(coords)

    # availabilities are written as numbers, 0 and 1
    array = np.asarray(avails)
    known = array.astype(np.float64) if array.dtype == np.bool_ else array
    _require_shape("coords", positions_m, (None, None, 2))
    _require_shape("avails", known, positions_m.shape[:2])
    _require_rows(times, tracks, positions_m)
    rows = _keyed_rows(times, tracks, known, positions_m)
    _write(csv_path, _gt_header(positions_m.shape[1]), rows, num_rows=len(times), visible=False)


def read_gt_csv(csv_path: str | os.PathLike[str]) -> Iterator[TrueRow]:
    """Yield the rows of a file of true positions.

    Args:
        csv_path: The file.

    Yields:
        ``track_id`` and ``timestamp`` (text), ``coord`` (T, 2) in metres and ``avail`` (T,), both float64.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidArgumentError: The columns are wrong, or rows cannot be read; all are listed, up to a limit.
    """
    for row in read_rows(csv_path, _gt_headers):
        num_steps = len(row.values) // 3
        yield {
            "track_id": row.track_id,
            "timestamp": row.timestamp,
            "coord": row.values[num_steps:].reshape(num_steps, 2),
            "avail": row.values[:num_steps],
        }


def write_pred_csv(
    csv_path: str | os.PathLike[str],
    timestamps: ArrayLike,
    track_ids: ArrayLike,
    coords: ArrayLike,
    confs: ArrayLike | None = None,
    max_modes: int = MAX_MODES,
) -> None:
    """Write predicted positions, with a progress bar.

    Columns: ``timestamp``, ``track_id``, ``conf_0`` to ``conf_{max_modes-1}``, then for each mode m and each step t
    ``coord_x{m}{t}``, ``coord_y{m}{t}``; with more than 10 modes ``coord_x{m}_{t}``, ``coord_y{m}_{t}``, as the names
    would be ambiguous otherwise. Missing modes are filled with zeros.

    Args:
        csv_path: The file, replaced if it exists.
        timestamps: Times in ns, (n,).
        track_ids: Tracks, (n,).
        coords: Displacements in metres along world axes, (n, M, T, 2), or (n, T, 2) for one mode.
        confs: Probabilities of the modes, (n, M); None for one mode.
        max_modes: Number of modes in the file, at least M.

    Raises:
        InvalidArgumentError: The shapes do not fit, probabilities do not sum to 1, or a number is not finite.
    """
    _require_max_modes(max_modes)
    times, tracks = np.asarray(timestamps), np.asarray(track_ids)
    # a single mode may come without the axis of modes, and then has probability 1
    positions_m = np.asarray(coords)
    if positions_m.ndim == 3:
        if confs is not None:
            raise InvalidArgumentError(
                f"coords of shape {positions_m.shape} is one mode, for which confs must be None; for several modes "
                "coords must be (n, M, T, 2)"
            )
        positions_m, confs = positions_m[:, None], np.ones((len(positions_m), 1))
    if confs is None:
        raise InvalidArgumentError(f"coords of shape {positions_m.shape} needs confs of shape {positions_m.shape[:2]}")
    probabilities = np.asarray(confs)
    _require_shape("coords", positions_m, (None, None, None, 2))
    _require_shape("confs", probabilities, positions_m.shape[:2])
    _require_rows(times, tracks, positions_m)
    sums = probabilities.sum(axis=-1, dtype=np.float64)
    bad = np.flatnonzero(~np.isclose(sums, 1) | (probabilities < 0).any(axis=-1))
    if len(bad):
        raise InvalidArgumentError(
            f"confs must be at least 0 and sum to 1 in each row, but do not in {len(bad)}: "
            + listed([f"row {row} is {probabilities[row].tolist()}" for row in bad.tolist()])
        )
    num_rows, num_modes, num_steps, _ = positions_m.shape
    if num_modes > max_modes:
        raise InvalidArgumentError(
            f"coords has {num_modes} modes, but max_modes is {max_modes}; raise max_modes, here and where the file is "
            "read"
        )
    # missing modes are zeros, as in L5Kit 1.x
    missing = max_modes - num_modes
    padded_m = np.pad(positions_m, ((0, 0), (0, missing), (0, 0), (0, 0)))
    padded = np.pad(probabilities, ((0, 0), (0, missing)))
    rows = _keyed_rows(times, tracks, padded, padded_m)
    _write(csv_path, _pred_header(num_steps, max_modes), rows, num_rows=num_rows, visible=True)


def read_pred_csv(csv_path: str | os.PathLike[str], max_modes: int = MAX_MODES) -> Iterator[PredictedRow]:
    """Yield the rows of a file of predicted positions.

    Files of L5Kit 1.x with more than 10 modes, whose column names are ambiguous, are read by position.

    Args:
        csv_path: The file.
        max_modes: Number of modes in the file.

    Yields:
        ``track_id`` and ``timestamp`` (text), ``coords`` (max_modes, T, 2) in metres and ``conf`` (max_modes,), both
        float64.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidArgumentError: The columns are wrong, or rows cannot be read; all are listed, up to a limit.
    """
    _require_max_modes(max_modes)
    for row in read_rows(csv_path, lambda header: _pred_headers(header, max_modes)):
        yield {
            "track_id": row.track_id,
            "timestamp": row.timestamp,
            "coords": row.values[max_modes:].reshape(max_modes, -1, 2),
            "conf": row.values[:max_modes],
        }


def prediction_columns(csv_path: str | os.PathLike[str], header: list[str]) -> tuple[int, list[int]]:
    """Return the number of modes in a file of predicted positions, and the indices of its columns.

    Args:
        csv_path: The file, for the error.
        header: Names of its columns.

    Returns:
        The number of modes M, and the indices of timestamp, track, M probabilities, and x and y of each step and mode.

    Raises:
        InvalidArgumentError: The columns are not those of predictions.
    """
    num_modes = sum(name.startswith("conf_") for name in header)
    if num_modes == 0 or len(header) <= len(KEY_COLUMNS) + num_modes:
        raise InvalidArgumentError(
            f"{os.fspath(csv_path)!r}, line 1: the columns are not those of predictions: timestamp, track_id, conf_0, "
            f"..., coord_x00, coord_y00, ... as write_pred_csv writes them; found {listed(header) or 'none'}"
        )
    return num_modes, column_order(csv_path, header, lambda names: _pred_headers(names, num_modes))


def _coords_keys(num_steps: int, mode: int = 0, separator: str = "") -> list[str]:
    """Return the names of the coordinates of a mode: x and y of each step."""
    return [f"coord_{axis}{mode}{separator}{step}" for step in range(num_steps) for axis in "xy"]


def _gt_header(num_steps: int) -> list[str]:
    return [*KEY_COLUMNS, *(f"avail_{step}" for step in range(num_steps)), *_coords_keys(num_steps)]


def _gt_headers(header: Sequence[str]) -> list[list[str]]:
    num_steps, rest = divmod(len(header) - len(KEY_COLUMNS), 3)
    if rest or num_steps < 0:
        raise InvalidArgumentError(
            f"{len(header)} columns are not those of true positions, which have 2, and 3 for each step"
        )
    return [_gt_header(num_steps)]


def _pred_headers(header: Sequence[str], max_modes: int) -> list[list[str]]:
    """Return the headers of this version and of L5Kit 1.x."""
    num_steps, rest = divmod(len(header) - len(KEY_COLUMNS) - max_modes, 2 * max_modes)
    if rest or num_steps < 0:
        num_confs = sum(name.startswith("conf_") for name in header)
        raise InvalidArgumentError(
            f"{len(header)} columns are not those of predictions with max_modes {max_modes}, which have 2, and 1 + 2 "
            f"for each step per mode; the file has {num_confs} columns conf_*, so pass max_modes={num_confs}"
        )
    return [_pred_header(num_steps, max_modes), _pred_header(num_steps, max_modes, are_distinct=False)]


def _pred_header(num_steps: int, max_modes: int, *, are_distinct: bool = True) -> list[str]:
    """Return the names of columns; only those of L5Kit 1.x may be ambiguous."""
    separator = "_" if are_distinct and max_modes > _MODES_WITH_PLAIN_NAMES else ""
    coords = itertools.chain.from_iterable(_coords_keys(num_steps, mode, separator) for mode in range(max_modes))
    return [*KEY_COLUMNS, *(f"conf_{mode}" for mode in range(max_modes)), *coords]


def _require_max_modes(max_modes: int) -> None:
    if max_modes < 1:
        raise InvalidArgumentError(f"max_modes must be at least 1, got {max_modes}")


def _require_shape(name: str, array: NumericArray, shape: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(shape) and all(
        size in (None, actual) for size, actual in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidArgumentError(f"{name} has shape {array.shape}; it must be ({wanted})")


def _require_rows(timestamps: NumericArray, track_ids: NumericArray, coords: NumericArray) -> None:
    """Check that all arrays have the same number of rows and that the coordinates (n, ..., T, 2) are finite."""
    _require_shape("timestamps", timestamps, coords.shape[:1])
    _require_shape("track_ids", track_ids, coords.shape[:1])
    bad = np.flatnonzero(~np.isfinite(coords).all(axis=tuple(range(1, coords.ndim))))
    if len(bad):
        raise InvalidArgumentError(
            f"coords is NaN or infinite in {len(bad)} rows: {listed(bad.tolist())}; for steps without truth, pass 0 in "
            "avails and any number"
        )


def _keyed_rows(
    timestamps: NumericArray, track_ids: NumericArray, values: NumericArray, coords: NumericArray
) -> Iterable[list[str]]:
    """Yield rows as text: time, track, values (n, V) as printed, coordinates (n, ...) with 5 decimals."""
    for timestamp, track_id, row_values, row_coords in zip(timestamps, track_ids, values, coords, strict=True):
        coordinates = map("{:.5f}".format, row_coords.ravel().tolist())
        yield [str(timestamp), str(track_id), *map(str, row_values), *coordinates]


def _write(
    csv_path: str | os.PathLike[str], header: list[str], rows: Iterable[list[str]], *, num_rows: int, visible: bool
) -> None:
    with (
        replaced_when_complete(csv_path, argument="csv_path") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
        show_progress("Writing rows", visible=visible) as progress,
    ):
        writer = csv.writer(file)
        writer.writerow(header)
        for done, row in enumerate(rows, start=1):
            writer.writerow(row)
            if done % _ROWS_PER_PROGRESS == 0:
                progress(done, num_rows)
