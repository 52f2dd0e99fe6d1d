"""Store at Weights & Biases: a version is an artifact of type ``dataset`` that a run has logged.

With ``WANDB_MODE=offline`` runs are written to the folder ``wandb`` (or ``WANDB_DIR``) and uploaded by ``wandb sync``;
calls that need an answer of the server are then refused.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import wandb

from l5kit._types import JsonObject
from l5kit.artifacts.file_store import DATA_FOLDER, DATASET_TYPE, MANIFEST_FILE, MODEL_TYPE, FileStore, NewVersion
from l5kit.artifacts.trainings import Training
from l5kit.data.artifact import (
    ArtifactName,
    ArtifactNotFoundError,
    ArtifactStoreError,
    DatasetArtifact,
    DatasetContent,
    require_word,
)
from l5kit.errors import L5KitError, error_line

_MODE: Final = "WANDB_MODE"
_OFFLINE: Final = ("offline", "dryrun")
_OFF: Final = "disabled"
_ITS_LIBRARIES: Final = ("wandb", "requests", "pydantic", "pydantic_core", "botocore", "google")


class WandbStore(FileStore):
    """Versions of datasets in a project at Weights & Biases.

    Args:
        project: Name of the project, or ``ENTITY/PROJECT``; the default entity is that of the login.

    Raises:
        InvalidArgumentError: The name of the project is invalid.
    """

    def __init__(self, project: str) -> None:
        entity, slash, name = project.rpartition("/")
        if slash:
            require_word(entity, argument="project")
        self.entity: Final = entity or None
        self.project: Final = require_word(name, argument="project")

    @property
    def can_answer(self) -> bool:
        """Whether the server can be queried, according to ``WANDB_MODE``."""
        return os.environ.get(_MODE, "online") not in (*_OFFLINE, _OFF)

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all datasets of the project, the newest of each name first.

        Raises:
            ArtifactStoreError: The run is offline, or the server is unreachable or refuses the request.
        """
        with _translated_errors():
            api = self._server("list artifacts")
            names = [name] if name else []
            if not name:
                names = [each.name for each in api.artifact_collections(self._prefix.rstrip("/"), DATASET_TYPE)]
            artifacts = [
                artifact
                for one in names
                for artifact in api.artifacts(DATASET_TYPE, f"{self._prefix}{require_word(one, argument='name')}")
                if "digest" in artifact.metadata  # others were not logged by l5kit
            ]
            return tuple(self._record(artifact) for artifact in artifacts)

    def find(self, name: str) -> DatasetArtifact:
        """Return the version that ``NAME:ALIAS`` currently points to; see :meth:`FileStore.find`."""
        return self._record(self._artifact(name))

    def log_training(self, training: Training, dataset: str, *, data: DatasetContent | None = None) -> str:
        """Record a run of type ``training`` that uses the dataset and logs an artifact of type ``model``.

        An offline run cannot look up which version ``dataset`` is. With ``data`` it records the content of the version,
        so that the server identifies it when the run is synced.
        """
        name = ArtifactName.parse(dataset)
        config = {**training.config, "dataset": str(name)}
        with _translated_errors(), self._run("training", training.name, config) as run:
            digest = ""  # unknown to an offline run without the data
            if not run.offline:
                used = run.use_artifact(self._path_of(name), type=DATASET_TYPE)
                digest = str(used.metadata.get("digest", ""))
            elif data is not None:
                # use_artifact refuses offline runs, and log_artifact would move the alias latest to this version
                same = _draft(NewVersion(name.name, data, (), data.description, ""))
                same.finalize()
                if run._interface is None:
                    raise ArtifactStoreError("Weights & Biases: the run has ended already")
                run._interface.publish_artifact(run, same, [], [], is_user_created=True, use_after_commit=True)
                digest = data.manifest.digest
            run.config["dataset_digest"] = digest
            run.summary.update(dict(training.result))
            metadata = {"dataset": str(name), "dataset_digest": digest}
            model = wandb.Artifact(training.name, type=MODEL_TYPE, metadata=metadata)
            for file_name, path in training.files.items():
                model.add_file(str(path), file_name, skip_cache=True)
            logged = run.log_artifact(model)
            if not run.offline:
                logged.wait()
            return _location_of(run)

    def _log(self, version: NewVersion) -> DatasetArtifact:
        config = {"dataset_digest": version.content.manifest.digest}
        with _translated_errors(), self._run(DATASET_TYPE, f"log {version.name}", config) as run:
            draft = _draft(version)
            logged = run.log_artifact(draft, aliases=[*version.aliases])
            if not run.offline:
                return self._record(logged.wait(), aliases=version.aliases)
            return DatasetArtifact.from_metadata(
                version.name,
                version.metadata,
                version="",
                aliases=version.aliases,
                description=version.description,
                location=_location_of(run),
            )

    def _fetch(self, artifact: DatasetArtifact, name: str, folder: Path) -> None:
        with _translated_errors():
            self._artifact(str(artifact)).download(str(folder), skip_cache=True, path_prefix=name)

    def _artifact(self, name: str) -> wandb.Artifact:
        parsed = ArtifactName.parse(name)
        with _translated_errors(missing=f"{parsed} in project {self.project!r}"):
            artifact: wandb.Artifact = self._server("look up an artifact").artifact(
                self._path_of(parsed), type=DATASET_TYPE
            )
            return artifact

    def _path_of(self, name: ArtifactName) -> str:
        return f"{self._prefix}{name}"

    @property
    def _prefix(self) -> str:
        return f"{self.entity}/{self.project}/" if self.entity else f"{self.project}/"

    def _record(self, artifact: wandb.Artifact, *, aliases: Sequence[str] = ()) -> DatasetArtifact:
        """Return the record of an artifact on the server."""
        name = artifact.name.partition(":")[0]
        return DatasetArtifact.from_metadata(
            name,
            artifact.metadata,
            version=artifact.version,
            aliases=[*artifact.aliases, *aliases],
            description=artifact.description or "",
            created=artifact.created_at or "",
            location=f"{artifact.entity}/{artifact.project}/{name}:{artifact.version}",
        )

    def _server(self, what: str) -> wandb.Api:
        """Return the API of the server.

        Raises:
            ArtifactStoreError: The environment sets runs to offline.
        """
        if not self.can_answer:
            raise ArtifactStoreError(
                f"to {what} needs an answer of the server, and {_MODE} is {os.environ[_MODE]!r}; unset it"
            )
        return wandb.Api()

    @contextmanager
    def _run(self, job_type: str, name: str, config: JsonObject) -> Iterator[wandb.Run]:
        """Open a run and end it, as failed after an error."""
        if os.environ.get(_MODE) == _OFF:
            raise ArtifactStoreError(f"{_MODE} is {_OFF!r}, which disables logging; unset it, or set 'offline'")
        settings = wandb.Settings(
            console="off", silent=True, disable_code=True, disable_git=True, run_job_type=job_type, run_name=name
        )
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            config=config,
            mode=None if self.can_answer else "offline",  # the library reads the environment only once
            reinit="create_new",
            settings=settings,
        )
        try:
            yield run
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish()


