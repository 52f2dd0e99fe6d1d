"""Artifact of a dataset: a version of it under a name, with digest, aliases, counts and description, kept by a store.

Here stand the records, what a dataset says of itself, and what every store offers. The stores are opened by
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
"""Alias of the version that was logged last; every store keeps it."""

_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ArtifactNotFoundError(L5KitError, LookupError, FileNotFoundError):
    """A store has no artifact of this name and alias."""


class ArtifactStoreError(L5KitError, OSError):
    """A store cannot be reached, refuses, or gives no answer; the message says what it said."""


@dataclass(frozen=True)
class ArtifactName:
    """Name of an artifact and one of its aliases or versions, written ``NAME:ALIAS``.

    Args:
        name: Letters, digits, ``.``, ``_`` and ``-``, such as ``l5-data``.
        alias: The same, such as ``latest``, ``v3`` or ``train``.

    Raises:
        InvalidArgumentError: It has other letters, or none.
    """

    name: str
    alias: str = LATEST

    def __post_init__(self) -> None:
        require_word(self.name, argument="name")
        require_word(self.alias, argument="alias")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what ``NAME`` or ``NAME:ALIAS`` stands for."""
        name, colon, alias = text.partition(":")
        return cls(name, alias) if colon else cls(name)

    def __str__(self) -> str:
        """Return ``NAME:ALIAS``."""
        return f"{self.name}:{self.alias}"


def require_word(text: str, *, argument: str) -> str:
    """Return a name or alias that every store and file system can have.

    Raises:
        InvalidArgumentError: It is none.
    """
    if not _WORD.fullmatch(text):
        raise InvalidArgumentError(
            f"{argument} is {text!r}, and must be 1 to 96 letters, digits, '.', '_' and '-', the first none of '.' "
            "and '-', such as l5-data"
        )
    return text


def read_metadata(text: str, *, called: str) -> JsonObject:
    """Return metadata that a store has kept as JSON.

    Raises:
        ConfigError: It is no JSON, or no object.
    """
    content = parse_json(text, called=called)
    if not isinstance(content, dict):
        raise ConfigError(f"{called} must be an object, got {type(content).__name__}")
    return content


@dataclass(frozen=True)
class DatasetContent:
    """What a dataset says of itself, before it is logged.

    Attributes:
        path: Folder with its files.
        manifest: The files with size and SHA-256, and the digest of the whole.
        num_scenes: Scenes of all logs in the folder; likewise the next two.
        num_frames: Frames.
        num_agents: Agent rows.
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
        """Digest and counts, as stores keep them: plain values by name."""
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
        """One human-readable sentence, for when they give none."""
        return (
            f"{self.path.name}: {self.num_scenes:,} scenes, {self.num_frames:,} frames, {self.num_agents:,} agents, "
            f"{duration_text(3600 * self.hours)}, in {len(self.manifest.files):,} files of "
            f"{self.manifest.num_bytes / 1e6:,.1f} MB"
        )


@dataclass(frozen=True)
class DatasetArtifact:
    """A version of a dataset in a store.

    Attributes:
        name: Its name, such as ``l5-data``.
        version: What a store calls this version for ever: ``v3``, or the hash of a commit. Empty while a run is
            offline, as the server gives the number when it is synced.
        aliases: Names of this version that may move to another one, sorted, without ``version``.
        digest: Digest of the dataset, that of :func:`~l5kit.data.digests.digest.dataset_digest`.
        num_files: Files of the dataset.
        num_bytes: Their bytes.
        num_scenes: Scenes; likewise the next two.
        num_frames: Frames.
        num_agents: Agent rows.
        hours: Recorded hours.
        description: Text for display.
        created: When it was logged, in ISO 8601; empty where the store does not tell.
        location: Where its files lie: a URL for one that was logged by reference, else its place in the store.
        is_reference: Whether the store has the manifest only.
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
            name: Its name.
            metadata: From :attr:`DatasetContent.metadata`, perhaps with ``reference``, the URL where the files lie.
            version: What the store calls it for ever; empty where that is not known yet.
            aliases: Other names of the version.
            description: Text for display.
            created: When it was logged.
            location: Where the store has it; the URL of a reference goes before.

        Raises:
            ArtifactStoreError: What the store has was not written by l5kit.
        """
        try:
            # the digest also names a folder in the cache, so that it must be one
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
        """Return ``NAME:VERSION``; the digest takes the place of a version that is not known yet."""
        return f"{self.name}:{self.version or self.digest[:12]}"


class ArtifactStore(Protocol):
    """Versions of datasets under names, with aliases, in a project of a service.

    Names are texts such as ``l5-data:latest``. Whatever :meth:`get` and :meth:`use` give has the digest of the
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
        """Put a dataset into the store as a version of ``name``, and return it.

        Args:
            content: From :func:`describe_dataset`.
            name: Such as ``l5-data``.
            aliases: Names of this version besides ``latest``; other versions lose them.
            description: Text for display; by default one with the counts.
            reference: URL (``file://``, ``https://``, ``s3://``, ...) where the same files lie. The store then takes
                the manifest, and not the files.
        """

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all in the project, the newest of each name first."""

    def get(self, name: str, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> DatasetArtifact:
        """Fetch a version into a folder that is new or empty; it is there whole and verified, or not at all."""

    def use(self, name: str, folder: str | os.PathLike[str] | None = None) -> Path:
        """Return a folder with a version: ``folder`` if it has its digest, by default one in the user's cache."""


def describe_dataset(
    path: str | os.PathLike[str], *, workers: int = 0, progress: Progress | None = None
) -> DatasetContent:
    """Return what a dataset says of itself: its files are digested and its logs counted.

    Args:
        path: A data folder, or a ``.zarr`` folder.
        workers: Threads that read; 0 for one on each core.
        progress: Called with the bytes that are done and their total.

    Raises:
        DatasetNotFoundError: There is nothing, or no log in it.
        InvalidArgumentError: It is a file or a URL.
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

    # a folder that the files of zarr groups mark as a log is one, as is a .zarr
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
