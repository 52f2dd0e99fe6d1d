"""Store at the Hugging Face hub: a version is a commit of a dataset repository, an alias a tag of git.

Branches and tags move; what is recorded is the hash of the commit that they meant. ``HF_ENDPOINT`` and ``HF_TOKEN`` say
where the hub is and who asks.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from l5kit import __version__
from l5kit._types import JsonObject
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
from l5kit.errors import MissingDependencyError, install_command

try:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, DatasetInfo, HfApi
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "huggingface_hub":
        raise
    raise MissingDependencyError(f"this store needs huggingface-hub: {install_command('hub')}") from error

_RECORD_FILE: Final = "artifact.json"
_CARD_FILE: Final = "README.md"
_BRANCH: Final = "main"
_TAG: Final = "l5kit"
_TITLE: Final = "l5kit: "
"""Start of the first line of commits that are versions."""

_DATASET: Final = "dataset"
_MODEL: Final = "model"
_NOT_FOUND: Final = (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)
_NO_ANSWER: Final = (GatedRepoError, LocalEntryNotFoundError)
"""Classes below those of ``_NOT_FOUND`` that mean something else."""

_ITS_LIBRARIES: Final = ("huggingface_hub", "httpx", "httpx2", "requests")


class HubStore(FileStore):
    """Versions of datasets in the repositories of a user or organization at the hub, one for each name.

    Args:
        project: The user or organization.
        endpoint: Address of the hub; None for that of the environment.

    Raises:
        InvalidArgumentError: No user is called so.
    """

    def __init__(self, project: str, *, endpoint: str | None = None) -> None:
        self.project: Final = require_word(project, argument="project")
        self._api: Final = HfApi(endpoint=endpoint, library_name="l5kit", library_version=__version__)

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all of the user, the newest of each name first."""
        with _translated_errors():
            names = [name] if name else [info.id.rpartition("/")[2] for info in self._repositories()]
            return tuple(version for one in names for version in self._versions(require_word(one, argument="name")))

    def find(self, name: str) -> DatasetArtifact:
        """Return the version that ``NAME:ALIAS`` means now; see :meth:`FileStore.find`.

        The alias may be a tag, a branch, or the hash of a commit; ``latest`` is the branch ``main``.
        """
        parsed = ArtifactName.parse(name)
        with _translated_errors(missing=f"{parsed} of {self.project}"):
            return self._record(parsed.name, self._resolve(parsed))

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
        contents = {_CARD_FILE: _model_card(training, facts), "l5kit.json": _as_json(facts)}
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
        repository = self._repository_of(version.name)
        contents = {
            _RECORD_FILE: _as_json(version.metadata | {"description": version.description}),
            MANIFEST_FILE: version.content.manifest.to_json(),
            _CARD_FILE: _dataset_card(version),
        }
        with _translated_errors():
            self._api.create_repo(repository, repo_type=_DATASET, exist_ok=True)
            there = set(self._api.list_repo_files(repository, repo_type=_DATASET))
            gone = [name for name in sorted(there - version.files.keys()) if name.startswith(f"{DATA_FOLDER}/")]
            operations: Sequence[CommitOperationAdd | CommitOperationDelete] = [
                *(CommitOperationAdd(name, str(path)) for name, path in version.files.items()),
                *(CommitOperationAdd(name, text.encode()) for name, text in contents.items()),
                *(CommitOperationDelete(name, is_folder=False) for name in gone),
            ]
            message = f"{_TITLE}{version.content.manifest.digest}"
            made = self._api.create_commit(repository, operations, repo_type=_DATASET, commit_message=message)
            commit = str(made.oid)
            for alias in version.aliases:
                if alias != LATEST:
                    self._move_tag(repository, alias, commit)
            return self._record(version.name, commit)

    def _move_tag(self, repository: str, tag: str, commit: str) -> None:
        """Let a tag mean a commit; for a moment there is none."""
        if tag in self._tags(repository):
            self._api.delete_tag(repository, tag=tag, repo_type=_DATASET)
        self._api.create_tag(repository, tag=tag, revision=commit, repo_type=_DATASET)

    def _tags(self, repository: str) -> dict[str, str]:
        """Return the commit of each tag."""
        refs = self._api.list_repo_refs(repository, repo_type=_DATASET)
        return {tag.name: tag.target_commit for tag in refs.tags}

    def _fetch_manifest(self, artifact: DatasetArtifact, folder: Path) -> None:
        self._fetch(artifact, MANIFEST_FILE, folder)

    def _fetch_data(self, artifact: DatasetArtifact, folder: Path) -> None:
        self._fetch(artifact, f"{DATA_FOLDER}/*", folder)

    def _fetch(self, artifact: DatasetArtifact, names: str, folder: Path) -> None:
        """Fetch the files of a version whose names fit a pattern, in which ``*`` stands for slashes as well."""
        with _translated_errors():
            self._api.snapshot_download(
                self._repository_of(artifact.name),
                repo_type=_DATASET,
                revision=artifact.version,
                allow_patterns=names,
                local_dir=folder,
            )

    def _repository_of(self, name: str) -> str:
        return f"{self.project}/{name}"

    def _repositories(self) -> Iterator[DatasetInfo]:
        return iter(self._api.list_datasets(author=self.project, filter=_TAG))

    def _versions(self, name: str) -> Iterator[DatasetArtifact]:
        """Yield the versions of a repository, the newest first; commits of others are none."""
        for commit in self._api.list_repo_commits(self._repository_of(name), repo_type=_DATASET):
            if commit.title.startswith(_TITLE):
                yield self._record(name, commit.commit_id, created=commit.created_at.isoformat())

    def _resolve(self, name: ArtifactName) -> str:
        """Return the hash of the commit that an alias means now."""
        revision = _BRANCH if name.alias == LATEST else name.alias
        return str(self._api.repo_info(self._repository_of(name.name), revision=revision, repo_type=_DATASET).sha)

    def _record(self, name: str, commit: str, *, created: str = "") -> DatasetArtifact:
        """Return the record of a commit."""
        repository = self._repository_of(name)
        file = self._api.hf_hub_download(repository, _RECORD_FILE, repo_type=_DATASET, revision=commit)
        metadata = read_metadata(Path(file).read_text("utf-8"), called=f"{_RECORD_FILE} of {repository}@{commit}")
        aliases = [tag for tag, target in self._tags(repository).items() if target == commit]
        if self._resolve(ArtifactName(name)) == commit:
            aliases.append(LATEST)
        return DatasetArtifact.from_metadata(
            name,
            metadata,
            version=commit,
            aliases=aliases,
            description=str(metadata.get("description", "")),
            created=created,
            location=f"hf://datasets/{repository}@{commit}",
        )


