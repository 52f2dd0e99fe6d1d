"""Destinations of exports: folders that appear when complete, and replace only datasets and exports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit.data.jobs.owned_outputs import DATASET, OutputKind, require_absent, require_own_folder, tells_l5kit
from l5kit.data.save import require_local

_COLUMNS = OutputKind(
    "an export",
    lambda folder: tells_l5kit(folder / "zarr.json"),
    r"(?:[^/]+/)*(?:zarr\.json|c(?:/\d+)*)",
)
_KINDS = (
    _COLUMNS,
    DATASET,
    OutputKind(
        "an export of tables",
        lambda folder: tells_l5kit(folder / "scenes.parquet"),
        r"scenes\.parquet|README\.md|(?:frames|agents|traffic_light_faces)/part-\d+\.parquet",
    ),
    OutputKind(
        "an export for OpenSCENARIO",
        lambda folder: any(map(tells_l5kit, folder.glob("scene-*.xosc"))),
        r"scene-\d+\.xosc|map\.xodr",
    ),
    OutputKind(
        "an export for py123d",
        lambda folder: any(folder.glob("logs/l5kit_*")),
        r"logs/l5kit_\w+/scene-\d+/\w+(?:\.\w+)*\.arrow|maps/l5kit/l5kit_world\.arrow",
    ),
)


@contextmanager
def placed_export(out: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Provide the path of a folder to create, which is moved to its destination when the block ends without an error.

    Args:
        out: The destination.
        overwrite: Allow it to replace a dataset, an export or an empty folder.

    Raises:
        FileExistsError: The destination exists, at the start or at the end, and ``overwrite`` is False.
        InvalidArgumentError: ``out`` is a URL, or something else exists there.
    """
    require_export_target(out, overwrite=overwrite)
    target = Path(out).absolute()
    clear_leftovers(target)
    with placed_when_complete(target, may_replace=overwrite) as complete:
        yield complete
        _require_replaceable(target, overwrite=overwrite)


def require_export_target(out: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse a destination that :func:`placed_export` would refuse, before any work is done.

    Raises:
        FileExistsError: The destination exists, and ``overwrite`` is False.
        InvalidArgumentError: ``out`` is a URL, or something other than a dataset or an export exists there.
    """
    require_local("out", out)
    _require_replaceable(Path(out).absolute(), overwrite=overwrite)


def _require_replaceable(target: Path, *, overwrite: bool) -> None:
    require_absent(target, overwrite=overwrite)
    require_own_folder(target, next((kind for kind in _KINDS if kind.is_marked(target)), _COLUMNS), argument="out")
