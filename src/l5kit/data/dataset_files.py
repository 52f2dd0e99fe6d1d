"""Files of a dataset: locations of its log, its maps and its meta.json."""

import os
from dataclasses import dataclass
from pathlib import Path

from l5kit._warning import warn_caller
from l5kit.data.layout import is_group, logs_in, name_of_log
from l5kit.data.remote_dataset_files import find_beside, find_remote_datasets, local_file
from l5kit.data.stores.store import is_url, path_of
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError

_SCENES_FOLDER = "scenes"
_USUAL_LOG = "sample"


@dataclass(frozen=True)
class _Kind:
    """A file that belongs to a dataset: its name, its option, and its possible locations."""

    title: str
    option: str
    names: tuple[str, ...]


_SEMANTIC_MAP = _Kind("semantic map", "map", ("semantic_map/semantic_map.pb", "semantic_map.pb", "maps/index.json"))
_META = _Kind("metadata", "meta", ("meta.json",))
_AERIAL_MAP = _Kind("aerial picture", "aerial", ("aerial_map/aerial_map.png", "aerial_map.png"))


@dataclass(frozen=True)
class DatasetFiles:
    """Locations of the parts of a dataset.

    Attributes:
        dataset: Folder or zip file with the log; for a remote one the URL as a path, which
            :class:`~l5kit.data.zarr_dataset.ChunkedDataset` takes.
        semantic_map: Semantic map (``.pb``), or the index of a folder of many (``maps/index.json``), or None; for a
            remote dataset a local copy, of the index alone.
        meta: Matrices (``meta.json``), or None; likewise.
        aerial: Aerial image, or None; for a remote dataset the URL as a path, which is copied when it is drawn.
        notes: A sentence for each missing part.
    """

    dataset: Path
    semantic_map: Path | None
    meta: Path | None
    aerial: Path | None
    notes: tuple[str, ...]


def find_dataset_files(
    path: str | os.PathLike[str],
    *,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    aerial_path: str | os.PathLike[str] | None = None,
) -> DatasetFiles:
    """Return the files of a dataset, searched inside, next to and one level above it.

    Args:
        path: Dataset folder in the published layout, or its ``.zarr`` folder or zip file; or the URL of one.
        map_path: Semantic map, instead of searching for it; likewise the next two.
        meta_path: ``meta.json``.
        aerial_path: Aerial image.

    Raises:
        DatasetNotFoundError: There is nothing at ``path``, or no dataset inside it.
        InvalidArgumentError: There are several candidates for one of the parts; for logs, none of which is ``sample``.
        FileNotFoundError: A given file does not exist.
        UnreachableDataError: The service of a URL refuses, or does not answer.
    """
    dataset = find_dataset(path)
    is_remote, folders = is_url(path_of(dataset)), list[Path]()
    if not is_remote:
        # the folders inside, next to and one level above the dataset; links are not resolved, as a link may be next to
        # the maps
        beside = Path(os.path.abspath(dataset)).parent
        near = [Path(os.path.abspath(path)), beside / dataset.name, beside, beside.parent]
        folders = [folder for folder in dict.fromkeys(near) if folder.is_dir()]
    candidates: dict[_Kind, list[Path]] = {}
    given = ((_SEMANTIC_MAP, map_path), (_META, meta_path), (_AERIAL_MAP, aerial_path))
    for kind, override in given:
        if override is not None:
            # given files must exist; those of URLs are copied, except for images
            file = Path(override) if kind is _AERIAL_MAP and is_url(path_of(override)) else local_file(Path(override))
            if not is_url(path_of(file)) and not file.is_file():
                raise FileNotFoundError(
                    f"--{kind.option} {str(override)!r}: there is no such file; name the {kind.title}"
                )
            candidates[kind] = [file]
        elif is_remote:
            # files of a remote dataset are copied, except for images, which are large
            urls = find_beside(path_of(path), path_of(dataset), kind.names)
            stay = kind is _AERIAL_MAP or len(urls) > 1
            candidates[kind] = [Path(url) if stay else local_file(url) for url in urls]
        else:
            candidates[kind] = _candidates(kind, folders)
    chosen = {kind.option: _only(kind, candidates[kind]) for kind, _ in given}
    notes = tuple(
        f"no {kind.title} found ({' or '.join(kind.names)} in or near {path_of(path)}); --{kind.option} names one"
        for kind, _ in given
        if chosen[kind.option] is None
    )
    return DatasetFiles(dataset, chosen["map"], chosen["meta"], chosen["aerial"], notes)


