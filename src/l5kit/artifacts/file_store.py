"""Base class of the artifact stores, built on the files and versions that a service offers.

A version holds ``manifest.json`` and, unless it was logged by reference, the dataset's files under ``data/``.
"""

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from l5kit._files import clear_leftovers, placed_when_complete, scratch_beside
from l5kit._types import JsonObject
from l5kit.artifacts.trainings import Training
from l5kit.data.artifact import (
    LATEST,
    ArtifactStore,
    ArtifactStoreError,
    DatasetArtifact,
    DatasetContent,
    require_word,
)
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.digests.manifest import Manifest
from l5kit.data.progress import Progress
from l5kit.data.stores.remote_reading import open_file_system, path_on_server
from l5kit.data.stores.store import path_of
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.errors import CorruptedDataError, InvalidArgumentError, L5KitError, without_secrets

DATASET_TYPE: Final = "dataset"
MODEL_TYPE: Final = "model"
MANIFEST_FILE: Final = "manifest.json"
DATA_FOLDER: Final = "data"

_VERSION: Final = re.compile(r"v\d+")
_CACHE_FOLDER: Final = "artifacts"
_BLOCK_BYTES: Final = 2**20


@dataclass(frozen=True)
class NewVersion:
    """A version to log, already checked.

    Attributes:
        name: Name of the artifact.
        content: The dataset.
        aliases: Its aliases, including ``latest``.
        description: Text for display.
        reference: URL of the files; empty to upload them into the store.
    """

    name: str
    content: DatasetContent
    aliases: tuple[str, ...]
    description: str
    reference: str

    @property
    def metadata(self) -> JsonObject:
        """Metadata that a store keeps, as :meth:`DatasetArtifact.from_metadata` reads it."""
        return self.content.metadata | ({"reference": self.reference} if self.reference else {})

    @property
    def files(self) -> dict[str, Path]:
        """The dataset's files to upload, by their names in the store."""
        if self.reference:
            return {}
        return {f"{DATA_FOLDER}/{file.path}": self.content.path / file.path for file in self.content.manifest.files}


