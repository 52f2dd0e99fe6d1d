"""Whether a model is trained on agents that were selected like those of the test set.

The test set of the competition holds the agents of frame 99 of each scene that stay valid for at least 10 more frames,
however short their past. :class:`~l5kit.dataset.agent.AgentDataset` takes, unless told otherwise, agents with at least
10 past frames and 1 future frame. Models that were trained so have never seen the agents with a short past.
"""

import os
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import BoolArray, NumericArray, UInt32Array
from l5kit.data.filter import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.unpack_limits import UnpackLimits
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.evaluation.csv_utils import read_gt_csv

if TYPE_CHECKING:
    from l5kit.dataset.agent import AgentDataset
    from l5kit.dataset.select_agents.thresholds import MaskThresholds

MASK_FILE = "mask.npz"
"""In the folder of a chopped dataset: which agent rows are its test agents."""

GROUND_TRUTH_FILE = "gt.csv"
"""In the folder of a chopped dataset: where its test agents go."""

MASK_KEY = "arr_0"
"""Array of the mask file that holds the mask, bool (N,), as in L5Kit 1.5; beside it are the fields of a Selection."""

_MASK_LIMITS = UnpackLimits(free_bytes=1 << 29)
"""A mask is a byte for each agent, hardly any of which differ: it may be packed a thousand times smaller."""


def is_chopped_set(folder: Path) -> bool:
    """Return whether a folder is a test set of ``l5kit chop``, or of L5Kit 1.5."""
    return all((folder / name).is_file() for name in (MASK_FILE, GROUND_TRUTH_FILE))


def find_evaluated_log(data_manager: LocalDataManager, key: str) -> Path:
    """Return the path of the log that a key names, or of the folder of a test set, which may lie anywhere.

    Raises:
        InvalidArgumentError: The data folder itself is a test set.
        FileNotFoundError: There is nothing of that name.
    """
    if is_chopped_set(data_manager.root_folder):
        raise InvalidArgumentError(
            f"the data folder {data_manager.root_folder} is a test set, which has no map; name the folder of the data "
            "it was made of, and the test set as the key of the log (--data CITY --key TEST-SET)"
        )
    elsewhere = Path(key)
    if not (data_manager.root_folder / key).exists() and is_chopped_set(elsewhere):
        return elsewhere
    return Path(data_manager.require(key))


@dataclass(frozen=True)
class Selection:
    """How many valid frames an agent must have to be taken.

    Attributes:
        min_frame_history: Least number before the current frame.
        min_frame_future: Least number after it.
    """

    min_frame_history: int = AGENT_MIN_FRAME_HISTORY
    min_frame_future: int = AGENT_MIN_FRAME_FUTURE

    @classmethod
    def of_dataset(cls, dataset: "AgentDataset") -> "Selection":
        """Return the least numbers of frames that the agents of a dataset have.

        That is what a dataset was made with, and is also known of datasets with a custom mask.

        Raises:
            InvalidArgumentError: The dataset has no agents.
        """
        if len(dataset) == 0:
            raise InvalidArgumentError(f"{dataset!r} has no agents, so that it does not tell how they were selected")
        history, future = dataset.load_agents_mask()[dataset.agents_indices].min(axis=0).tolist()
        return cls(history, future)


