"""Export in columns: each field of a dataset as one plain array of zarr 3, sharded, as TensorStore and others read."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec
from zarr.storage import LocalStore

from l5kit import __version__
from l5kit._types import DType, Int64Array, JsonObject, RecordArray, Records
from l5kit.data.interop.export_places import placed_export
from l5kit.data.interop.fields import AXES, FIELDS, ROW_AXES, axis_names
from l5kit.data.interop.source_digest import source_digest
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.layout import ARRAYS
from l5kit.data.progress import Progress
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FORMAT_VERSION, TL_FACE_ARRAY_KEY
from l5kit.data.scene_jobs import Workers, map_scenes, without_job
from l5kit.data.stores.checked_blosc import with_checked_lengths
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.store import ZarrArray
from l5kit.data.stores.stored_columns import (
    FIELDS_KEY,
    LAYOUT_KEY,
    SOURCE_KEY,
    as_plain,
    fields_attribute,
    layout_attribute,
    plain_type,
)
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

__all__ = ["export_columns"]

CHUNKS_PER_SHARD = 50
"""Chunks of rows in one file of a field, at most: a million agents, half a million frames."""


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
    """Write a dataset with one plain array for each field, as zarr 3, complete or not at all.

    ``OUT/agents/centroid`` is an array of shape (N, 2), and so on. Rows are compressed in the chunks of the format
    (20,000 agents, 10,000 of the others), by Blosc with zstd and bit shuffling, each with a checksum (CRC-32C). Up to
    50 chunks of a field lie in one file (a shard). Texts are code points, (N, 16) uint32, filled up with zeros.
    Arrays tell units, frames and names along their axes, the group the facts and all attributes of the dataset. What
    else lies in its group, such as an agents mask, comes along.

    The export opens as a dataset, ``ChunkedDataset(out).open()``, with the same bits; it is only read. Writing takes
    the memory of one shard of records, 116 MB for agents, two to three times over.

    Args:
        dataset: Opened dataset, a view, or one in memory.
        out: Folder, by custom with ``.zarr`` in its name.
        sharded: False for a file for each chunk, compressed by gzip, which has a checksum of its own: GDAL up to 3.12
            and other readers know neither shards nor the codec of checksums.
        overwrite: Replace a dataset or an export that is there.
        digest: Digest of the dataset, which the attribute ``l5kit_source`` tells; the empty text for none. None works
            it out where the path of the dataset is on this machine, for which its files are read unless the cache
            knows them.
        progress: Called with the number of values written and their total, counted by rows and fields.
        workers: Number of threads that write fields at the same time, or an executor; the files are the same.

    Raises:
        CorruptedDataError: Rows cannot be read, or (faces excepted) their file is missing.
        FileExistsError: There is something, and ``overwrite`` is False.
        InvalidArgumentError: ``dataset`` is none, ``out`` is a URL or holds something else, or the dataset has fields
            that no plain array can have.
    """
    if not isinstance(dataset, ChunkedDataset):
        raise InvalidArgumentError(f"dataset must be an opened dataset, got {dataset!r}; open one with ChunkedDataset")
    with placed_export(out, overwrite=overwrite) as complete:
        attributes = _attributes_of(dataset, source_digest(dataset, digest))
        root = zarr.open_group(LocalStore(complete), mode="w-", zarr_format=3, attributes=attributes)
        _write_arrays(root, dataset, sharded, progress, workers)
        _copy_others(getattr(dataset, "root", None), root)


def _attributes_of(dataset: ChunkedDataset, digest: str | None) -> JsonObject:
    """Return the attributes of a dataset, with what every dataset has, and the mark of the layout."""
    attributes: JsonObject = {"format_version": FORMAT_VERSION, "labels": PERCEPTION_LABELS}
    attributes |= {} if dataset.own_facts is None else dataset.own_facts.as_attributes()
    root = getattr(dataset, "root", None)
    attributes |= {} if root is None else root.attrs.asdict()
    attributes |= {SOURCE_KEY: {"digest": digest, "num_scenes": len(dataset.scenes), "l5kit_version": __version__}}
    return attributes | {"traffic_light_labels": TL_FACE_LABELS, LAYOUT_KEY: layout_attribute()}


def _write_arrays(
    root: zarr.Group, dataset: ChunkedDataset, sharded: bool, progress: Progress | None, workers: Workers
) -> None:
    arrays: dict[str, Records] = {key: getattr(dataset, attribute) for key, (attribute, _, _) in ARRAYS.items()}
    num_done, num_values = 0, sum(len(records) * len(records.dtype.names or ()) for records in arrays.values())
    source = getattr(dataset, "root", None)
    for key, records in arrays.items():
        kept = source[key].attrs.asdict() if source is not None and key in source else {}
        group = root.create_group(key, attributes=kept | {FIELDS_KEY: fields_attribute(records.dtype)})
        columns = {name: _create_field(group, name, records, sharded) for name in records.dtype.names or ()}
        for start, rows in _shards_of(records, ARRAYS[key][2][0], strict=key != TL_FACE_ARRAY_KEY):
            job = _WriteFields(rows, tuple(columns.items()), start)
            with map_scenes(job, range(len(columns)), without_job(workers), block_size=1, unit="field") as written:
                for _ in written:
                    num_done += len(rows)
                    if progress is not None:
                        progress(num_done, num_values)


@dataclass(frozen=True, eq=False)
class _WriteFields:
    """Writes the rows of a shard to the arrays of some fields, by their numbers."""

    rows: RecordArray
    columns: Sequence[tuple[str, ZarrArray]]
    start: int

    def __call__(self, numbers: Int64Array) -> None:
        for number in numbers.tolist():
            name, column = self.columns[number]
            column[self.start : self.start + len(self.rows)] = as_plain(self.rows, name)


def _shards_of(records: Records, chunk_length: int, *, strict: bool) -> Iterator[tuple[int, RecordArray]]:
    """Yield first row and rows of each shard, one of them in memory at a time."""
    source = records.uncached() if isinstance(records, ChunkedArray) else records
    step = chunk_length * CHUNKS_PER_SHARD
    for start in range(0, len(source), step):
        yield start, rows_of(source, slice(start, min(start + step, len(source))), strict=strict)


def _create_field(group: zarr.Group, name: str, records: Records, sharded: bool) -> ZarrArray:
    """Return the array of a field, yet to be written."""
    key = group.path
    field: DType = records.dtype[name]
    stored, shape = plain_type(field)
    axes = axis_names(name, field.shape)
    attributes: JsonObject = FIELDS[name].as_attributes() if name in FIELDS else {}
    named = {axis: list(AXES[axis]) for axis in axes if axis in AXES}
    attributes |= {"axes": named} if named else {}
    if len(shape) > len(field.shape):
        attributes["text"] = (
            "code points of the characters, filled up with zeros" if field.base.kind == "U" else "bytes"
        )
        axes = (*axes, "character")
    chunk_length = ARRAYS[key][2][0]
    num_chunks = min(max(-(-len(records) // chunk_length), 1), CHUNKS_PER_SHARD)
    array: ZarrArray = group.create_array(
        name,
        shape=(len(records), *shape),
        dtype=stored,
        chunks=(chunk_length, *shape),
        shards=(chunk_length * num_chunks, *shape) if sharded else None,
        compressors=_compressors(stored) if sharded else [GzipCodec(level=5)],
        fill_value=0,
        attributes=attributes,
        dimension_names=(ROW_AXES[key], *axes),
        config={"write_empty_chunks": True},  # so that a missing file means a lost one
    )
    return array


def _compressors(stored: DType) -> list[BytesBytesCodec]:
    return [BloscCodec(typesize=stored.itemsize, cname="zstd", clevel=3, shuffle="bitshuffle"), Crc32cCodec()]


def _copy_others(source: Any, target: zarr.Group) -> None:
    """Copy whatever lies in a group beside the arrays of the dataset, chunk by chunk."""
    for name, member in [] if source is None else source.members():
        if name in ARRAYS and not target.path:
            continue
        if isinstance(member, zarr.Group):
            _copy_others(member, target.create_group(name, attributes=member.attrs.asdict()))
        else:
            _copy_array(member, target, name)


def _copy_array(source: ZarrArray, target: zarr.Group, name: str) -> None:
    if source.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"the dataset also holds the array {source.path!r} of {source.dtype}, which no plain array of zarr 3 can "
            "be; move it elsewhere before the export"
        )
    checked = with_checked_lengths(source)
    copied = target.create_array(
        name,
        shape=source.shape,
        dtype=source.dtype.newbyteorder("<"),
        chunks=source.chunks,
        compressors=[GzipCodec(level=5)],
        fill_value=source.fill_value,
        attributes=source.attrs.asdict(),
        config={"write_empty_chunks": True},
    )
    for start in range(0, source.shape[0] if source.ndim else 0, max(source.chunks[0] if source.ndim else 1, 1)):
        copied[start : start + source.chunks[0]] = np.asarray(checked[start : start + source.chunks[0]])
    if source.ndim == 0:
        copied[...] = np.asarray(checked[...])