class FileStore(ArtifactStore, ABC):
    """Store of a project at a service: an :class:`~l5kit.data.artifact.ArtifactStore` that also records trainings."""

    def log(
        self,
        content: DatasetContent,
        name: str,
        *,
        aliases: Sequence[str] = (),
        description: str = "",
        reference: str = "",
    ) -> DatasetArtifact:
        """Put a dataset into the store; see :meth:`l5kit.data.artifact.ArtifactStore.log`.

        Raises:
            InvalidArgumentError: A name or an alias is invalid, an alias looks like a version, or ``reference`` is no
                URL.
            ArtifactStoreError: The service is unreachable or refuses the request.
        """
        require_word(name, argument="name")
        for alias in aliases:
            if _VERSION.fullmatch(require_word(alias, argument="aliases")):
                raise InvalidArgumentError(f"aliases has {alias!r}, which is reserved for versions; choose another")
        if reference and "://" not in reference:
            raise InvalidArgumentError(
                f"reference is {reference!r}, and must be a URL such as file:///data/city or s3://bucket/city"
            )
        return self._log(
            NewVersion(
                name=name,
                content=content,
                aliases=tuple(dict.fromkeys((LATEST, *aliases))),
                description=description or content.description,
                reference=without_secrets(reference.rstrip("/")),
            )
        )

    def get(self, name: str, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> DatasetArtifact:
        """Fetch a version into a new or empty folder; it appears complete and verified, or not at all.

        Args:
            name: ``NAME:ALIAS`` or ``NAME:VERSION``.
            folder: Target folder; parents are created.
            progress: Called with the number of files of a reference that are done, and their total.

        Raises:
            ArtifactNotFoundError: There is no such version.
            InvalidArgumentError: The folder holds files.
            CorruptedDataError: The fetched data differ from the logged data; the message names a file.
            ArtifactStoreError: The service is unreachable or refuses the request.
        """
        target = Path(os.path.abspath(folder))
        if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
            raise InvalidArgumentError(f"folder is {str(folder)!r}, which holds files; choose another, or remove it")
        artifact = self.find(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(target)
        with placed_when_complete(target) as complete, scratch_beside(target) as scratch:
            os.replace(self._fetch_verified(artifact, scratch, progress), complete)
        return artifact

    def use(self, name: str, folder: str | os.PathLike[str] | None = None) -> Path:
        """Return a folder with a version of a dataset.

        Args:
            name: ``NAME:ALIAS`` or ``NAME:VERSION``.
            folder: A folder that should hold the version: all its files are verified by digest. None for a folder in
                the user's cache, which is filled unless it already holds the version unchanged. Digests of unmodified
                cached files are reused; extra files in the cache do not matter.

        Raises:
            CorruptedDataError: The folder has other data; the message names a file.
            ArtifactNotFoundError: There is no such version.
            ArtifactStoreError: The service is unreachable or refuses the request.
        """
        artifact = self.find(name)
        if folder is not None:
            # fetch the manifest only to name the file that differs
            current = Manifest.of(Path(folder))
            if current.digest == artifact.digest:
                return Path(folder)
            _require_no_difference(self._manifest_of(artifact), Path(folder), what=str(Path(folder)), current=current)
            raise CorruptedDataError(
                f"{Path(folder)} has the digest {current.digest}, and {artifact} has {artifact.digest}"
            )

        # One process fetches at a time; the others wait for its result.
        cached = cache_folder() / _CACHE_FOLDER / artifact.digest
        with hold_lock(cached.with_name(f"{cached.name}.lock")):
            if not self._is_there(artifact, cached):
                clear_leftovers(cached)
                with placed_when_complete(cached) as complete, scratch_beside(cached) as scratch:
                    os.replace(self._fetch_verified(artifact, scratch, None), complete)
        return cached

    @property
    def can_answer(self) -> bool:
        """Whether the store can answer queries now; an offline store can only log."""
        return True

    @abstractmethod
    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all datasets of the project, the newest of each name first."""

    @abstractmethod
    def find(self, name: str) -> DatasetArtifact:
        """Return the version that ``NAME:ALIAS`` currently points to.

        Raises:
            ArtifactNotFoundError: There is none.
            ArtifactStoreError: The service is unreachable or refuses the request.
        """

    def read_manifest(self, name: str) -> Manifest:
        """Return the manifest of a version.

        Raises:
            ArtifactNotFoundError: There is no such version.
            ArtifactStoreError: The service is unreachable or refuses the request.
            CorruptedDataError: The manifest does not match the version.
        """
        return self._manifest_of(self.find(name))

    @abstractmethod
    def log_training(self, training: Training, dataset: str, *, data: DatasetContent | None = None) -> str:
        """Record that a training used a version of a dataset, and the resulting weights.

        Args:
            training: The training.
            dataset: ``NAME:ALIAS`` of the dataset.
            data: The data that was used, with the digest of the dataset.

        Returns:
            URL or path of the record at the service.
        """

    @abstractmethod
    def _log(self, version: NewVersion) -> DatasetArtifact:
        """Put a version into the store."""

    @abstractmethod
    def _fetch(self, artifact: DatasetArtifact, name: str, folder: Path) -> None:
        """Put ``manifest.json`` or the folder ``data`` of a version into a folder; the caller verifies the result."""

    def _manifest_of(self, artifact: DatasetArtifact) -> Manifest:
        """Return the manifest of a version, whose digest is the one recorded by the version."""
        with TemporaryDirectory() as scratch:
            self._fetch(artifact, MANIFEST_FILE, Path(scratch))
            manifest = Manifest.read(Path(scratch, MANIFEST_FILE))
        if manifest.digest != artifact.digest:
            raise CorruptedDataError(
                f"{MANIFEST_FILE} of {artifact} has the digest {manifest.digest}, and the version says "
                f"{artifact.digest}: one of them was changed; log the dataset again"
            )
        return manifest

    def _fetch_verified(self, artifact: DatasetArtifact, scratch: Path, progress: Progress | None) -> Path:
        """Return a folder below ``scratch`` with exactly the files of a version."""
        manifest, data = self._manifest_of(artifact), scratch / DATA_FOLDER
        if artifact.is_reference:
            fetch_files(artifact.location, [file.path for file in manifest.files], data, progress=progress)
        else:
            self._fetch(artifact, DATA_FOLDER, scratch)
            data.mkdir(exist_ok=True)
        _require_no_difference(manifest, data, what=f"{artifact} from {artifact.location}")
        return data

    def _is_there(self, artifact: DatasetArtifact, cached: Path) -> bool:
        """Return whether the cache holds all files of a version unchanged; it may hold more."""
        if not cached.is_dir():
            return False
        # File digests are cached, so the first check is cheap. With extra files the digest of the folder differs, and
        # each file is compared.
        try:
            if dataset_digest(cached, cache=True) == artifact.digest:
                return True
            current = Manifest.of(cached)
        except (L5KitError, OSError):  # unreadable, so it is fetched again
            return False
        differences = self._manifest_of(artifact).compare(current)
        return not (differences.missing or differences.changed)


def _require_no_difference(manifest: Manifest, folder: Path, *, what: str, current: Manifest | None = None) -> None:
    """Refuse a folder that differs from a manifest."""
    differences = manifest.compare(current or Manifest.of(folder))
    if not differences:
        return
    kinds = (("missing", differences.missing), ("changed", differences.changed), ("extra", differences.extra))
    texts = [f"{len(paths)} {kind} ({paths[0]}{', ...' if len(paths) > 1 else ''})" for kind, paths in kinds if paths]
    raise CorruptedDataError(f"{what} differs from the logged version; of its files, {', '.join(texts)}")


def fetch_files(url: str, paths: Sequence[str], folder: Path, *, progress: Progress | None = None) -> None:
    """Copy files below a URL into a folder.

    Args:
        url: Base URL of the files, for fsspec: ``file://``, ``https://``, ``s3://``, ``memory://``, ...
        paths: Relative paths, which stay below the folder.
        folder: Target folder; the relative paths are kept.
        progress: Called with the number of files done and their total.

    Raises:
        ArtifactStoreError: A file cannot be read; the message names it.
        InvalidArgumentError: fsspec does not know the kind of URL.
        MissingDependencyError: fsspec needs a library for this kind of URL.
    """
    file_system, root = open_file_system(path_of(url))  # fsspec does not decode %20 in file:// URLs
    for number, path in enumerate(paths):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        source = f"{root.rstrip('/')}/{path_on_server(file_system, path)}"
        try:
            with file_system.open(source, "rb") as opened, open(target, "wb") as copy:
                shutil.copyfileobj(opened, copy, _BLOCK_BYTES)
        except Exception as error:  # each file system raises its own errors
            raise ArtifactStoreError(f"{path} could not be read from {url}: {error or type(error).__name__}") from error
        if progress is not None:
            progress(number + 1, len(paths))
