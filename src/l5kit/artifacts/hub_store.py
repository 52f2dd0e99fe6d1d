"""Store at the Hugging Face hub: a version is a commit of a dataset repository, an alias a git tag.

Branches and tags move, so records hold the commit hash that they pointed to. ``HF_ENDPOINT`` and ``HF_TOKEN`` set the
address of the hub and the credentials.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from l5kit import __version__
from l5kit.artifacts.file_store import DATA_FOLDER, MANIFEST_FILE, FileStore, NewVersion
from l5kit.artifacts.trainings import Training
from l5kit.data.artifact import (
    LATEST,
    ArtifactName,
    ArtifactNotFoundError,
    ArtifactStoreError,
    DatasetArtifact,
    DatasetContent,
    read_metadata,
    require_word,
)
from l5kit.errors import error_line

_RECORD_FILE: Final = "artifact.json"
_CARD_FILE: Final = "README.md"
_BRANCH: Final = "main"
_TAG: Final = "l5kit"
_TITLE: Final = "l5kit: "
"""Prefix of the commit titles that mark versions."""

_DATASET: Final = "dataset"
_MODEL: Final = "model"
_NOT_FOUND: Final = (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)
_NO_ANSWER: Final = (GatedRepoError, LocalEntryNotFoundError)
"""Subclasses of ``_NOT_FOUND`` that do not mean a missing version."""

_ITS_LIBRARIES: Final = ("huggingface_hub", "httpx", "httpx2", "requests")


class HubStore(FileStore):
    """Versions of datasets in the repositories of a user or organization at the hub, one repository per name.

    Args:
        project: The user or organization.
        endpoint: Address of the hub; None for that of the environment.

    Raises:
        InvalidArgumentError: The name of the user is invalid.
    """

    def __init__(self, project: str, *, endpoint: str | None = None) -> None:
        self.project: Final = require_word(project, argument="project")
        self._api: Final = HfApi(endpoint=endpoint, library_name="l5kit", library_version=__version__)

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all datasets of the user, the newest of each name first."""
        versions: tuple[DatasetArtifact, ...] = ()
        with _translated_errors():
            names = [name] if name else []
            if not name:
                listed = self._api.list_datasets(author=self.project, filter=_TAG)
                names = [info.id.rpartition("/")[2] for info in listed]
            for one in names:
                repository, aliases = self._repository_of(require_word(one, argument="name")), self._aliases(one)
                versions += tuple(
                    self._record(one, commit.commit_id, aliases, created=commit.created_at.isoformat())
                    for commit in self._api.list_repo_commits(repository, repo_type=_DATASET)
                    if commit.title.startswith(_TITLE)  # other commits are no versions
                )
        return versions

    def find(self, name: str) -> DatasetArtifact:
        """Return the version that ``NAME:ALIAS`` currently points to; see :meth:`FileStore.find`.

        The alias may be a tag, a branch, or the hash of a commit; ``latest`` is the branch ``main``.
        """
        parsed = ArtifactName.parse(name)
        with _translated_errors(missing=f"{parsed} of {self.project}"):
            commit = self._resolve(parsed)
            return self._record(parsed.name, commit, self._aliases(parsed.name))

    def log_training(self, training: Training, dataset: str, *, data: DatasetContent | None = None) -> str:  # noqa: ARG002
        """Log a model repository with the weights, whose card names the dataset and its commit."""
        used = self.find(dataset)
        repository = f"{self.project}/{require_word(training.name, argument='the name of run_folder')}"
        facts = {
            "dataset": f"{self.project}/{used.name}",
            "dataset_revision": used.version,
            "dataset_digest": used.digest,
            "result": dict(training.result),
        }
        # The hub links the model's page with the dataset named in the card's header.
        card = ["---", "library_name: l5kit", "tags:", f"- {_TAG}", "datasets:", f"- {facts['dataset']}", "---"]
        card += [f"# {training.name}", "", f"Trained on `{facts['dataset']}` at commit `{used.version}`.", ""]
        contents = {_CARD_FILE: "\n".join(card), "l5kit.json": _as_json(facts)}
        with _translated_errors():
            self._api.create_repo(repository, repo_type=_MODEL, exist_ok=True)
            operations = [CommitOperationAdd(name, str(path)) for name, path in training.files.items()]
            operations += [CommitOperationAdd(name, text.encode()) for name, text in contents.items()]
            commit = self._api.create_commit(
                repository,
                operations,
                repo_type=_MODEL,
                commit_message=f"Trained on {facts['dataset']}@{used.version}",
            )
        return str(commit.commit_url)

    def _log(self, version: NewVersion) -> DatasetArtifact:
        # The card is the dataset's page; the hub searches its header.
        repository, digest = self._repository_of(version.name), version.content.manifest.digest
        card = ["---", "tags:", f"- {_TAG}", "---", f"# {version.name}", "", version.description, ""]
        card += [f"Digest: `{digest}`", ""]
        contents = {
            _RECORD_FILE: _as_json(version.metadata | {"description": version.description}),
            MANIFEST_FILE: version.content.manifest.to_json(),
            _CARD_FILE: "\n".join(card),
        }
        with _translated_errors():
            self._api.create_repo(repository, repo_type=_DATASET, exist_ok=True)
            there = set(self._api.list_repo_files(repository, repo_type=_DATASET))
            # files of the previous version that this one lacks are deleted in the same commit
            gone = [name for name in sorted(there - version.files.keys()) if name.startswith(f"{DATA_FOLDER}/")]
            operations: Sequence[CommitOperationAdd | CommitOperationDelete] = [
                *(CommitOperationAdd(name, str(path)) for name, path in version.files.items()),
                *(CommitOperationAdd(name, text.encode()) for name, text in contents.items()),
                *(CommitOperationDelete(name, is_folder=False) for name in gone),
            ]
            made = self._api.create_commit(
                repository, operations, repo_type=_DATASET, commit_message=f"{_TITLE}{digest}"
            )
            commit = str(made.oid)
            for alias in version.aliases:
                if alias == LATEST:  # the branch itself
                    continue
                if alias in self._tags(repository):  # moving a tag means deleting and creating it
                    self._api.delete_tag(repository, tag=alias, repo_type=_DATASET)
                self._api.create_tag(repository, tag=alias, revision=commit, repo_type=_DATASET)
            return self._record(version.name, commit, self._aliases(version.name))

    def _tags(self, repository: str) -> dict[str, str]:
        """Return the commit of each tag."""
        refs = self._api.list_repo_refs(repository, repo_type=_DATASET)
        return {tag.name: tag.target_commit for tag in refs.tags}

    def _fetch(self, artifact: DatasetArtifact, name: str, folder: Path) -> None:
        with _translated_errors():
            self._api.snapshot_download(
                self._repository_of(artifact.name),
                repo_type=_DATASET,
                revision=artifact.version,
                allow_patterns=[name, f"{name}/*"],  # here * also matches slashes
                local_dir=folder,
            )

    def _repository_of(self, name: str) -> str:
        return f"{self.project}/{name}"

    def _resolve(self, name: ArtifactName) -> str:
        """Return the commit hash that an alias currently points to."""
        revision = _BRANCH if name.alias == LATEST else name.alias
        return str(self._api.repo_info(self._repository_of(name.name), revision=revision, repo_type=_DATASET).sha)

    def _aliases(self, name: str) -> dict[str, str]:
        """Return the commit of each tag, and last that of ``latest``."""
        return self._tags(self._repository_of(name)) | {LATEST: self._resolve(ArtifactName(name))}

    def _record(self, name: str, commit: str, aliases: Mapping[str, str], *, created: str = "") -> DatasetArtifact:
        """Return the record of a commit, with the aliases that point to it."""
        repository = self._repository_of(name)
        file = self._api.hf_hub_download(repository, _RECORD_FILE, repo_type=_DATASET, revision=commit)
        metadata = read_metadata(Path(file).read_text("utf-8"), called=f"{_RECORD_FILE} of {repository}@{commit}")
        return DatasetArtifact.from_metadata(
            name,
            metadata,
            version=commit,
            aliases=[alias for alias, target in aliases.items() if target == commit],
            description=str(metadata.get("description", "")),
            created=created,
            location=f"hf://datasets/{repository}@{commit}",
        )


def _as_json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


@contextmanager
def _translated_errors(missing: str = "") -> Iterator[None]:
    """Turn errors of the library into store errors; ``missing`` names the version that was looked up."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _ITS_LIBRARIES:
            raise
        text = error_line(error)
        if missing and isinstance(error, _NOT_FOUND) and not isinstance(error, _NO_ANSWER):
            raise ArtifactNotFoundError(
                f"there is no {missing} ({text}); `l5kit artifact list` shows what there is"
            ) from error
        raise ArtifactStoreError(f"Hugging Face hub: {text}") from error
