"""Datasets on disk for the tests of l5kit.data."""

import shutil

import numcodecs
import numpy as np
from zarr.storage import LocalStore

from l5kit.data import layout
from l5kit.data.record_dtype import RecordDType

CHUNK_LENGTHS = {"scenes": 2, "frames": 5, "agents": 7, "traffic_light_faces": 4}


def write_with_chunks(dataset, path, *, chunk_lengths=CHUNK_LENGTHS, type_of=lambda name, dtype: dtype):
    """Write a dataset to a folder with few rows per chunk, so that small ones have many chunks.

    ``type_of(name, dtype)`` returns the type in which a field is stored.
    """
    group = layout.create_group(LocalStore(path), "w")
    for key, (attribute, _, _) in layout.ARRAYS.items():
        records = np.asarray(getattr(dataset, attribute))
        fields = [
            (name, type_of(name, records.dtype[name].base), records.dtype[name].shape) for name in records.dtype.names
        ]
        array = group.create_array(
            key,
            shape=records.shape,
            chunks=(chunk_lengths[key],),
            dtype=RecordDType.from_numpy(fields),
            compressors=numcodecs.Blosc("lz4", 5, 1),
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        array[:] = records.astype(fields)
    return str(path)


def copy_writable(source, target):
    """Copy a folder that may be read-only to one that is not."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    return target
