"""Chopping of datasets: cuts scenes short, and stores the futures of the agents in their last frames."""

import contextlib
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit._types import BoolArray, Int64Array, UInt32Array
from l5kit.data.filter import _get_label_filter
from l5kit.data.index.log_index import require_readable_log
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.progress import show_progress
from l5kit.data.record_sequence import column_of, rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.data.stores.store import is_url, path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.data.zarr_utils import _require_apart, zarr_scenes_chop
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.csv_rows import listed
from l5kit.evaluation.extract_ground_truth import export_zarr_to_csv
from l5kit.evaluation.selection_parity import (
    GROUND_TRUTH_FILE,
    MASK_FILE,
    MASK_KEY,
    Selection,
    compare_selections,
    load_agent_counts,
    load_mask,
)

if TYPE_CHECKING:
    from l5kit.dataset.select_agents.thresholds import MaskThresholds

MIN_FUTURE_STEPS = 10
"""Number of frames after the last kept one that an agent of the competition's test set has."""


def create_chopped_dataset(
    zarr_path: str | os.PathLike[str],
    th_agent_prob: float,
    num_frames_to_copy: int,
    num_frames_gt: int,
    min_frame_future: int,
    *,
    output_folder: str | os.PathLike[str] | None = None,
    overwrite: bool | None = None,
    verbose: bool = True,
    workers: Workers = 1,
) -> str:
    """Make a test set: the first frames of every scene, and the future positions of the agents in the last of them.

    The folder holds a dataset of the same name with the first frames; ``mask.npz``, whose ``arr_0`` (bool) marks the
    agent rows of test agents; and ``gt.csv``, their true positions. Test agents are agents in the last frame of a scene
    that stay valid for enough frames, however short their past; a ``RuntimeWarning`` gives the number of those that the
    default selection of a training would leave out. The source is only read; its agents mask is the one stored in it,
    or in the user's cache folder.

    Args:
        zarr_path: The dataset.
        th_agent_prob: Minimum summed probability of the classes of road users.
        num_frames_to_copy: Frames of each scene to keep; every scene must have more.
        num_frames_gt: Number of future steps with true positions.
        min_frame_future: Number of valid future frames that an agent must have.
        output_folder: The folder; None for ``{name}_chopped_{num_frames_to_copy}`` next to the dataset.
        overwrite: Replace the folder if it is a test set; None to replace only one written by l5kit, as a repeated
            notebook does, but none of L5Kit 1.5; False to replace nothing.
        verbose: Show progress bars on a terminal.
        workers: Number of threads, or an executor; the files are the same. See
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Returns:
        The folder.

    Raises:
        DatasetNotFoundError: There is no dataset.
        FileExistsError: The folder exists, and ``overwrite`` does not allow replacing it.
        InvalidArgumentError: A scene has too few frames, a number is not allowed, or the folder to replace is not a
            test set, holds other files too, or holds the dataset. It stays as it is.
        CorruptedDataError: The records of the dataset are inconsistent.
    """
    path = path_of(zarr_path)
    name = Path(path).name
    if output_folder is None:
        if is_url(path):
            raise InvalidArgumentError(
                f"zarr_path {path!r} is a URL, so there is no default output folder; pass output_folder"
            )
        source = Path(os.path.abspath(path))
        output_folder = source.with_name(f"{Path(source.name.removesuffix('.zip')).stem}_chopped_{num_frames_to_copy}")
    folder = Path(output_folder)
    _require_apart(path, str(folder), argument="output_folder")
    clear_leftovers(folder)
    _require_free(folder, name, overwrite=overwrite)
    _require_counts(num_frames_to_copy, num_frames_gt, min_frame_future)
    from l5kit.dataset.select_agents.thresholds import MaskThresholds  # imported here, as it imports torch

    dataset = ChunkedDataset(path).open()
    require_readable_log(dataset, has_all_frames=True)
    ends = _last_kept_frames(dataset, num_frames_to_copy)
    thresholds = MaskThresholds(th_agent_prob)
    with show_progress("Agents mask", visible=verbose) as progress:
        counts = load_agent_counts(dataset, thresholds, progress=progress, workers=workers)
    mask = _mark_test_agents(dataset, counts, ends, thresholds=thresholds, min_frame_future=min_frame_future)

    # the mask covers the agent rows of the kept frames only, and is stored with the selection that made it
    intervals = column_of(dataset.frames, AGENT_INTERVAL, strict=True)
    starts, stops = intervals[ends - num_frames_to_copy + 1, 0].tolist(), intervals[ends, 1].tolist()
    parts = [mask[start:stop] for start, stop in zip(starts, stops, strict=True)]
    kept = {MASK_KEY: np.concatenate([np.zeros(0, np.bool_), *parts]), **asdict(Selection(0, min_frame_future))}
    with placed_when_complete(folder) as complete:
        complete.mkdir()
        zarr_scenes_chop(path, str(complete / name), num_frames_to_copy, verbose=verbose, workers=workers)
        np.savez_compressed(complete / MASK_FILE, **kept)
        with show_progress("True positions", visible=verbose) as progress:
            export_zarr_to_csv(
                dataset,
                complete / GROUND_TRUTH_FILE,
                num_frames_gt,
                th_agent_prob,
                agents_mask=mask,
                strict_mask=True,
                progress=progress,
                workers=workers,
            )
        _require_free(folder, name, overwrite=overwrite)  # check again, as the folder may have appeared meanwhile
    _tell_about_selection(folder, counts[mask], min_frame_future)
    return str(folder)


