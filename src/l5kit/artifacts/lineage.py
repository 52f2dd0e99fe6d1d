"""Lineage: which training used which version of a dataset, and which weights came out of it."""

import os

from l5kit.artifacts.file_store import FileStore
from l5kit.artifacts.trainings import read_training

__all__ = ["link_training"]


def link_training(run_folder: str | os.PathLike[str], store: FileStore, dataset: str) -> str:
    """Record in a store that a training used a version of a dataset, with the weights that came out of it.

    Args:
        run_folder: Folder of ``l5kit train`` or ``l5kit train-rl``. Weights, ``config.yaml`` and ``result.json`` in it
            are logged as a model; the states to go on from are not.
        store: From :func:`~l5kit.artifacts.open_store`.
        dataset: ``NAME:ALIAS`` of the dataset in the store.

    Returns:
        Where the service shows it; the folder of the run where it is offline.

    Raises:
        FileNotFoundError: There is no training in the folder.
        InvalidArgumentError: There are no weights in it.
        ArtifactNotFoundError: There is no such version.
        ArtifactStoreError: The service cannot be reached, or refuses.
    """
    return store.log_training(read_training(run_folder), dataset)
