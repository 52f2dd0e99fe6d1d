"""Dataset artifacts: named versions of a dataset in a store, with digest, aliases, counts and description.

This module has the records, the description of a dataset, and the interface of all stores. Stores are opened by
:func:`l5kit.artifacts.open_store`.
"""

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from l5kit._types import Config, JsonObject
from l5kit.configs.texts import parse_json
from l5kit.data.dataset_files import find_all_logs
from l5kit.data.digests.manifest import Manifest
from l5kit.data.progress import Progress
from l5kit.data.stores.store import is_url, path_of
from l5kit.data.texts import duration_text
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import ConfigError, InvalidArgumentError, L5KitError

LATEST: Final = "latest"
"""Alias of the version logged last; maintained by every store."""

_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ArtifactNotFoundError(L5KitError, LookupError, FileNotFoundError):
    """A store has no artifact of the given name and alias."""


class ArtifactStoreError(L5KitError, OSError):
    """A store is unreachable, refuses, or does not answer; the message includes its answer."""


@dataclass(frozen=True)
class ArtifactName:
    """Name of an artifact and one of its aliases or versions, written ``NAME:ALIAS``.

    Args:
        name: Letters, digits, ``.``, ``_`` and ``-``, such as ``l5-data``.
        alias: Likewise, such as ``latest``, ``v3`` or ``train``.

    Raises:
        InvalidArgumentError: A part is empty or has other characters.
    """

    name: str
    alias: str = LATEST

    def __post_init__(self) -> None:
        require_word(self.name, argument="name")
        require_word(self.alias, argument="alias")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the name and alias in a text ``NAME`` or ``NAME:ALIAS``."""
        name, colon, alias = text.partition(":")
        return cls(name, alias) if colon else cls(name)

    def __str__(self) -> str:
        """Return ``NAME:ALIAS``."""
        return f"{self.name}:{self.alias}"


def require_word(text: str, *, argument: str) -> str:
    """Return a name or alias after checking that every store and file system accepts it.

    Raises:
        InvalidArgumentError: The text is not allowed as a name.
    """
    if not _WORD.fullmatch(text):
        raise InvalidArgumentError(
            f"{argument} is {text!r}, and must be 1 to 96 letters, digits, '.', '_' and '-', the first none of '.' "
            "and '-', such as l5-data"
        )
    return text


def read_metadata(text: str, *, called: str) -> JsonObject:
    """Return metadata that a store keeps as JSON.

    Raises:
        ConfigError: The text is not JSON, or not an object.
    """
    content = parse_json(text, called=called)
    if not isinstance(content, dict):
        raise ConfigError(f"{called} must be an object, got {type(content).__name__}")
    return content


@dataclass(frozen=True)
class DatasetContent:
    """Description of a dataset before it is logged.

    Attributes:
        path: Folder with its files.
        manifest: Files with size and SHA-256, and the digest of the dataset.
        num_scenes: Number of scenes in all logs of the folder.
        num_frames: Number of frames.
        num_agents: Number of agent rows.
        hours: Recorded hours.
    """

    path: Path
    manifest: Manifest
    num_scenes: int
    num_frames: int
    num_agents: int
    hours: float

    @property
    def metadata(self) -> JsonObject:
        """Digest and counts in the form kept by stores: plain values by name."""
        return {
            "digest": self.manifest.digest,
            "num_files": len(self.manifest.files),
            "num_bytes": self.manifest.num_bytes,
            "scenes": self.num_scenes,
            "frames": self.num_frames,
            "agents": self.num_agents,
            "hours": self.hours,
            "dataset": self.path.name,
        }

    @property
    def description(self) -> str:
        """One human-readable sentence, the default description."""
        return (
            f"{self.path.name}: {self.num_scenes:,} scenes, {self.num_frames:,} frames, {self.num_agents:,} agents, "
            f"{duration_text(3600 * self.hours)}, in {len(self.manifest.files):,} files of "
            f"{self.manifest.num_bytes / 1e6:,.1f} MB"
        )


@dataclass(frozen=True)
class DatasetArtifact:
    """A version of a dataset in a store.

    Attributes:
        name: Name, such as ``l5-data``.
        version: Permanent name of the version in its store: ``v3``, or a commit hash. Empty while a run is offline, as
            the server assigns the number when the run is synced.
        aliases: Names of this version that may move to another version, sorted, without ``version``.
        digest: Digest of the dataset, see :func:`~l5kit.data.digests.digest.dataset_digest`.
        num_files: Number of files.
        num_bytes: Size of the files in bytes.
        num_scenes: Number of scenes.
        num_frames: Number of frames.
        num_agents: Number of agent rows.
        hours: Recorded hours.
        description: Text for display.
        created: Time of logging in ISO 8601; empty if the store does not provide it.
        location: Location of the files: a URL if logged by reference, otherwise the place in the store.
        is_reference: Whether the store has only the manifest.
    """

    name: str
    version: str
    aliases: tuple[str, ...]
    digest: str
    num_files: int
    num_bytes: int
    num_scenes: int
    num_frames: int
    num_agents: int
    hours: float
    description: str
    created: str
    location: str
    is_reference: bool

    @classmethod
    def from_metadata(
        cls,
        name: str,
        metadata: Config,
        *,
        version: str,
        aliases: Sequence[str] = (),
        description: str = "",
        created: str = "",
        location: str,
    ) -> Self:
        """Return the record of a version.

        Args:
            name: Name of the artifact.
            metadata: Metadata from :attr:`DatasetContent.metadata`, optionally with ``reference``, the URL of files.
            version: Permanent name of the version; empty if not known yet.
            aliases: Other names of the version.
            description: Text for display.
            created: Time of logging.
            location: Location in the store; the URL of a reference takes precedence.

        Raises:
            ArtifactStoreError: The content of the store was not written by l5kit.
        """
        try:
            # check the digest, as it also names a folder in the cache
            digest = str(metadata["digest"])
            if not _DIGEST.fullmatch(digest):
                raise ValueError(f"a digest: {digest[:80]!r} is none")
            return cls(
                name=name,
                version=version,
                aliases=tuple(sorted(set(aliases) - {version})),
                digest=digest,
                num_files=int(metadata["num_files"]),
                num_bytes=int(metadata["num_bytes"]),
                num_scenes=int(metadata["scenes"]),
                num_frames=int(metadata["frames"]),
                num_agents=int(metadata["agents"]),
                hours=float(metadata["hours"]),
                description=description,
                created=created,
                location=str(metadata.get("reference") or location),
                is_reference=bool(metadata.get("reference")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactStoreError(
                f"{name} at {location} was not logged by l5kit: its metadata lacks {error}; log the dataset again "
                "with `l5kit artifact log`"
            ) from error

    def __str__(self) -> str:
        """Return ``NAME:VERSION``, with the digest in place of an unknown version."""
        return f"{self.name}:{self.version or self.digest[:12]}"


class ArtifactStore(Protocol):
    """Protocol of a store of dataset versions with names and aliases, in a project of a service.

    Names are texts such as ``l5-data:latest``. Files from :meth:`get` and :meth:`use` always match the digest of the
    artifact.
    """

    def log(
        self,
        content: DatasetContent,
        name: str,
        *,
        aliases: Sequence[str] = (),
        description: str = "",
        reference: str = "",
    ) -> DatasetArtifact:
        """Store a dataset as a version of ``name``, and return the version.

        Args:
            content: Description from :func:`describe_dataset`.
            name: Name such as ``l5-data``.
            aliases: Names of this version in addition to ``latest``; other versions lose them.
            description: Text for display; by default a sentence with the counts.
            reference: URL (``file://``, ``https://``, ``s3://``, ...) of the same files. The store then keeps only the
                manifest, not the files.
        """

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all datasets in the project, newest first for each name."""

    def get(self, name: str, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> DatasetArtifact:
        """Fetch a version into a new or empty folder, verified and atomically."""

    def use(self, name: str, folder: str | os.PathLike[str] | None = None) -> Path:
        """Return a folder with a version: ``folder`` if its digest matches, by default a folder in the user's cache."""


def describe_dataset(
    path: str | os.PathLike[str], *, workers: int = 0, progress: Progress | None = None
) -> DatasetContent:
    """Return the description of a dataset, computing the digest of its files and the counts of its logs.

    Args:
        path: A data folder, or a ``.zarr`` folder.
        workers: Number of reading threads; 0 for one per core.
        progress: Called with the number of bytes processed and the total.

    Raises:
        DatasetNotFoundError: The path does not exist, or contains no log.
        InvalidArgumentError: The path is a file or a URL.
    """
    folder = Path(path)
    url = path_of(folder)
    if is_url(url):
        raise InvalidArgumentError(
            f"path is the URL {url!r}; an artifact is logged from files of this machine: copy them first, and pass "
            "the URL as the reference (--reference) for a store that has the manifest only"
        )
    if folder.is_file():
        raise InvalidArgumentError(
            f"path is {str(folder)!r}, a file; an artifact holds the files of a folder: unpack it first, or pass the "
            "data folder in which it lies"
        )

    # a folder with the files of a zarr group is a log, like a .zarr folder
    logs = find_all_logs(folder)
    manifest = Manifest.of(folder, workers=workers, progress=progress)
    num_scenes = num_frames = num_agents = 0
    hours = 0.0
    for log in logs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            summary = ChunkedDataset(str(log)).open().summary()
        num_scenes += summary.num_scenes
        num_frames += summary.num_frames
        num_agents += summary.num_agents
        hours += summary.total_time_h
    return DatasetContent(Path(os.path.abspath(folder)), manifest, num_scenes, num_frames, num_agents, hours)
