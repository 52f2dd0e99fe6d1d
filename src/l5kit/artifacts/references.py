"""Fetching of files from a URL by their relative paths."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from l5kit.data.artifact import ArtifactStoreError
from l5kit.data.progress import Progress
from l5kit.data.stores.file_listing import open_file_system, path_on_server
from l5kit.data.stores.store import path_of

_BLOCK_BYTES: Final = 2**20


def fetch_files(url: str, paths: Sequence[str], folder: Path, *, progress: Progress | None = None) -> None:
    """Copy files from below a URL into a folder.

    Args:
        url: Where they lie, for fsspec: ``file://``, ``https://``, ``s3://``, ``memory://``, ...
        paths: Relative paths, which stay below the folder.
        folder: Where they are put, under the same paths.
        progress: Called with the files that are done and their number.

    Raises:
        ArtifactStoreError: A file cannot be read; the message names it.
        InvalidArgumentError: fsspec does not know the kind of URL.
        MissingDependencyError: fsspec needs a library for this kind of URL.
    """
    file_system, root = open_file_system(path_of(url))  # fsspec leaves %20 in file:// URLs as it is
    for number, path in enumerate(paths):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        source = f"{root.rstrip('/')}/{path_on_server(file_system, path)}"
        try:
            with file_system.open(source, "rb") as opened, open(target, "wb") as copy:
                shutil.copyfileobj(opened, copy, _BLOCK_BYTES)
        except Exception as error:  # each file system has errors of its own
            raise ArtifactStoreError(f"{path} could not be read from {url}: {error or type(error).__name__}") from error
        if progress is not None:
            progress(number + 1, len(paths))
