"""Record type for zarr: records whose fields are arrays.

The structured type of zarr-python 3 refuses fields such as ``("centroid", "<f8", (2,))``, which the dataset format is
made of. Importing this module registers a type that reads and writes them in zarr format 2; it is also an entry point
of the group ``zarr.data_type``, so that plain ``zarr.open`` finds it. From then on ``zarr.open(..., mode="w",
dtype=records.dtype, zarr_format=2)`` stores any such records.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike
from zarr.core.dtype.common import HasItemSize
from zarr.dtype import Structured, ZDType, data_type_registry

from l5kit._types import DType

try:
    from zarr.errors import DataTypeValidationError  # type: ignore[attr-defined, unused-ignore]
except ImportError:  # zarr before 3.2
    from zarr.dtype import DataTypeValidationError

_JSON_NAME = "l5kit_record"


@dataclass(frozen=True, kw_only=True)
class RecordDType(ZDType[np.dtype[np.void], np.void], HasItemSize):
    """Packed record type with at least one sub-array field.

    Attributes:
        fields: Name, NumPy type string and shape (empty for a scalar) of each field.
    """

    dtype_cls = np.dtypes.VoidDType  # type: ignore[assignment]
    _zarr_v3_name: ClassVar[str] = _JSON_NAME
    fields: tuple[tuple[str, str, tuple[int, ...]], ...]

    @classmethod
    def from_numpy(cls, dtype: DTypeLike) -> Self:
        """Return the type of packed records of a NumPy dtype, or of anything NumPy takes as one."""
        record = np.dtype(dtype)
        if record.fields is None or record.names is None:
            raise DataTypeValidationError(f"expected a NumPy dtype with named fields, got {record}")
        return cls(fields=tuple((name, record[name].base.str, record[name].shape) for name in record.names))

    @classmethod
    def from_native_dtype(cls, dtype: DType) -> Self:
        """Return the type of a NumPy dtype with a sub-array field; leave all others to zarr's own types."""
        names = getattr(dtype, "names", None) or ()
        if all(dtype[name].shape == () for name in names):
            raise DataTypeValidationError(f"expected a NumPy dtype with a sub-array field, got {dtype}")
        return cls.from_numpy(dtype)

    def to_native_dtype(self) -> np.dtype[np.void]:
        """Return the NumPy dtype."""
        return np.dtype(list(self.fields))

    @property
    def item_size(self) -> int:
        """Bytes of one record."""
        return int(self.to_native_dtype().itemsize)

    @classmethod
    def _from_json_v2(cls, data: object) -> Self:
        fields = data.get("name") if isinstance(data, dict) else None
        if not isinstance(fields, Sequence) or isinstance(fields, str) or not any(len(field) == 3 for field in fields):
            raise DataTypeValidationError(f"expected a list of fields, one with a shape at least, got {data!r}")
        try:
            dtype = np.dtype([(field[0], field[1], tuple(field[2]) if len(field) == 3 else ()) for field in fields])
        except (TypeError, ValueError, IndexError) as error:
            message = f"expected fields of [name, type] or [name, type, shape], got {data!r}"
            raise DataTypeValidationError(message) from error
        return cls.from_numpy(dtype)

    @classmethod
    def _from_json_v3(cls, data: object) -> Self:
        raise DataTypeValidationError(f"records with sub-array fields are stored in zarr format 2 only, got {data!r}")

    def to_json(self, zarr_format: int) -> Any:
        """Return the type in the notation of ``.zarray``."""
        if zarr_format != 2:
            raise ValueError(
                f"zarr_format must be 2 for records with sub-array fields, got {zarr_format}; pass zarr_format=2, or "
                "store each field as an array of its own"
            )
        fields = [[name, kind, list(shape)] if shape else [name, kind] for name, kind, shape in self.fields]
        return {"name": fields, "object_codec_id": None}

    def _check_scalar(self, data: object) -> bool:
        return isinstance(data, (np.void, bytes, tuple, int))

    def cast_scalar(self, data: object) -> np.void:
        """Return a record from ``data``: a record, its bytes, a tuple of its fields, or 0 for all zero bytes."""
        if isinstance(data, bytes):
            stored: np.void = np.frombuffer(data, dtype=self.to_native_dtype())[0]
            return stored
        if isinstance(data, int) and data == 0:
            return self.default_scalar()
        if not self._check_scalar(data):
            raise TypeError(f"cannot make a record of {data!r}; pass a record, a tuple of its fields or its bytes")
        record: np.void = np.array([data], dtype=self.to_native_dtype())[0]
        return record

    def default_scalar(self) -> np.void:
        """Return the record of all zero bytes."""
        zero: Any = np.zeros((), dtype=self.to_native_dtype())[()]  # NumPy's types take it for an array
        record: np.void = zero
        return record

    def from_json_scalar(self, data: object, *, zarr_format: int) -> np.void:  # noqa: ARG002
        """Return the record given as base64 text in ``.zarray`` (None or 0: the record of all zero bytes)."""
        if data is None or data == 0:
            return self.default_scalar()
        if not isinstance(data, str):
            raise TypeError(f"expected the fill value as base64 text, got {data!r}")
        return self.cast_scalar(base64.standard_b64decode(data))

    def to_json_scalar(self, data: object, *, zarr_format: int) -> str:  # noqa: ARG002
        """Return a record as the base64 text of its bytes."""
        record = np.asarray(self.cast_scalar(data), dtype=self.to_native_dtype())
        return base64.standard_b64encode(record.tobytes()).decode("ascii")


def _leave_sub_arrays_to_us(other: type[Structured]) -> None:
    """Make another zarr type decline records with sub-array fields, as zarr refuses a dtype that two types accept.

    The structured type of zarr treats such fields as raw bytes, and then fails to create an array.
    """
    take = other.from_native_dtype.__func__  # type: ignore[attr-defined]

    def from_native_dtype(cls: type[Structured], dtype: DType) -> Structured:
        if any(dtype[name].shape for name in getattr(dtype, "names", None) or ()):
            raise DataTypeValidationError(f"expected a NumPy dtype without sub-array fields, got {dtype}")
        taken: Structured = take(cls, dtype)
        return taken

    other.from_native_dtype = classmethod(from_native_dtype)  # type: ignore[assignment, method-assign]


_leave_sub_arrays_to_us(Structured)
data_type_registry.register(_JSON_NAME, RecordDType)