def _as_json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _dataset_card(version: NewVersion) -> str:
    """Return the page of a dataset; the head is what the hub searches."""
    lines = ["---", "tags:", f"- {_TAG}", "---", f"# {version.name}", "", version.description, ""]
    lines += [f"Digest: `{version.content.manifest.digest}`", ""]
    return "\n".join(lines)


def _model_card(training: Training, facts: JsonObject) -> str:
    """Return the page of a model; the hub links it with the dataset in its head."""
    head = ["---", "library_name: l5kit", "tags:", f"- {_TAG}", "datasets:", f"- {facts['dataset']}", "---"]
    used = f"Trained on `{facts['dataset']}` at commit `{facts['dataset_revision']}`."
    return "\n".join([*head, f"# {training.name}", "", used, ""])


@contextmanager
def _translated_errors(missing: str = "") -> Iterator[None]:
    """Turn errors of the library into those of stores; ``missing`` is what was looked up."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _ITS_LIBRARIES:
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        if missing and isinstance(error, _NOT_FOUND) and not isinstance(error, _NO_ANSWER):
            raise ArtifactNotFoundError(
                f"there is no {missing} ({text}); `l5kit artifact list` shows what there is"
            ) from error
        raise ArtifactStoreError(f"Hugging Face hub: {text}") from error
