"""Files that are either written whole or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replaced_when_complete"]


@contextmanager
def replaced_when_complete(path: str | os.PathLike[str], *, argument: str = "output_filepath") -> Iterator[Path]:
    """Hand out a temporary path beside ``path`` that takes its place when the block ends without an error.

    After an error the temporary file is removed and an older file of the wanted name stays as it was. The temporary
    name ends like the wanted one, because video writers choose the container by it. The block makes the file itself,
    so that its permissions are those of any new file.

    Args:
        path: The wanted name.
        argument: What the caller's caller knows ``path`` as, for the errors.

    Raises:
        FileNotFoundError: The folder of ``path`` does not exist.
        IsADirectoryError: ``path`` is a folder.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{argument} {str(target)!r}: the folder {str(target.parent)!r} does not exist; make it first"
        )
    if target.is_dir():
        raise IsADirectoryError(f"{argument} {str(target)!r} is a folder; give the name of a file in it")
    temporary = target.with_name(f".{uuid.uuid4().hex}-{target.name}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
