"""Export in columns: each field of a dataset as a plain, sharded zarr 3 array, readable by TensorStore and others."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec
from zarr.storage import LocalStore, MemoryStore

from l5kit import __version__
from l5kit._types import DType, Int64Array, JsonObject, Records
from l5kit.data.interop.export_folder import placed_export
from l5kit.data.interop.table_columns import AXES, FIELDS, ROW_AXES, axis_names
from l5kit.data.jobs.data_record import source_digest
from l5kit.data.jobs.job_folder import WritesFiles, require_shared
from l5kit.data.jobs.scene_jobs import KeptWorkers, Workers, map_scenes
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.layout import ARRAYS
from l5kit.data.progress import Progress
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FORMAT_VERSION, TL_FACE_ARRAY_KEY
from l5kit.data.stores.chunk_files import with_checked_lengths
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.columns_array import (
    FIELDS_KEY,
    LAYOUT_KEY,
    LAYOUT_NAME,
    LAYOUT_VERSION,
    SOURCE_KEY,
    plain_type,
)
from l5kit.data.stores.store import ZarrArray
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer

CHUNKS_PER_SHARD = 50
"""Largest number of chunks of rows in one file of a field: a million agents, half a million frames."""

_METADATA = "zarr.json"


def export_columns(
    dataset: ChunkedDataset,
    out: str | os.PathLike[str],
    *,
    sharded: bool = True,
    overwrite: bool = False,
    digest: str | None = None,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> None:
    """Write a dataset as zarr 3 with a plain array for each field, atomically.

    ``OUT/agents/centroid`` is an array of shape (N, 2), and so on. Rows are compressed in the chunks of the format
    (20,000 agents, 10,000 rows of other arrays), by Blosc with zstd and bit shuffling, each with a checksum (CRC-32C).
    Up to 50 chunks of a field are stored in one file (a shard). Texts are code points, (N, 16) uint32, padded with
    zeros. Attributes of arrays give units, frames and names along axes, those of the group the facts and all attributes
    of the dataset. Other members of its group, such as an agents mask, are copied.

    The export opens as a read-only dataset with identical bits, ``ChunkedDataset(out).open()``. Each worker needs two
    to three times the memory of one shard of records, which is 116 MB for agents.

    Args:
        dataset: Opened dataset, a view, or one in memory.
        out: Folder, by convention with ``.zarr`` in its name.
        sharded: False for one file per chunk, compressed by gzip, which has its own checksum: GDAL up to 3.12 and other
            readers support neither shards nor the checksum codec.
        overwrite: Replace an existing dataset or export.
        digest: Digest of the dataset, stored in the attribute ``l5kit_source``; the empty string for none. None
            computes it if the path of the dataset is on this machine, reading its files unless the digest is cached.
        progress: Called with the number of values written and their total, counted by rows and fields.
        workers: Number of threads that write shards at the same time, or an executor; the files do not depend on it.

    Raises:
        CorruptedDataError: Rows cannot be read, or (except for faces) their file is missing.
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        InvalidArgumentError: ``dataset`` is not a dataset, ``out`` is a URL or holds something else, the dataset has
            fields that plain arrays do not support, or the parts kept by ``workers`` are of another export.
        EngineError: A worker does not see the output folder.
    """
    if not isinstance(dataset, ChunkedDataset):
        raise InvalidArgumentError(f"dataset must be an opened dataset, got {dataset!r}; open one with ChunkedDataset")
    with placed_export(out, overwrite=overwrite) as complete:
        digest_of_source = source_digest(dataset, digest)
        if isinstance(workers, KeptWorkers):
            rows = {key: len(_records_of(dataset, key)) for key in ARRAYS}
            workers.job.require_same("export", {"sharded": sharded, "digest": digest_of_source, "rows": rows})

        # general attributes, then those of this dataset, then the marks of the layout, which take precedence
        attributes: JsonObject = {"format_version": FORMAT_VERSION, "labels": PERCEPTION_LABELS}
        attributes |= {} if dataset.own_facts is None else dataset.own_facts.as_attributes()
        source_root = getattr(dataset, "root", None)
        attributes |= {} if source_root is None else source_root.attrs.asdict()
        attributes[SOURCE_KEY] = {
            "digest": digest_of_source,
            "num_scenes": len(dataset.scenes),
            "l5kit_version": __version__,
        }
        attributes |= {
            "traffic_light_labels": TL_FACE_LABELS,
            LAYOUT_KEY: {"name": LAYOUT_NAME, "version": LAYOUT_VERSION},
        }
        root = zarr.open_group(LocalStore(complete), mode="w-", zarr_format=3, attributes=attributes)
        _copy_others(source_root, root, complete)
        _write_arrays(root, complete, dataset, sharded, progress, workers)


def _write_arrays(
    root: zarr.Group, folder: Path, dataset: ChunkedDataset, sharded: bool, progress: Progress | None, workers: Workers
) -> None:
    arrays = {key: _records_of(dataset, key) for key in ARRAYS}
    num_done, num_values = 0, sum(len(records) * len(records.dtype.names or ()) for records in arrays.values())
    source = getattr(dataset, "root", None)
    for key, records in arrays.items():
        kept = source[key].attrs.asdict() if source is not None and key in source else {}

        # name, type and shape of each field, as JSON
        dtype = records.dtype
        fields = [[name, dtype[name].base.str, list(dtype[name].shape)] for name in dtype.names or ()]
        group = root.create_group(key, attributes=kept | {FIELDS_KEY: fields})
        for name in records.dtype.names or ():
            _create_field(group, name, records, sharded)
    shards = tuple((key, start) for key, records in arrays.items() for start in range(0, len(records), _rows_in(key)))
    job = _WriteShards(folder, dataset, shards, sharded)
    with map_scenes(job, range(len(shards)), workers, block_size=1, unit="shard") as written:
        for num_written in written:
            num_done += num_written
            if progress is not None:
                progress(num_done, num_values)


def _records_of(dataset: ChunkedDataset, key: str) -> Records:
    records: Records = getattr(dataset, ARRAYS[key].attribute)
    return records


def _rows_in(key: str) -> int:
    """Return the largest number of rows in a shard of an array."""
    return ARRAYS[key].chunks[0] * CHUNKS_PER_SHARD


@dataclass(frozen=True)
class _WriteShards(WritesFiles):
    """Writes the files of some shards, one or more per field, and returns the number of values in them.

    The folder is the group; its arrays are created by the caller.

    Attributes:
        dataset: Dataset to write.
        shards: Array and first row of each shard.
        sharded: Whether the chunks of a shard are stored in one file.
    """

    dataset: ChunkedDataset
    shards: Sequence[tuple[str, int]]
    sharded: bool

    def __call__(self, indices: Int64Array) -> int:
        require_shared(self.folder)
        num_values = 0
        for key, start in (self.shards[index] for index in indices.tolist()):
            records = _records_of(self.dataset, key)
            source = records.uncached() if isinstance(records, ChunkedArray) else records
            end = min(start + _rows_in(key), len(source))
            rows = rows_of(source, slice(start, end), strict=key != TL_FACE_ARRAY_KEY)
            num_values += len(rows) * len(rows.dtype.names or ())
            for name in rows.dtype.names or ():
                # zarr writes to memory, so that the time in the gzip header can be removed before a file is written
                files: dict[str, Buffer] = {}
                group = zarr.create_group(MemoryStore(files), path=key, zarr_format=3)
                # the values in stored form, contiguous in memory
                stored, shape = plain_type(rows.dtype[name])
                values = np.ascontiguousarray(rows[name], dtype=rows.dtype[name].base.newbyteorder("<"))
                values = values.view(stored).reshape(len(rows), *shape)
                _create_field(group, name, records, self.sharded)[start:end] = values
                for relative, content in files.items():
                    if relative.endswith(_METADATA):
                        continue
                    # create only folders below the existing one: if it was removed, it must not reappear
                    path = self.folder
                    *folders, file_name = relative.split("/")
                    for each in folders:
                        path = path / each
                        path.mkdir(exist_ok=True)
                    written = content.to_bytes()
                    (path / file_name).write_bytes(written if self.sharded else _without_time(written))
        return num_values


def _without_time(compressed: bytes) -> bytes:
    """Return gzip output without its modification time, in bytes 4 to 7 (RFC 1952)."""
    return compressed[:4] + bytes(4) + compressed[8:]


def _create_field(group: zarr.Group, name: str, records: Records, sharded: bool) -> ZarrArray:
    """Create the array of a field, without values."""
    key = group.path
    field: DType = records.dtype[name]
    stored, shape = plain_type(field)
    axes = axis_names(name, field.shape)

    # metadata for readers: unit, frame and meaning, names along axes, and the additional axis of texts
    attributes: JsonObject = FIELDS[name].as_attributes() if name in FIELDS else {}
    named = {axis: list(AXES[axis]) for axis in axes if axis in AXES}
    attributes |= {"axes": named} if named else {}
    if len(shape) > len(field.shape):
        attributes["text"] = (
            "code points of the characters, filled up with zeros" if field.base.kind == "U" else "bytes"
        )
        axes = (*axes, "character")
    chunk_length = ARRAYS[key].chunks[0]
    num_chunks = min(
        max(-(-len(records) // chunk_length), 1), CHUNKS_PER_SHARD
    )  # a shard is at most as long as the array
    in_shards = [BloscCodec(typesize=stored.itemsize, cname="zstd", clevel=3, shuffle="bitshuffle"), Crc32cCodec()]
    array: ZarrArray = group.create_array(
        name,
        shape=(len(records), *shape),
        dtype=stored,
        chunks=(chunk_length, *shape),
        shards=(chunk_length * num_chunks, *shape) if sharded else None,
        compressors=in_shards if sharded else [GzipCodec(level=5)],
        fill_value=0,
        attributes=attributes,
        dimension_names=(ROW_AXES[key], *axes),
        config={"write_empty_chunks": True},  # a missing file then indicates lost data
    )
    return array


def _copy_others(source: Any, target: zarr.Group, folder: Path) -> None:
    """Copy members of a group other than the arrays of the dataset, chunk by chunk, into the group of a folder."""
    for name, member in [] if source is None else source.members():
        if name in ARRAYS and not target.path:
            continue
        if isinstance(member, zarr.Group):
            _copy_others(member, target.create_group(name, attributes=member.attrs.asdict()), folder / name)
            continue
        if member.dtype.kind not in "biuf":
            raise InvalidArgumentError(
                f"the dataset also holds the array {member.path!r} of {member.dtype}, which plain arrays of zarr 3 do "
                "not support; move it elsewhere before the export"
            )
        checked = with_checked_lengths(member)
        copied = target.create_array(
            name,
            shape=member.shape,
            dtype=member.dtype.newbyteorder("<"),
            chunks=member.chunks,
            compressors=[GzipCodec(level=5)],
            fill_value=member.fill_value,
            attributes=member.attrs.asdict(),
            config={"write_empty_chunks": True},
        )
        # copy one row of chunks of the first axis at a time, to limit memory
        if member.ndim == 0:
            copied[...] = np.asarray(checked[...])
        else:
            for start in range(0, member.shape[0], max(member.chunks[0], 1)):
                copied[start : start + member.chunks[0]] = np.asarray(checked[start : start + member.chunks[0]])
        for path in sorted((folder / name).rglob("*")):
            if path.is_file() and path.name != _METADATA:
                path.write_bytes(_without_time(path.read_bytes()))
