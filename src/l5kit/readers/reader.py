"""Protocol of the readers of other formats: facts of a dataset, a list of its scenes, and reading one scene."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError, L5KitError
from l5kit.readers.source_scene import SourceScene

_LONGEST_REASON: Final = 2000
"""Maximum characters of a Python error that are quoted in a message; values of a source may be long."""

_LICENCES: Final = {
    "nuplan": "nuPlan: CC BY-NC-SA 4.0 with the terms of use of nuPlan",
    "nuscenes": "nuScenes: CC BY-NC-SA 4.0 with the terms of use of nuScenes",
    **dict.fromkeys(("av2", "argoverse"), "Argoverse 2: CC BY-NC-SA 4.0"),
    **dict.fromkeys(("wod", "waymo"), "Waymo Dataset License Agreement for Non-Commercial Use (waymo.com/open/terms)"),
    "kitti360": "KITTI-360: CC BY-NC-SA 3.0",
    "pandaset": "PandaSet: CC BY 4.0 with the terms of PandaSet",
    "l5kit": "that of the dataset which l5kit has exported; see its facts",
    **dict.fromkeys(("lyft", "l5"), "Lyft Level 5: CC BY-NC-SA 4.0"),
    **dict.fromkeys(("pg", "metadrive"), "synthetic scenes of MetaDrive: Apache 2.0"),
}
"""Licence of the original data of a converted dataset, by the prefix of its name."""


class SourceDataError(L5KitError, ValueError):
    """A file of another dataset is damaged, of an unknown version, or has impossible values.

    Args:
        file: The file, relative to the folder of the source, or absolute.
        record: The record, table, row or element in the file; empty for the whole file.
        problem: What is wrong and, if possible, how to fix it.

    Attributes:
        file: The file, relative to the folder of the source, or absolute.
        record: The record, table, row or element in the file.
        problem: What is wrong and, if possible, how to fix it.
    """

    def __init__(self, file: str, record: str, problem: str) -> None:
        super().__init__(f"{file}{f' ({record})' if record else ''}: {problem}")
        self.file = file
        self.record = record
        self.problem = problem

    def __reduce__(self) -> tuple[type["SourceDataError"], tuple[str, str, str]]:
        """Return class and arguments."""
        return type(self), (self.file, self.record, self.problem)


@contextmanager
def naming_source(file: str, record: str = "") -> Iterator[None]:
    """Turn errors of a block into a :class:`SourceDataError` that names file and record.

    Errors that are no fault of the file, such as a full disk or missing permissions, pass unchanged, and so do errors
    that already name their file.

    Args:
        file: The file, relative to the folder of the source.
        record: The record in the file.

    Raises:
        SourceDataError: A value, type, key or index was invalid; the cause is chained.
    """
    try:
        yield
    except SourceDataError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError) as error:
        text = " ".join(str(error)[:_LONGEST_REASON].split())
        has_text = text and isinstance(error, ValueError)  # the text of a KeyError is only the key
        problem = text if has_text or isinstance(error, L5KitError) else f"{type(error).__name__}: {text}"
        raise SourceDataError(file, record, problem) from error


@dataclass(frozen=True, order=True)
class SceneRef:
    """Location of a scene in a source, known without reading it.

    Attributes:
        split: Part of the source, such as ``train`` or ``val``; the scene goes to ``scenes/SPLIT.zarr``.
        name: Name, unique in its split; scenes are ordered by name.
        file: Its file, relative to the folder of the source.
        record: The record in the file, in words, for errors; empty for the whole file.
        key: Numbers by which the reader finds the scene, such as a byte offset; private to the reader.
        others: Further files of the scene, relative to the folder of the source; a change of one of them or of ``file``
            makes the scene be read again.
    """

    split: str
    name: str
    file: str
    record: str = ""
    key: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceInfo:
    """Facts that hold for all scenes of a source.

    Attributes:
        dataset: Name of the dataset.
        version: Version of the dataset, as far as known.
        licence: The licence of the data with its attribution, in one sentence.
        step_time_s: Nominal time between two steps in seconds.
        label_mapping: The one of ``PERCEPTION_LABELS`` for each class of the source, read-only.
        missing: Contents of l5kit logs that the source lacks, one sentence each.
        made_up: Contents that the reader adds to the data of the files, one sentence each.

    Raises:
        InvalidArgumentError: A label is unknown, or the time is not above 0.
    """

    dataset: str
    version: str
    licence: str
    step_time_s: float
    label_mapping: Mapping[str, str] = field(hash=False)
    missing: tuple[str, ...] = ()
    made_up: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, label in self.label_mapping.items():
            if label not in PERCEPTION_LABEL_TO_INDEX:
                raise InvalidArgumentError(
                    f"label_mapping must give one of PERCEPTION_LABELS, got {label!r} for {name!r}"
                )
        if not self.step_time_s > 0:
            raise InvalidArgumentError(f"step_time_s must be above 0, got {self.step_time_s}")
        object.__setattr__(self, "label_mapping", MappingProxyType(dict(self.label_mapping)))

    def __reduce__(self) -> tuple[type["SourceInfo"], tuple[object, ...]]:
        """Return class and fields, because a mapping proxy cannot be pickled."""
        mapping = dict(self.label_mapping)
        texts = self.dataset, self.version, self.licence
        return type(self), (*texts, self.step_time_s, mapping, self.missing, self.made_up)


def licence_of(dataset: str) -> str:
    """Return the licence of a dataset by the prefix of its name; converted data keep the licence of the original."""
    known = next((licence for start, licence in _LICENCES.items() if dataset.startswith(start)), None)
    return known if known is not None else f"{dataset}: that of the dataset, which l5kit does not know"


def require_source_folder(source: Path, *, called: str) -> None:
    """Refuse a source that is not a folder.

    Args:
        source: Path of the source.
        called: Expected content, for the message.

    Raises:
        DatasetNotFoundError: The path is a file or does not exist.
    """
    if not source.is_dir():
        got = "this is a file; give the folder around it" if source.exists() else "there is no such folder"
        raise DatasetNotFoundError(f"no {called} at {str(source)!r}: {got}")


class Reader(Protocol):
    """Protocol of a reader of a dataset in another format; constructed with the folder of the dataset.

    Readers can be pickled, and reading changes nothing but caches, so that several threads or processes can read at
    once. Reading a scene twice gives the same result.
    """

    @property
    def source(self) -> Path:
        """The folder."""

    @property
    def info(self) -> SourceInfo:
        """Facts that hold for all scenes.

        Raises:
            SourceDataError: The version of the source is unknown.
        """

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenes, in order, without reading them.

        Damaged files are listed as well; :meth:`read` raises for them.

        Raises:
            DatasetNotFoundError: The folder does not exist, or holds nothing in this format.
            SourceDataError: A file about all scenes is damaged.
        """

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene with its map.

        Args:
            ref: One of :meth:`list_scenes`.

        Raises:
            SourceDataError: The file is damaged, or has impossible values; the message names file and record.
        """
