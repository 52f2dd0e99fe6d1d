"""Published dataset: its source, the layout of a data folder, and the paths of downloaded parts in it.

scenes/          *.zarr (folders) or *.zarr.zip, with mask.npz and gt.csv of test sets
aerial_map/      aerial_map.png
semantic_map/    semantic_map.pb
meta.json
city.json        of synthetic cities: the arguments of their generation
other/NAME/      other content of the archive NAME, such as texts
"""

import filecmp
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from l5kit.data.layout import is_group
from l5kit.errors import DownloadError

_SCENES = "scenes"
_OTHER = "other"
_FOLDERS = (_SCENES, "aerial_map", "semantic_map")
_FIXED = {
    "semantic_map.pb": PurePosixPath("semantic_map/semantic_map.pb"),
    "aerial_map.png": PurePosixPath("aerial_map/aerial_map.png"),
    "meta.json": PurePosixPath("meta.json"),
    "city.json": PurePosixPath("city.json"),
}
_TEST_SET_FILES = ("mask.npz", "gt.csv")
SINGLE_FILES = frozenset({*_FIXED, *_TEST_SET_FILES})
"""Names of single files that belong to a dataset, besides zipped logs."""

_ZARR = ".zarr"
_ZIPPED = ".zarr.zip"


@dataclass(frozen=True)
class PlacedPart:
    """A part of a download: one file, or one zarr.

    Attributes:
        source: Its current path.
        path: Its path in the data folder, relative.
    """

    source: Path
    path: PurePosixPath

    @property
    def is_dataset(self) -> bool:
        """Whether it is a log."""
        return self.path.name.endswith((_ZARR, _ZIPPED)) and self.path.parts[0] == _SCENES

    @property
    def is_known(self) -> bool:
        """Whether the layout defines its path."""
        return self.path.parts[0] != _OTHER


@dataclass(frozen=True)
class FoundParts:
    """A folder with parts of a dataset in any arrangement, such as an unpacked archive.

    Attributes:
        folder: The folder.
        title: Name for a zarr without one, and for the folder of files that do not belong to a dataset.
        without: Files to ignore.
    """

    folder: Path
    title: str
    without: frozenset[Path] = frozenset()


def plan_layout(folders: Sequence[FoundParts], *, called: str) -> list[PlacedPart]:
    """Return the parts in some folders and their paths in the layout; nothing is moved.

    Args:
        folders: The folders.
        called: Their source, for messages.

    Raises:
        DownloadError: There is no part of a dataset, or there are two different parts for one path.
    """
    planned: dict[PurePosixPath, PlacedPart] = {}
    for parts in folders:
        for source in _parts_of(parts.folder):
            if source in parts.without:
                continue
            part = PlacedPart(source, _path_in_layout(source, parts.folder, parts.title))
            # a file that occurs twice, such as in an archive and next to it, is used once
            same = planned.setdefault(part.path, part)
            are_files = same.source.is_file() and source.is_file()
            if same is not part and not (are_files and filecmp.cmp(same.source, source, shallow=False)):
                raise DownloadError(
                    f"{called} has two files for {part.path}, in {same.source.parent.name!r} and "
                    f"{source.parent.name!r}; unpack it yourself, and give the folder with the one that you want"
                )
    if not any(part.is_known for part in planned.values()):
        raise DownloadError(f"{called} has no part of a dataset: no zarr, {', '.join(_FIXED)}")
    return list(planned.values())


def _parts_of(folder: Path) -> Iterator[Path]:
    """Yield the files and zarr groups in a folder, in the order of their paths."""
    if is_group(folder):
        yield folder
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            yield from _parts_of(entry)
        else:
            yield entry


def _path_in_layout(source: Path, folder: Path, title: str) -> PurePosixPath:
    relative = source.relative_to(folder)
    if source.is_dir() or source.name.endswith(_ZIPPED):
        name = source.name if source != folder else title
        return _path_in_scenes(source, folder, name if name.endswith((_ZARR, _ZIPPED)) else f"{name}{_ZARR}")
    if source.name in _FIXED:
        return _FIXED[source.name]
    if source.name in _TEST_SET_FILES:
        return _path_in_scenes(source, folder, source.name)
    for number, part in enumerate(relative.parts[:-1]):
        if part in _FOLDERS:
            return PurePosixPath(*relative.parts[number:])
    return PurePosixPath(_OTHER, title, *relative.parts)


def _path_in_scenes(source: Path, folder: Path, name: str) -> PurePosixPath:
    """Return the path of a log or of a file of a test set; the latter stays in its own folder."""
    parents = source.relative_to(folder).parts[:-1]
    if _SCENES in parents:
        kept = parents[parents.index(_SCENES) + 1 :]
    else:
        is_test_set = any((source.parent / file).is_file() for file in _TEST_SET_FILES)
        kept = parents[-1:] if is_test_set else ()
    if kept and kept[-1] in (name, name.removesuffix(_ZIPPED).removesuffix(_ZARR)) and source.name == name:
        kept = kept[:-1]  # train.zarr/train.zarr
    return PurePosixPath(_SCENES, *kept, name)


@dataclass(frozen=True)
class PublishedDataset:
    """Facts about a dataset that its owner provides.

    Attributes:
        name: Its name.
        owner: The provider.
        page: Address of the owner's page.
        licence: Short name of the licence, and its conditions.
        licence_page: Address of its text.
        access: How to get it.
        layout: The files of a data folder.
    """

    name: str
    owner: str
    page: str
    licence: str
    licence_page: str
    access: str
    layout: tuple[str, ...]


PUBLISHED_DATASET = PublishedDataset(
    name="Lyft Level 5 Prediction dataset, now the Woven by Toyota Prediction dataset",
    owner="Woven by Toyota",
    page="https://woven.toyota/en/prediction-dataset",
    licence="CC BY-NC-SA 4.0: name the owner, no commercial use, share under the same terms",
    licence_page="https://creativecommons.org/licenses/by-nc-sa/4.0/",
    access="the owner gives addresses to those who register on the page and agree to the terms there; l5kit has none",
    layout=(
        "scenes/sample.zarr, train.zarr, train_full.zarr, validate.zarr",
        "aerial_map/aerial_map.png",
        "semantic_map/semantic_map.pb",
        "meta.json",
    ),
)
