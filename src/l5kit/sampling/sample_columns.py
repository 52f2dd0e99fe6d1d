"""Columns of samples: a batch as one array for each key, and its memory.

Columns are NumPy arrays, except that rasters may be tensors on the device of their rasterizer, which are not copied to
the host here.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import BoolArray, Column, NumericArray, Sample
from l5kit.data.display import html_columns
from l5kit.errors import InvalidArgumentError
from l5kit.sampling.sample_keys import ALIASES


@dataclass(frozen=True)
class ColumnMemory:
    """Memory for the columns of a batch.

    Attributes:
        keys: Keys with memory; only these are requested.
        give: Returns an uninitialized array for a key, shape and dtype, or None for new memory. It may be called twice
            for a key of a batch, and must then return the same array.
    """

    keys: Collection[str]
    give: Callable[[str, tuple[int, ...], DTypeLike], NumericArray | None]


@dataclass(frozen=True)
class SampleColumns(Mapping[str, Column]):
    """B samples as a mapping of keys to arrays (B, ...).

    Attributes:
        arrays: The arrays by key.
        is_made: Mask of the samples that could be made, (B,); the others hold zeros.

    Raises:
        InvalidArgumentError: An array has a different number of rows.
    """

    arrays: Mapping[str, Column]
    is_made: BoolArray

    def __post_init__(self) -> None:
        if set(map(len, self.arrays.values())) - {len(self.is_made)}:
            shapes = {key: tuple(array.shape) for key, array in self.arrays.items() if len(array) != len(self.is_made)}
            raise InvalidArgumentError(f"SampleColumns: {shapes} are not columns of {len(self.is_made)} samples")

    @property
    def num_samples(self) -> int:
        """Number of samples, B."""
        return len(self.is_made)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{key} {tuple(array.shape)}" for key, array in self.arrays.items())
        return f"<SampleColumns of {self.num_samples} samples: {shapes}>"

    def _repr_html_(self) -> str:
        """Return a table of the columns for notebooks."""
        return html_columns(f"{self.num_samples} samples", self.arrays)

    def __getitem__(self, key: str) -> Column:
        return self.arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def sample(self, index: int) -> Sample:
        """Return one sample: views of the arrays, the heading as a float."""
        return sample_of(self.arrays, index)

    @classmethod
    def of_all(cls, arrays: Mapping[str, Column], num_samples: int) -> "SampleColumns":
        """Return columns of samples that could all be made."""
        return cls(arrays, np.ones(num_samples, np.bool_))


def sample_of(columns: Mapping[str, Column], index: int) -> Sample:
    """Return one sample of columns: views of them, the heading as a float."""
    sample: Sample = {key: column[index] for key, column in columns.items()}
    # two names of one key hold the same object
    for alias, key in ALIASES.items():
        if alias in sample:
            sample[alias] = sample[key]
    sample["yaw"] = float(sample["yaw"])
    return sample


def stored(columns: Mapping[str, Column], memory: ColumnMemory | None) -> dict[str, Column]:
    """Return columns in given memory, copied unless they are already there.

    Args:
        columns: Arrays by key.
        memory: Memory for them; None to leave them where they are.
    """
    in_memory = dict(columns)
    if memory is None:
        return in_memory
    for key, values in columns.items():
        if key not in memory.keys or not isinstance(values, np.ndarray):
            continue  # a tensor has its own memory
        array = memory.give(key, values.shape, values.dtype)
        if array is not None and not np.may_share_memory(array, values):
            array[...] = values
        in_memory[key] = values if array is None else array
    return in_memory


def memory_of(out: "Mapping[str, NumericArray] | ColumnMemory | None") -> ColumnMemory | None:
    """Return the memory of columns.

    Args:
        out: Arrays by key, for at least as many samples: the first rows of each are written, missing keys get new
            memory. Or an allocator; or None.

    Raises:
        InvalidArgumentError: Two arrays overlap that are not two names of one column.
    """
    if out is None or isinstance(out, ColumnMemory):
        return out
    arrays = out
    _refuse_overlaps(arrays)

    def given(key: str, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray | None:
        array = arrays.get(key)
        if array is None:
            return None
        if not isinstance(array, np.ndarray):
            raise InvalidArgumentError(
                f"out[{key!r}] is a {type(array).__name__}; this batch needs a NumPy array of shape {shape} and type "
                f"{np.dtype(dtype)}, or one of more samples"
            )
        flags = array.flags
        if (
            array.ndim != len(shape)
            or array.shape[1:] != shape[1:]
            or len(array) < shape[0]
            or array.dtype != dtype
            or not flags.c_contiguous
            or not flags.writeable
        ):
            raise InvalidArgumentError(
                f"out[{key!r}] has shape {array.shape} and type {array.dtype}{'' if flags.writeable else ', read-only'}"
                f"; this batch needs a writable, C-contiguous array of shape {shape} and type {np.dtype(dtype)}, or "
                "one of more samples"
            )
        return array[: shape[0]]

    return ColumnMemory(arrays.keys(), given)


def require_keys(out: "Mapping[str, NumericArray] | ColumnMemory | None", columns: Mapping[str, Column]) -> None:
    """Refuse memory for unknown keys, such as misspelt ones.

    Args:
        out: As for :func:`memory_of`.
        columns: The columns by key.

    Raises:
        InvalidArgumentError: There is such a key.
    """
    # allocators may have more keys; tested first, as a test for a mapping takes longer
    if out is None or isinstance(out, ColumnMemory):
        return
    if not out.keys() <= columns.keys():
        unknown = sorted(map(str, out.keys() - columns.keys()))
        raise InvalidArgumentError(
            f"out has {', '.join(map(repr, unknown))}, which these samples do not have; leave it out, or use one of "
            f"their keys: {', '.join(columns)}"
        )


def _refuse_overlaps(arrays: Mapping[str, NumericArray]) -> None:
    """Raise an InvalidArgumentError if two arrays share memory that are not two names of one column."""
    names_by_owner: dict[int, list[str]] = {}
    for key, array in arrays.items():
        if isinstance(array, np.ndarray):
            owner = array if array.base is None else array.base
            is_known = isinstance(owner, np.ndarray) and owner.base is None  # not, for example, a tensor
            names_by_owner.setdefault(id(owner) if is_known else 0, []).append(key)
    if len(names_by_owner) == len(arrays) and 0 not in names_by_owner:
        return  # fast path: all arrays own their memory

    # sorted by address, each array of an owner must end before the next one begins
    byte_bounds = np.lib.array_utils.byte_bounds
    for names in names_by_owner.values():
        bounds = sorted((*byte_bounds(arrays[name]), name) for name in names if arrays[name].size)
        for (first, end, name), (next_first, next_end, key) in itertools.pairwise(bounds):
            is_alias = (first, end) == (next_first, next_end) and ALIASES.get(name, name) == ALIASES.get(key, key)
            if next_first < end and not is_alias:
                raise InvalidArgumentError(
                    f"out[{name!r}] and out[{key!r}] share memory, so that one would overwrite the other; pass arrays "
                    "that do not overlap"
                )


def scattered(made: Mapping[str, Column], is_made: BoolArray) -> dict[str, Column]:
    """Return the columns of some samples as columns of a whole batch, with zeros for the other samples.

    Args:
        made: Columns of the samples that could be made.
        is_made: Mask of these in the batch, (B,).
    """
    columns: dict[str, Column] = {}
    for key, column in made.items():
        if key in ALIASES:
            continue
        shape = (len(is_made), *column.shape[1:])
        if isinstance(column, np.ndarray):
            columns[key] = np.zeros(shape, column.dtype)
            columns[key][is_made] = column
        else:  # rasters of a device
            columns[key] = column.new_zeros(shape)
            columns[key][np.flatnonzero(is_made)] = column
    return {key: columns[ALIASES.get(key, key)] for key in made}