def _require_free(folder: Path, name: str, *, overwrite: bool | None) -> None:
    """Refuse a folder that may not be replaced; see :func:`create_chopped_dataset`."""
    if not os.path.lexists(folder):
        return
    if overwrite is False:
        raise FileExistsError(
            f"{folder} exists; use it, remove it, choose another output_folder, or pass overwrite=True"
        )
    known = {name, MASK_FILE, GROUND_TRUTH_FILE}
    others = sorted({entry.name for entry in folder.iterdir()} - known) if folder.is_dir() else []
    if others or folder.is_symlink() or not folder.is_dir():
        raise InvalidArgumentError(
            f"{folder} is not replaced, because it is more than a test set of {name}: it "
            + (f"holds {listed(others)}" if others else "is not a folder")
            + "; remove it yourself or choose another output_folder"
        )
    # masks of l5kit store how agents were selected, unlike those of 1.5
    if overwrite is None and any(folder.iterdir()):
        selection = None
        with contextlib.suppress(InvalidArgumentError):
            _, selection = load_mask(folder)
        if selection is None:
            raise FileExistsError(
                f"{folder} exists, and is not a test set written by l5kit: its {MASK_FILE} does not say how agents "
                "were selected; use it, remove it, choose another output_folder, or pass overwrite=True"
            )


def _require_counts(num_frames_to_copy: int, num_frames_gt: int, min_frame_future: int) -> None:
    for name, value, least in (
        ("num_frames_to_copy", num_frames_to_copy, 1),
        ("num_frames_gt", num_frames_gt, 1),
        ("min_frame_future", min_frame_future, 0),
    ):
        if value < least:
            raise InvalidArgumentError(f"{name} must be at least {least}, got {value}")


def _last_kept_frames(dataset: ChunkedDataset, num_frames: int) -> Int64Array:
    """Return the last frame to keep of each scene, (S,)."""
    intervals = column_of(dataset.scenes, FRAME_INTERVAL, strict=True)
    lengths = intervals[:, 1] - intervals[:, 0]
    short = np.flatnonzero(lengths <= num_frames)
    if len(short):
        raise InvalidArgumentError(
            f"num_frames_to_copy is {num_frames}, but {len(short)} scenes of {dataset.path!r} are too short for that: "
            + listed([f"scene {scene} has {lengths[scene]}" for scene in short.tolist()])
            + "; keep fewer frames"
        )
    ends: Int64Array = intervals[:, 0] + num_frames - 1
    return ends


def _mark_test_agents(
    dataset: ChunkedDataset,
    counts: UInt32Array,
    last_frames: Int64Array,
    *,
    thresholds: "MaskThresholds",
    min_frame_future: int,
) -> BoolArray:
    """Return which agent rows (N,) are in the last frames and stay valid for long enough."""
    mask = np.zeros(len(dataset.agents), dtype=np.bool_)
    intervals = column_of(dataset.frames, AGENT_INTERVAL, strict=True)
    for start, stop in intervals[last_frames].tolist():
        if min_frame_future > 0:
            mask[start:stop] = counts[start:stop, 1] >= min_frame_future
        else:  # a count of 0 may also mean a rejected row
            labels = rows_of(dataset.agents, slice(start, stop), strict=True)["label_probabilities"]
            mask[start:stop] = _get_label_filter(labels, thresholds.probability)
    return mask


def _tell_about_selection(folder: Path, counts: UInt32Array, min_frame_future: int) -> None:
    """Warn of a test set without agents, or with agents that a default training would not select."""
    if len(counts) == 0:
        warnings.warn(
            f"{folder} has no test agents: none of the last frames stays valid for {min_frame_future} frames",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    compare_selections(counts, Selection(), test=Selection(0, min_frame_future)).warn(
        "the agents of a training with AgentDataset's default minima", stacklevel=4
    )
