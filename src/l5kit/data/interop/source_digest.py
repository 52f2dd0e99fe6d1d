"""Digest of the dataset that an export is of, so that its files tell which data they hold."""

import os

from l5kit.data.data_record import DataRecord
from l5kit.data.stores.store import is_url
from l5kit.data.zarr_dataset import ChunkedDataset


def source_digest(dataset: ChunkedDataset, digest: str | None) -> str | None:
    """Return the digest to be told of a dataset; None for none.

    Args:
        dataset: What is exported.
        digest: The digest, where the caller knows it, or the empty text for none. None works out that of the files at
            the path of the dataset, where it lies on this machine; the cache knows it if no file has changed since.
    """
    if digest is not None:
        return digest or None
    if not dataset.path or is_url(dataset.path) or not os.path.exists(dataset.path):
        return None
    return DataRecord.of(dataset.path, num_scenes=len(dataset.scenes)).digest
