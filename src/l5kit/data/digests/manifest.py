"""Manifest of a dataset as JSON: size and SHA-256 of every file, and a digest of the whole."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from l5kit._files import replaced_when_complete
from l5kit.configs.texts import parse_json, read_text
from l5kit.data.digests.digest import FileDigest, digest_of, hash_by_jobs, hash_files, with_digest, without_masks
from l5kit.data.digests.file_trees import name_problem, open_tree
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.progress import Progress
from l5kit.errors import ConfigError, InvalidArgumentError

_FORMAT: Final = "l5kit-manifest"
_VERSION: Final = 1
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = ("format", "version", "digest", "num_files", "num_bytes", "files")
_KEYS_OF_FILE: Final = ("path", "size", "sha256")


@dataclass(frozen=True)
class ManifestDifferences:
    """Paths of the files in which a dataset differs from a manifest, each tuple sorted.

    Attributes:
        missing: Files of the manifest that do not exist.
        changed: Files with another size or content.
        extra: Files that are not in the manifest, except agents masks stored in the meantime.
    """

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]

    def __bool__(self) -> bool:
        """Return whether there are differences."""
        return bool(self.missing or self.changed or self.extra)


@dataclass(frozen=True)
class Manifest:
    """Files of a dataset with size and content.

    Args:
        files: The files; they are sorted by the bytes of their paths.

    Raises:
        InvalidArgumentError: A path leaves the folder, has characters that not all systems allow, or occurs twice; a
            size is negative; a SHA-256 is malformed.
    """

    files: tuple[FileDigest, ...]

    def __post_init__(self) -> None:
        """Check and sort the files."""
        seen: set[str] = set()
        for file in self.files:
            if file.size < 0:
                problem: str | None = f"its size is {file.size}, but must be at least 0"
            elif not _SHA256.fullmatch(file.sha256):
                problem = f"its sha256 is {file.sha256!r}, but must be 64 lower-case hexadecimal digits"
            else:
                problem = name_problem(file.path) or ("it occurs twice" if file.path in seen else None)
            if problem is not None:
                raise InvalidArgumentError(f"files has {file.path!r}: {problem}")
            seen.add(file.path)
        object.__setattr__(self, "files", tuple(sorted(self.files, key=lambda file: file.path.encode())))

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, progress: Progress | None = None, workers: Workers = 0) -> Self:
        """Return the manifest of the files at a location.

        Args:
            path: A folder, such as a zarr or a whole data folder; a zip file, for its content; another file; or a URL
                of fsspec.
            progress: Called with the bytes done and their total, by one thread at a time.
            workers: Number of reading threads; 0 for one per core; or an executor whose workers see the same files. The
                manifest does not depend on it.

        Raises:
            DatasetNotFoundError: There are no files.
            InvalidArgumentError: A file has an odd name, or a link leads out of the folder.
            DataChangedError: A file was written to while it was read.
            CorruptedDataError: A zip file is damaged.
            OSError: A file cannot be read.
        """
        tree = open_tree(path)
        if isinstance(workers, int):
            hashed = hash_files(tree, tree.list_files(), workers=workers, progress=progress)
        else:
            hashed = hash_by_jobs(path, tree.list_files(), workers, progress=progress)
        with closing(hashed):
            return cls(tuple(with_digest(file, sha256) for file, sha256 in hashed))

    @cached_property
    def digest(self) -> str:
        """Digest of the whole, that of :func:`~l5kit.data.digests.digest.dataset_digest`."""
        return digest_of(self.files)

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def compare(self, other: "Manifest") -> ManifestDifferences:
        """Return how another manifest differs from this one, which is the reference."""
        wanted = {file.path: file for file in self.files}
        actual = {file.path: file for file in other.files}
        return ManifestDifferences(
            missing=tuple(path for path in wanted if path not in actual),
            changed=tuple(path for path, file in wanted.items() if path in actual and actual[path] != file),
            extra=tuple(file.path for file in without_masks(other.files) if file.path not in wanted),
        )

    def to_json(self) -> str:
        """Return the manifest as JSON, one line per file."""
        facts = {
            "format": _FORMAT,
            "version": _VERSION,
            "digest": self.digest,
            "num_files": len(self.files),
            "num_bytes": self.num_bytes,
        }
        head = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in facts.items())
        files = ",\n".join(f"    {json.dumps(vars(file))}" for file in self.files)
        return f'{{\n{head}  "files": [\n{files}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str, *, called: str = "manifest") -> Self:
        """Return the manifest stored as JSON.

        Args:
            text: The JSON, from :meth:`to_json`.
            called: Its source, for error messages.

        Raises:
            ConfigError: It is not JSON, not a manifest, has a later version, or was damaged or changed by hand: a path
                leaves the folder or occurs twice, or the digest of the whole does not match the files.
        """
        content = parse_json(text, called=called)
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ConfigError(f"{called} is not a manifest of l5kit; write one with `l5kit manifest PATH --out FILE`")
        if content.get("version") != _VERSION:
            raise ConfigError(
                f"{called} is a manifest of version {content.get('version')!r}, but this l5kit reads {_VERSION}; "
                "write it again, or use a later l5kit"
            )
        _require_keys(content, _KEYS, called)
        rows = content["files"]
        if not isinstance(rows, list):
            raise ConfigError(f"{called}: files must be a list, got {type(rows).__name__}")
        files = []
        for number, row in enumerate(rows):
            where = f"{called}: files[{number}]"
            if not isinstance(row, dict):
                raise ConfigError(f"{where} must be an object, got {row!r}")
            _require_keys(row, _KEYS_OF_FILE, where)
            path, size, sha256 = (row[key] for key in _KEYS_OF_FILE)
            if not isinstance(path, str) or not isinstance(sha256, str) or type(size) is not int:
                raise ConfigError(f"{where} must have strings as path and sha256 and an integer as size, got {row!r}")
            files.append(FileDigest(path, size, sha256))
        try:
            manifest = cls(tuple(files))
        except InvalidArgumentError as error:
            raise ConfigError(f"{called}: {error}") from error

        # the summary must match the files
        truth = {"num_files": len(files), "num_bytes": manifest.num_bytes, "digest": manifest.digest}
        for name, value in truth.items():
            if content[name] != value:
                raise ConfigError(
                    f"{called} was damaged or changed by hand: {name} is {content[name]!r}, but its files give "
                    f"{value!r}; get it again from its source"
                )
        return manifest

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest to a file atomically."""
        with replaced_when_complete(path, argument="path") as temporary:
            temporary.write_text(self.to_json(), "utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the manifest in a file.

        Raises:
            FileNotFoundError: There is no such file.
            ConfigError: It is not a manifest, or was damaged or changed; see :meth:`from_json`.
        """
        return cls.from_json(read_text(path, called="manifest"), called=f"manifest {Path(path)}")


def _require_keys(content: dict[str, object], keys: Sequence[str], where: str) -> None:
    """Refuse an object with missing or unknown keys."""
    lacking = [key for key in keys if key not in content]
    unknown = [key for key in content if key not in keys]
    named = (("lacks", lacking), ("has the unknown", unknown))
    problems = [f"{verb} {', '.join(names)}" for verb, names in named if names]
    if problems:
        raise ConfigError(f"{where} {' and '.join(problems)}; write it again with `l5kit manifest PATH --out FILE`")
