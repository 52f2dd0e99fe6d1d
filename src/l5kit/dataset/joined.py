"""Joined datasets: samples of several logs, each with its own map, as one dataset."""

from collections.abc import Sequence

import numpy as np

from l5kit._types import Int64Array, Sample
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import SampleBatch
from l5kit.dataset.torch_parts import Dataset
from l5kit.errors import InvalidArgumentError


class JoinedDataset(Dataset[Sample]):
    """The samples of several datasets, one dataset after the other.

    A batch may hold samples of all of them. ``scene_index``, ``frame_index`` and ``track_id`` refer to the log of the
    sample.

    Args:
        parts: The datasets; all make samples of the same keys and shapes.

    Attributes:
        parts: The datasets.

    Raises:
        InvalidArgumentError: There are none.
    """

    def __init__(self, parts: Sequence[BaseEgoDataset]) -> None:
        if not parts:
            raise InvalidArgumentError("parts is empty; pass at least one dataset")
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> Sample:
        """Return a sample.

        Args:
            index: Its index; negative counts from the end.

        Raises:
            IndexError: There is no such sample.
            SampleError: The sample cannot be made; the cause is chained.
        """
        part, position = self.part_of(index)
        return self.parts[part][position]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Return several samples at once, made part by part; see :meth:`BaseEgoDataset.__getitems__`.

        Raises:
            IndexError: There is no such sample.
            SampleError: A sample cannot be made; the cause is chained.
        """
        used, order = self.split(indices)
        made: list[list[Sample]] = [self.parts[part].__getitems__(positions) for part, positions in used]
        if len(made) == 1:
            return made[0]
        # join batches of arrays to one batch of arrays, in the order of the indices
        batches = [batch.columns for batch in made if isinstance(batch, SampleBatch)]
        if (
            batches
            and len(batches) == len(made)
            and all(isinstance(batch[key], np.ndarray) for key in batches[0] for batch in batches)
        ):
            parts = {key: [np.asarray(batch[key]) for batch in batches] for key in batches[0]}
            return SampleBatch({key: np.concatenate(columns)[order] for key, columns in parts.items()})
        samples = [sample for part in made for sample in part]
        return [samples[row] for row in order]

    def split(self, indices: Sequence[int]) -> tuple[list[tuple[int, list[int]]], Int64Array]:
        """Return the used parts with the indices in each, and the order that restores the order of ``indices``.

        Raises:
            IndexError: There is no such sample.
        """
        located = np.array([self.part_of(index) for index in indices], np.int64).reshape(-1, 2)
        used = np.unique(located[:, 0]).tolist()
        rows = [np.flatnonzero(located[:, 0] == part) for part in used]
        order = np.argsort(np.concatenate(rows)) if rows else np.empty(0, np.int64)
        return [(part, located[of_part, 1].tolist()) for part, of_part in zip(used, rows, strict=True)], order

    def part_of(self, index: int) -> tuple[int, int]:
        """Return the part of a sample, and its index in it.

        Raises:
            IndexError: There is no such sample.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range; there are {len(self)} samples")
        position = int(index) % len(self)
        part = int(np.searchsorted(self._ends, position, side="right"))
        return part, position - (int(self._ends[part - 1]) if part else 0)

    def scene_starts(self) -> Int64Array | None:
        """Return the first sample of each scene of all parts, and the number of samples, int64 (S + 1,).

        Returns None if the log of a part is damaged.
        """
        starts = [np.zeros(1, np.int64)]
        for part in self.parts:
            of_part = part.scene_starts()
            if of_part is None:
                return None
            starts.append(of_part[1:] + starts[-1][-1])
        return np.concatenate(starts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples of {len(self.parts)} datasets)"
