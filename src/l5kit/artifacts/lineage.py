"""Lineage: which training used which version of a dataset, and which weights came out of it."""

import os
from dataclasses import dataclass, replace
from typing import Self

from l5kit.artifacts.file_store import FileStore
from l5kit.artifacts.opening import STORES, open_store
from l5kit.artifacts.trainings import read_training
from l5kit.data.artifact import ArtifactName, DatasetContent
from l5kit.data.digests.digest import FileDigest, digest_of
from l5kit.errors import InvalidArgumentError


def link_training(
    run_folder: str | os.PathLike[str], store: FileStore, dataset: str, *, data: DatasetContent | None = None
) -> str:
    """Record in a store that a training used a version of a dataset, with the weights that came out of it.

    Args:
        run_folder: Folder of ``l5kit train`` or ``l5kit train-rl``. Weights, ``config.yaml`` and ``result.json`` in it
            are logged as a model; the states to go on from are not. Where it tells the digest of the log that was
            trained on, the dataset has to be or hold that.
        store: From :func:`~l5kit.artifacts.open_store`.
        dataset: ``NAME:ALIAS`` of the dataset in the store.
        data: The data that was trained on, from :func:`~l5kit.data.artifact.describe_dataset`, where it is to be proved
            that it is what the store has; None to believe it.

    Returns:
        Where the service shows it; the folder of the run where it is offline.

    Raises:
        FileNotFoundError: There is no training in the folder.
        InvalidArgumentError: There are no weights in it, or the data is not what the store has.
        ArtifactNotFoundError: There is no such version.
        ArtifactStoreError: The service cannot be reached, or refuses.
    """
    training = read_training(run_folder)
    trained = training.data_digest
    if store.can_answer and (data is not None or trained is not None):
        manifest = store.read_manifest(dataset)
        if data is not None and manifest.digest != data.manifest.digest:
            raise InvalidArgumentError(
                f"data is {str(data.path)!r} with the digest {data.manifest.digest}, and {dataset} has "
                f"{manifest.digest}; name the version that was trained on"
            )

        # A training tells the digest of its log, which may be the dataset itself or one of the logs in it.
        logs: dict[str, list[FileDigest]] = {}
        for file in manifest.files:
            before, suffix, below = file.path.partition(".zarr/")
            if suffix:
                logs.setdefault(before, []).append(replace(file, path=below))
        if trained not in (None, manifest.digest, *(digest_of(files) for files in logs.values())):
            raise InvalidArgumentError(
                f"dataset is {dataset!r}, and neither it nor a log in it has the digest {trained} of the data that the "
                "training says it used; name the version that was trained on"
            )
    return store.log_training(training, dataset, data=data)


@dataclass(frozen=True)
class DatasetInUse:
    """Version of a dataset that a training says it uses, written ``SERVICE:PROJECT/NAME:ALIAS``.

    Attributes:
        service: One of :data:`~l5kit.artifacts.opening.STORES`.
        project: Project at the service.
        dataset: ``NAME:ALIAS`` in it.
    """

    service: str
    project: str
    dataset: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a text such as ``wandb:team/driving/l5-data:v3`` stands for.

        Raises:
            InvalidArgumentError: It is not written so.
            ArtifactNotFoundError: There is no such version, where the store can tell.
            ArtifactStoreError: The service cannot be reached, or refuses.
        """
        service, _, path = text.partition(":")
        project, slash, name = path.rpartition("/")
        if service not in STORES or not slash:
            raise InvalidArgumentError(
                f"artifact is {text!r}, and must be SERVICE:PROJECT/NAME:ALIAS, such as wandb:team/driving/l5-data:v3, "
                f"with one of {', '.join(STORES)} as the service"
            )
        store, dataset = open_store(service, project), str(ArtifactName.parse(name))
        if store.can_answer:
            store.find(dataset)
        return cls(service, project, dataset)

    def link(self, run_folder: str | os.PathLike[str]) -> str:
        """Record the training in a folder; see :func:`link_training`.

        Raises:
            ArtifactStoreError: The service cannot be reached, or refuses; what was trained stays.
        """
        return link_training(run_folder, open_store(self.service, self.project), self.dataset)