@dataclass(frozen=True)
class SelectionParity:
    """How the agents of a test set and those of a training were selected.

    Attributes:
        test: Of the test set.
        training: Of the training.
        num_test_agents: Agents of the test set.
        num_short_history: Those with fewer frames before than the training needs.
        num_short_future: Those with fewer frames after than the training needs.
    """

    test: Selection
    training: Selection
    num_test_agents: int
    num_short_history: int
    num_short_future: int

    @property
    def differences(self) -> tuple[str, ...]:
        """What differs, a clause each; empty where nothing does."""
        clauses = []
        if self.num_short_history:
            clauses.append(
                f"{self._share(self.num_short_history)} have fewer than {self.training.min_frame_history} past frames, "
                "and the training has no such agents: make its AgentDataset with "
                f"min_frame_history={self.test.min_frame_history}"
            )
        if self.num_short_future:
            clauses.append(
                f"{self._share(self.num_short_future)} have fewer than {self.training.min_frame_future} future frames, "
                "and the training has no such agents: make its AgentDataset with "
                f"min_frame_future={self.test.min_frame_future}"
            )
        if self.test.min_frame_future > self.training.min_frame_future:
            clauses.append(
                f"the training also has agents with as few as {self.training.min_frame_future} future frames, the test "
                f"set none below {self.test.min_frame_future}: make its AgentDataset with "
                f"min_frame_future={self.test.min_frame_future}"
            )
        return tuple(clauses)

    def warn(self, training_agents: str = "those of the training", *, stacklevel: int = 2) -> None:
        """Give a ``RuntimeWarning`` if something differs.

        Args:
            training_agents: What the agents of the training are called in it.
            stacklevel: As for ``warnings.warn``.
        """
        if self.differences:
            warnings.warn(
                f"the agents of the test set were selected in another way than {training_agents}: "
                + "; ".join(self.differences),
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def _share(self, count: int) -> str:
        return f"{count} of {self.num_test_agents} test agents ({100 * count / self.num_test_agents:.0f} %)"


def compare_selections(
    test_counts: NumericArray, training: Selection, *, test: Selection | None = None
) -> SelectionParity:
    """Return how the agents of a test set and those of a training were selected.

    Args:
        test_counts: Valid frames before and after each test agent, (n, 2).
        training: How the agents of the training are selected.
        test: How those of the test set were; None for the least numbers of ``test_counts``.

    Raises:
        InvalidArgumentError: ``test_counts`` has another shape, or no row.
    """
    counts = np.asarray(test_counts)
    if counts.ndim != 2 or counts.shape[1] != 2 or len(counts) == 0:
        raise InvalidArgumentError(f"test_counts has shape {counts.shape}; pass (n, 2) with n > 0")
    return SelectionParity(
        test=test or Selection(*counts.min(axis=0).tolist()),
        training=training,
        num_test_agents=len(counts),
        num_short_history=int(np.count_nonzero(counts[:, 0] < training.min_frame_history)),
        num_short_future=int(np.count_nonzero(counts[:, 1] < training.min_frame_future)),
    )


def check_selection_parity(
    test_folder: str | os.PathLike[str],
    training: "AgentDataset | Selection",
    *,
    th_agent_prob: float = 0.5,
) -> SelectionParity:
    """Compare a chopped dataset with what a model is trained on, and warn if their agents were selected differently.

    Works on folders of ``l5kit chop`` and on those of L5Kit 1.5 and of the competition, where the futures are counted
    in the file of true positions.

    Args:
        test_folder: Folder with a ``.zarr``, ``mask.npz`` and ``gt.csv``.
        training: The dataset that is trained on, or how its agents are selected.
        th_agent_prob: Least summed probability of road users, that the mask was made with.

    Raises:
        DatasetNotFoundError: The folder lacks one of the three.
        InvalidArgumentError: Mask and dataset do not belong together, or the test set has no agents.
    """
    selection = training if isinstance(training, Selection) else Selection.of_dataset(training)
    folder = Path(test_folder)
    zarrs = sorted(folder.glob("*.zarr"))
    missing = [name for name in (MASK_FILE, GROUND_TRUTH_FILE) if not (folder / name).is_file()]
    if len(zarrs) != 1 or missing:
        raise DatasetNotFoundError(
            f"test_folder {str(folder)!r} must hold one .zarr, {MASK_FILE} and {GROUND_TRUTH_FILE}; it has "
            f"{len(zarrs)} .zarr and lacks {' and '.join(missing) or 'no file'}; make it with l5kit chop"
        )
    from l5kit.dataset.select_agents.thresholds import MaskThresholds

    # frames of the past, (n,), come from the agents mask of the log, those of the future, (n, T), from the file of true
    # positions, as the log is cut behind the test agents; the mask file says how these were selected if l5kit wrote it
    dataset = ChunkedDataset(str(zarrs[0])).open()
    mask, test = load_mask(folder)
    if mask.shape != (len(dataset.agents),):
        raise InvalidArgumentError(
            f"{str(folder / MASK_FILE)!r} holds a mask of shape {mask.shape}, but the dataset beside it needs "
            f"({len(dataset.agents)},)"
        )
    past = load_agent_counts(dataset, MaskThresholds(th_agent_prob))[mask, 0].astype(np.int64)
    avails = np.array([row["avail"] for row in read_gt_csv(folder / GROUND_TRUTH_FILE)])
    if len(past) != len(avails) or len(avails) == 0:
        raise InvalidArgumentError(
            f"{MASK_FILE} of {str(folder)!r} takes {len(past)} agents, {GROUND_TRUTH_FILE} has {len(avails)} rows: "
            "they must be as many, and not none; make the folder anew with l5kit chop"
        )
    future = np.count_nonzero(avails, axis=1)
    # what is known to the last step may go on for as long as the training asks for
    future[avails.all(axis=1)] = max(avails.shape[1], selection.min_frame_future)
    parity = compare_selections(np.stack([past, future], axis=1), selection, test=test)
    parity.warn(stacklevel=3)
    return parity


def load_agent_counts(
    dataset: ChunkedDataset,
    thresholds: "MaskThresholds",
    *,
    progress: Callable[[int, int], None] | None = None,
    workers: Workers = 1,
) -> UInt32Array:
    """Return the agents mask of a dataset, (N, 2); see :func:`~l5kit.dataset.mask_cache.load_or_compute_mask`.

    That it has to be computed is no news to whoever makes or reads a test set, so nothing is said about it.
    """
    from l5kit.dataset.mask_cache import load_or_compute_mask  # here, as datasets bring torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the agents mask of .* has to be computed", category=RuntimeWarning)
        return load_or_compute_mask(dataset, thresholds, progress=progress, strict=True, workers=workers)


def load_mask(folder: Path) -> tuple[BoolArray, Selection | None]:
    """Return the mask of a chopped dataset, (N,), and how its agents were selected if the file tells.

    Raises:
        InvalidArgumentError: The mask cannot be read.
    """
    file = folder / MASK_FILE
    try:
        with np.load(file) as arrays:
            _MASK_LIMITS.require_readable(arrays.zip)
            mask, others = arrays[MASK_KEY], set(arrays.files)
            names = [each.name for each in fields(Selection)]
            tells = others.issuperset(names)
            minima = [int(arrays[name]) for name in names if tells]
    except (AttributeError, EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(f"{str(file)!r} cannot be read as a mask ({error})") from error
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise InvalidArgumentError(f"{str(file)!r} holds {mask.dtype} of shape {mask.shape}; a mask is bool, (N,)")
    return mask, Selection(*minima) if tells else None
