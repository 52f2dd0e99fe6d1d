"""Lineage: the version of a dataset that a training used, and the resulting weights."""

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
    """Record in a store that a training used a version of a dataset, with the resulting weights.

    Args:
        run_folder: Run folder of ``l5kit train`` or ``l5kit train-rl``. Its weights, ``config.yaml`` and
            ``result.json`` are logged as a model; states for resuming are not. If it records the digest of the log
            that was trained on, the dataset must be or contain that log.
        store: From :func:`~l5kit.artifacts.open_store`.
        dataset: ``NAME:ALIAS`` of the dataset in the store.
        data: The data that was trained on, from :func:`~l5kit.data.artifact.describe_dataset`, to check it against the
            store; None to skip this check.

    Returns:
        URL of the record at the service; if offline, the folder of the run.

    Raises:
        FileNotFoundError: There is no training in the folder.
        InvalidArgumentError: The folder has no weights, or the data differ from those in the store.
        ArtifactNotFoundError: There is no such version.
        ArtifactStoreError: The service is unreachable or refuses the request.
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

        # A training records the digest of its log, which may be the dataset itself or one of the logs in it.
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
    """Version of a dataset that a training declares as its input, written ``SERVICE:PROJECT/NAME:ALIAS``.

    Attributes:
        service: One of :data:`~l5kit.artifacts.opening.STORES`.
        project: Project at the service.
        dataset: ``NAME:ALIAS`` in the project.
    """

    service: str
    project: str
    dataset: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as ``wandb:team/driving/l5-data:v3``.

        Raises:
            InvalidArgumentError: The text does not have this form.
            ArtifactNotFoundError: There is no such version; only checked if the store can answer.
            ArtifactStoreError: The service is unreachable or refuses the request.
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
            ArtifactStoreError: The service is unreachable or refuses the request; the training itself is kept.
        """
        return link_training(run_folder, open_store(self.service, self.project), self.dataset)