def find_map_files(path: str | os.PathLike[str]) -> DatasetFiles:
    """Return the files of a dataset, or of a folder that has a semantic map and no log.

    Args:
        path: As for :func:`find_dataset_files`.

    Raises:
        DatasetNotFoundError: There is neither a log nor a semantic map.
        InvalidArgumentError: There are several candidates for one of the parts.
    """
    try:
        return find_dataset_files(path)
    except DatasetNotFoundError:
        folder = Path(path_of(path))
        parts = {kind.option: _only(kind, _candidates(kind, [folder])) for kind in (_SEMANTIC_MAP, _META)}
        if parts["map"] is None or is_url(path_of(path)):
            raise
        return DatasetFiles(folder, parts["map"], parts["meta"], None, ())


def find_dataset(path: str | os.PathLike[str], *, name: str | None = None) -> Path:
    """Return the folder or zip file with the log: the path itself, or the one in a dataset folder.

    Among several logs in a folder it is the one with the given name; without a name ``sample``, with a warning.

    Args:
        path: Dataset folder in the published layout, or its ``.zarr`` folder or zip file; or the URL of one.
        name: Name of the log, such as ``train`` for ``scenes/train.zarr``.

    Returns:
        The path; for a URL, the URL as a path.

    Raises:
        DatasetNotFoundError: There is nothing at ``path``, or no dataset inside it.
        InvalidArgumentError: There are several datasets, and none or more than one has the name or is ``sample``; or
            the only one has another name.
        UnreachableDataError: The service of a URL refuses, or does not answer.
    """
    logs = find_all_logs(path)
    if len(logs) == 1 and name is None:
        return logs[0]
    wanted = [log for log in logs if name_of_log(log.name) == (name or _USUAL_LOG)]
    listed = ", ".join(map(path_of, logs))
    if len(wanted) != 1 and name is not None:
        names = ", ".join(name_of_log(log.name) for log in logs)
        raise InvalidArgumentError(f"{path_of(path)!r} has the logs {names}, not one named {name!r}; name one of them")
    if len(wanted) != 1:
        raise InvalidArgumentError(f"several datasets in {path_of(path)!r}: {listed}; pass the path of one of them")
    if name is None:
        others = ", ".join(log.name for log in logs if log != wanted[0])
        text = f"{path_of(path)} has several logs; {wanted[0].name} is read; for another one ({others}), pass its path"
        warn_caller(text, UserWarning)
    return wanted[0]


def find_all_logs(path: str | os.PathLike[str], *, takes_towns: bool = False) -> list[Path]:
    """Return all logs of a dataset folder, sorted, or a log itself; at least one.

    Args:
        path: Dataset folder in the published layout, or its ``.zarr`` folder or zip file; or the URL of one.
        takes_towns: Whether ``path`` may also be a folder of dataset folders, as ``l5kit synth --towns`` makes it; then
            the logs are those of all of them.

    Raises:
        DatasetNotFoundError: There is nothing at ``path``, or no dataset inside it.
        UnreachableDataError: The service of a URL refuses, or does not answer.
    """
    url = path_of(path)
    if is_url(url):
        return [Path(each) for each in find_remote_datasets(url)]
    path = Path(url)
    if not path.exists():
        raise DatasetNotFoundError(f"no dataset at {str(path)!r}: this path does not exist; check the spelling")
    if path.is_file() or path.suffix == ".zarr" or is_group(path):
        return [path]
    candidates = logs_in([path, path / _SCENES_FOLDER])
    if candidates:
        return candidates
    of_towns = logs_in([folder / _SCENES_FOLDER for folder in path.iterdir() if not folder.name.startswith(".")])
    if not of_towns or not takes_towns:
        towns = sorted({log.parent.parent.name for log in of_towns})
        advice = "pass a dataset folder or the path of a .zarr"
        if towns:
            advice = f"pass one of the dataset folders in it: {', '.join(towns[:8])}{', ...' if towns[8:] else ''}"
        elif any((path / name).is_file() for name in _SEMANTIC_MAP.names):
            advice = (
                "it has a map without scenes, as l5kit import lanelet2 and opendrive write it: name its file with "
                "--map beside a dataset, or open it in Python with open_map(find_map_files(PATH))"
            )
        raise DatasetNotFoundError(
            f"no dataset in {str(path)!r}: there is no *.zarr in it or in {_SCENES_FOLDER}/; {advice}"
        )
    return of_towns


def _candidates(kind: _Kind, folders: list[Path]) -> list[Path]:
    """Return the candidate files of one of the parts, without duplicates."""
    candidates = [folder / name for folder in folders for name in kind.names if (folder / name).is_file()]
    by_file: dict[Path, Path] = {}
    for candidate in candidates:
        by_file.setdefault(candidate.resolve(), candidate)
    return list(by_file.values())


def _only(kind: _Kind, candidates: list[Path]) -> Path | None:
    if len(candidates) > 1:
        names = ", ".join(map(path_of, candidates))
        raise InvalidArgumentError(
            f"several files may be the {kind.title}: {names}; pass --{kind.option} with one of them"
        )
    return candidates[0] if candidates else None
