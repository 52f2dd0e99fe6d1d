"""Array aliases used in annotations throughout l5kit."""

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
"""Type of the elements of an array, whatever it is."""

RecordArray = NDArray[np.void]
"""Structured array of one of the record types of :mod:`l5kit.data.records`."""

JsonObject: TypeAlias = dict[str, Any]
"""What an object of JSON or a mapping of YAML is read as: values of any kind by key."""

Config: TypeAlias = Mapping[str, Any]
"""A configuration, or a section of one, as dictionaries; ``l5kit.configs`` reads what it says."""

Sample = dict[str, Any]
"""One sample of a dataset: arrays and numbers by key."""

PickledState: TypeAlias = dict[str, Any]
"""What an object is pickled as: values of any kind by the name of a part, which its class gives and takes."""

RecordPart: TypeAlias = Any
"""What an array of records gives for an index: one record, an array of records, or the column of a field."""


class DeviceArray(Protocol):
    """Array on a device: the part of ``torch.Tensor`` that columns of samples need, so that nothing imports torch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along each axis."""

    @property
    def dtype(self) -> Any:
        """Type of a value, one of the device's library."""

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
        """Return a view with other orders of the axes."""


Column: TypeAlias = NumericArray | DeviceArray
"""The values of B samples under one key, (B, ...): a NumPy array, or a tensor, which may lie on a device."""


class Records(Protocol):
    """Records of frames, agents, faces or scenes: a NumPy array, or an array of a dataset that reads like one."""

    @property
    def dtype(self) -> DType:
        """Type of a record."""

    def __len__(self) -> int:
        """Return the number of records."""

    def __getitem__(self, index: Any, /) -> RecordPart:
        """Return what NumPy would."""


class Log(Protocol):
    """The four arrays of records of a dataset, and where they were read."""

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
