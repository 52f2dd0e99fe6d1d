"""Selection parity: whether the agents of a training were selected like those of the test set.

The test set of the competition contains the agents of frame 99 of each scene that stay valid for at least 10 more
frames, however short their past. By default, :class:`~l5kit.dataset.agent.AgentDataset` selects agents with at least 10
past frames and 1 future frame. Models trained this way have never seen agents with a short past.
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
"""File of a chopped dataset with the mask of its test agents."""

GROUND_TRUTH_FILE = "gt.csv"
"""File of a chopped dataset with the true positions of its test agents."""

MASK_KEY = "arr_0"
"""Array with the mask in the mask file, bool (N,), as in L5Kit 1.5; the file also has the fields of a Selection."""

_MASK_LIMITS = UnpackLimits(free_bytes=1 << 29)
"""A mask is one byte per agent, mostly equal, so it may be compressed a thousand times."""


def is_chopped_set(folder: Path) -> bool:
    """Return whether a folder is a test set of ``l5kit chop`` or of L5Kit 1.5."""
    return all((folder / name).is_file() for name in (MASK_FILE, GROUND_TRUTH_FILE))


def find_evaluated_log(data_manager: LocalDataManager, key: str) -> Path:
    """Return the path of the log that a key names, or of a test set, which may be anywhere.

    Raises:
        InvalidArgumentError: The data folder itself is a test set.
        FileNotFoundError: Neither exists.
    """
    if is_chopped_set(data_manager.root_folder):
        raise InvalidArgumentError(
            f"the data folder {data_manager.root_folder} is a test set, which has no map; pass the folder of the "
            "original data, and the test set as the key of the log (--data CITY --key TEST-SET)"
        )
    elsewhere = Path(key)
    if not (data_manager.root_folder / key).exists() and is_chopped_set(elsewhere):
        return elsewhere
    return Path(data_manager.require(key))


@dataclass(frozen=True)
class Selection:
    """Minimum numbers of valid frames of selected agents.

    Attributes:
        min_frame_history: Minimum number before the current frame.
        min_frame_future: Minimum number after the current frame.
    """

    min_frame_history: int = AGENT_MIN_FRAME_HISTORY
    min_frame_future: int = AGENT_MIN_FRAME_FUTURE

    @classmethod
    def of_dataset(cls, dataset: "AgentDataset") -> "Selection":
        """Return the smallest numbers of frames among the agents of a dataset.

        These are the minima used to create it, but also known for datasets with a custom mask.

        Raises:
            InvalidArgumentError: The dataset has no agents.
        """
        if len(dataset) == 0:
            raise InvalidArgumentError(f"{dataset!r} has no agents, so their selection is unknown")
        history, future = dataset.load_agents_mask()[dataset.agents_indices].min(axis=0).tolist()
        return cls(history, future)


@dataclass(frozen=True)
class SelectionParity:
    """Comparison of the selections of agents of a test set and of a training.

    Attributes:
        test: Selection of the test set.
        training: Selection of the training.
        num_test_agents: Number of agents of the test set.
        num_short_history: Number of them with fewer past frames than the training requires.
        num_short_future: Number of them with fewer future frames than the training requires.
    """

    test: Selection
    training: Selection
    num_test_agents: int
    num_short_history: int
    num_short_future: int

    @property
    def differences(self) -> tuple[str, ...]:
        """Descriptions of the differences; empty without any."""
        clauses = []
        if self.num_short_history:
            clauses.append(
                f"{self._share(self.num_short_history)} have fewer than {self.training.min_frame_history} past frames, "
                "but the training has no such agents: create its AgentDataset with "
                f"min_frame_history={self.test.min_frame_history}"
            )
        if self.num_short_future:
            clauses.append(
                f"{self._share(self.num_short_future)} have fewer than {self.training.min_frame_future} future frames, "
                "but the training has no such agents: create its AgentDataset with "
                f"min_frame_future={self.test.min_frame_future}"
            )
        if self.test.min_frame_future > self.training.min_frame_future:
            clauses.append(
                f"the training also has agents with only {self.training.min_frame_future} future frames, but the test "
                f"set none below {self.test.min_frame_future}: create its AgentDataset with "
                f"min_frame_future={self.test.min_frame_future}"
            )
        return tuple(clauses)

    def warn(self, training_agents: str = "those of the training", *, stacklevel: int = 2) -> None:
        """Issue a ``RuntimeWarning`` if the selections differ.

        Args:
            training_agents: Name of the agents of the training in the message.
            stacklevel: As for ``warnings.warn``.
        """
        if self.differences:
            warnings.warn(
                f"the agents of the test set were selected differently from {training_agents}: "
                + "; ".join(self.differences),
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def _share(self, count: int) -> str:
        return f"{count} of {self.num_test_agents} test agents ({100 * count / self.num_test_agents:.0f} %)"


def compare_selections(
    test_counts: NumericArray, training: Selection, *, test: Selection | None = None
) -> SelectionParity:
    """Compare the selection of the agents of a test set with that of a training.

    Args:
        test_counts: Numbers of valid frames before and after each test agent, (n, 2).
        training: Selection of the training.
        test: Selection of the test set; None for the minima of ``test_counts``.

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
    """Compare a chopped dataset with the data of a training, and warn if their agents were selected differently.

    Works on folders of ``l5kit chop``, and on those of L5Kit 1.5 and of the competition, for which futures are counted
    in the file of true positions.

    Args:
        test_folder: Folder with a ``.zarr``, ``mask.npz`` and ``gt.csv``.
        training: Dataset of the training, or the selection of its agents.
        th_agent_prob: Minimum summed probability of road users with which the mask was made.

    Raises:
        DatasetNotFoundError: The folder lacks one of the three.
        InvalidArgumentError: Mask and dataset do not match, or the test set has no agents.
    """
    selection = training if isinstance(training, Selection) else Selection.of_dataset(training)
    folder = Path(test_folder)
    zarrs = sorted(folder.glob("*.zarr"))
    missing = [name for name in (MASK_FILE, GROUND_TRUTH_FILE) if not (folder / name).is_file()]
    if len(zarrs) != 1 or missing:
        raise DatasetNotFoundError(
            f"test_folder {str(folder)!r} must hold one .zarr, {MASK_FILE} and {GROUND_TRUTH_FILE}; it has "
            f"{len(zarrs)} .zarr and lacks {' and '.join(missing) or 'no file'}; create it with l5kit chop"
        )
    from l5kit.dataset.select_agents.thresholds import MaskThresholds

    # Past frames, (n,), come from the agents mask of the log. Future frames, (n, T), come from the file of true
    # positions, as the log ends at the test agents. A mask file written by l5kit also has the selection.
    dataset = ChunkedDataset(str(zarrs[0])).open()
    mask, test = load_mask(folder)
    if mask.shape != (len(dataset.agents),):
        raise InvalidArgumentError(
            f"{str(folder / MASK_FILE)!r} holds a mask of shape {mask.shape}, but the dataset next to it needs "
            f"({len(dataset.agents)},)"
        )
    past = load_agent_counts(dataset, MaskThresholds(th_agent_prob))[mask, 0].astype(np.int64)
    avails = np.array([row["avail"] for row in read_gt_csv(folder / GROUND_TRUTH_FILE)])
    if len(past) != len(avails) or len(avails) == 0:
        raise InvalidArgumentError(
            f"{MASK_FILE} of {str(folder)!r} selects {len(past)} agents, but {GROUND_TRUTH_FILE} has {len(avails)} "
            "rows: both must be the same, above 0; create the folder again with l5kit chop"
        )
    future = np.count_nonzero(avails, axis=1)
    # an agent known up to the last step may continue for as long as the training requires
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

    A test set always needs the mask, so the warning that it has to be computed is suppressed.
    """
    from l5kit.dataset.mask_cache import load_or_compute_mask  # imported here, as it imports torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the agents mask of .* has to be computed", category=RuntimeWarning)
        return load_or_compute_mask(dataset, thresholds, progress=progress, strict=True, workers=workers)


def load_mask(folder: Path) -> tuple[BoolArray, Selection | None]:
    """Return the mask of a chopped dataset, (N,), and the selection of its agents if the file has it.

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
