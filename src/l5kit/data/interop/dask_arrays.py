"""Dask arrays of the records of a dataset, whose chunks end where those of its files do."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from l5kit._types import Records
from l5kit.data.interop.chunk_bounds import PartsOfRecords
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import dask.array as da


def to_dask_array(records: Records, field: str | None = None, *, chunks_at_once: int = 1) -> "da.Array":
    """Return an array of a dataset, or one field of it, as a Dask array; nothing is read until it is computed.

    The chunks of the Dask array end where chunks of the files do, so no file is read twice, and threads and other
    processes read their parts by themselves: of a dataset on disk only its place is sent. Fields of one array of
    records, ``to_dask_array(dataset.agents)["yaw"]``, are computed together from one reading.

    Args:
        records: Array of an opened dataset, such as ``dataset.agents``; also of a view, or a NumPy array.
        field: Name of a field; None for the records.
        chunks_at_once: Chunks of the files in each chunk of the Dask array: more, where there are so many that the
            tasks take longer to send than to do.

    Returns:
        Records of shape (N,), or the field, (N, ...). Units and frames are those of the field.

    Raises:
        InvalidArgumentError: ``records`` are none, there is no such field, or ``chunks_at_once`` is less than 1.
        MissingDependencyError: Dask is not installed.
    """
    try:
        import dask.array as da
    except ImportError as error:
        raise MissingDependencyError(f"Dask arrays need Dask: {install_command('xarray')}") from error
    parts = PartsOfRecords(records, chunks_at_once=chunks_at_once)
    names = parts.dtype.names or ()
    if field is not None and field not in names:
        raise InvalidArgumentError(f"field must be one of {list(names)}, or None for all, got {field!r}")
    empty = np.empty(0, dtype=parts.dtype)
    from_array: Any = da.from_array  # which has no types
    array: da.Array = from_array(parts, chunks=(parts.lengths,), name=f"l5kit-{uuid4()}", asarray=False, meta=empty)
    return array if field is None else array[field]
