"""Type aliases and protocols for annotations throughout l5kit."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
UInt32Array = NDArray[np.uint32]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
NumericArray = NDArray[Any]
DType = np.dtype[Any]
"""Type of the elements of an array, of any kind."""

RecordArray = NDArray[np.void]
"""Structured array of one of the record types of :mod:`l5kit.data.records`."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object or YAML mapping: values of any kind by key."""

Config: TypeAlias = Mapping[str, Any]
"""A configuration, or a section of one, as dictionaries; ``l5kit.configs`` parses it."""

Sample = dict[str, Any]
"""One sample of a dataset: arrays and numbers by key."""

PickledState: TypeAlias = dict[str, Any]
"""Pickled state of an object: values of any kind by attribute name."""

RecordPart: TypeAlias = Any
"""Result of indexing an array of records: one record, an array of records, or the column of a field."""


class DeviceArray(Protocol):
    """Array on a device: the part of ``torch.Tensor`` that columns of samples need, without importing torch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along each axis."""

    @property
    def dtype(self) -> Any:
        """Type of a value, in the library of the device."""

    def __len__(self) -> int:
        """Return the size along the first axis."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return a part."""

    def __iter__(self) -> Iterator[Any]:
        """Yield views along the first axis."""

    def __setitem__(self, index: Any, value: Any, /) -> None:
        """Change a part."""

    def new_zeros(self, size: tuple[int, ...], /) -> Any:
        """Return zeros of this type, on the same device."""

    def permute(self, dims: tuple[int, ...], /) -> Any:
        """Return a view with permuted axes."""


Column: TypeAlias = NumericArray | DeviceArray
"""The values of B samples under one key, (B, ...): a NumPy array, or a tensor on any device."""


class Records(Protocol):
    """Records of frames, agents, faces or scenes: a NumPy array, or an array of a dataset that reads like one."""

    @property
    def dtype(self) -> DType:
        """Type of a record."""

    def __len__(self) -> int:
        """Return the number of records."""

    def __getitem__(self, index: Any, /) -> RecordPart:
        """Return records or a field, like a NumPy array."""


class Log(Protocol):
    """The four arrays of records of a dataset, and their location."""

    @property
    def path(self) -> str:
        """Folder or URL; empty for a log in memory."""

    @property
    def scenes(self) -> Records:
        """Records of scenes."""

    @property
    def frames(self) -> Records:
        """Records of frames."""

    @property
    def agents(self) -> Records:
        """Records of agents."""

    @property
    def tl_faces(self) -> Records:
        """Records of traffic light faces."""
