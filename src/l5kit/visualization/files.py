"""Files that are either written whole or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replaced_when_complete"]


@contextmanager
def replaced_when_complete(output_filepath: str | os.PathLike[str]) -> Iterator[Path]:
    """Hand out a temporary path beside ``output_filepath`` that takes its place when the block ends without an error.

    After an error the temporary file is removed and an older file of the wanted name stays as it was. The temporary
    name ends like the wanted one, because video writers choose the container by it.

    Raises:
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
        IsADirectoryError: ``output_filepath`` is a folder.
    """
    path = Path(output_filepath)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"output_filepath {str(path)!r}: the folder {str(path.parent)!r} does not exist; make it first"
        )
    if path.is_dir():
        raise IsADirectoryError(f"output_filepath {str(path)!r} is a folder; give the name of a file in it")
    temporary = path.with_name(f".{uuid.uuid4().hex}-{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