def _draft(version: NewVersion) -> wandb.Artifact:
    """Return an artifact to log. Files are not copied, so they must stay in place until they are uploaded."""
    draft = wandb.Artifact(version.name, type=DATASET_TYPE, description=version.description, metadata=version.metadata)
    with draft.new_file(MANIFEST_FILE, mode="wb") as opened:
        opened.write(version.content.manifest.to_json().encode())
    if version.reference:
        draft.add_reference(version.reference, name=DATA_FOLDER, checksum=False)
    else:
        draft.add_dir(str(version.content.path), name=DATA_FOLDER, skip_cache=True, policy="immutable")
    return draft


def _location_of(run: wandb.Run) -> str:
    return str(Path(run.dir).parent) if run.offline else str(run.url)


@contextmanager
def _translated_errors(missing: str = "") -> Iterator[None]:
    """Turn errors of the library into store errors; ``missing`` names the version that was looked up."""
    try:
        yield
    except Exception as error:
        is_its_own = type(error).__module__.partition(".")[0] in _ITS_LIBRARIES
        if isinstance(error, L5KitError) or not (is_its_own or isinstance(error, (TypeError, ValueError))):
            raise
        text = error_line(error)
        if missing and ("not found" in text or "does not exist" in text):
            raise ArtifactNotFoundError(f"there is no {missing}; `l5kit artifact list` shows what there is") from error
        raise ArtifactStoreError(f"Weights & Biases: {text}") from error
