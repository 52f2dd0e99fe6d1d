"""Array aliases used in annotations throughout l5kit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
UInt32Array = NDArray[np.uint32]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
NumericArray = NDArray[Any]
RecordArray = NDArray[np.void]
"""Structured array of one of the record types of :mod:`l5kit.data.records`."""
