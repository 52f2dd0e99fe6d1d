"""Places of exports: folders that appear when they are complete, and replace nothing but datasets and exports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit.data.log_names import is_group
from l5kit.data.save import require_local
from l5kit.errors import InvalidArgumentError

__all__ = ["placed_export", "require_place"]

_OF_PY123D = frozenset({"logs", "maps"})
_OF_TABLES = frozenset({"scenes.parquet", "frames", "agents", "traffic_light_faces", "README.md"})


@contextmanager
def placed_export(out: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Hand out the path of a folder yet to be made, which moves to its place when the block ends without an error.

    Args:
        out: The place.
        overwrite: Let it take the place of a dataset, an export or an empty folder.

    Raises:
        FileExistsError: There is something, at the start or at the end, and ``overwrite`` is False.
        InvalidArgumentError: ``out`` is a URL, or something else is there.
    """
    require_place(out, overwrite=overwrite)
    target = Path(out).absolute()
    clear_leftovers(target)
    with placed_when_complete(target, may_replace=overwrite) as complete:
        yield complete
        _require_replaceable(target, overwrite=overwrite)


def require_place(out: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse a place that :func:`placed_export` would refuse, before there is work for it.

    Raises:
        FileExistsError: There is something, and ``overwrite`` is False.
        InvalidArgumentError: ``out`` is a URL, or something else than a dataset or an export is there.
    """
    require_local("out", out)
    _require_replaceable(Path(out).absolute(), overwrite=overwrite)


def _require_replaceable(target: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise FileExistsError(f"{target} exists; choose another path, or replace it (overwrite=True)")
    if not target.is_dir() or (any(target.iterdir()) and not _is_export(target)):
        raise InvalidArgumentError(f"{target} is no dataset and no export, so it is not replaced; choose another path")


def _is_export(folder: Path) -> bool:
    return is_group(folder) or _is_of_tables(folder) or _is_of_py123d(folder)


def _is_of_py123d(folder: Path) -> bool:
    """Return whether a folder is an export for py123d, and holds nothing else that would be lost with it."""
    names = {entry.name for entry in folder.iterdir()}
    if "logs" not in names or not names <= _OF_PY123D:
        return False
    return all(file.suffix == ".arrow" for file in folder.rglob("*") if not file.is_dir())


def _is_of_tables(folder: Path) -> bool:
    """Return whether a folder is an export of tables, and holds nothing else that would be lost with it."""
    names = {entry.name for entry in folder.iterdir()}
    if "scenes.parquet" not in names or not names <= _OF_TABLES:
        return False
    tables = (entry for entry in folder.iterdir() if entry.is_dir())
    return all(file.suffix == ".parquet" and file.is_file() for table in tables for file in table.iterdir())
