"""The contract of readers: what one tells of a dataset in another format, and how it gives the scenes one by one."""

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
"""Characters of an error of Python in ours; values of a source may be long."""

_LICENCES: Final = {
    "nuplan": "nuPlan: CC BY-NC-SA 4.0 with the terms of use of nuPlan",
    "nuscenes": "nuScenes: CC BY-NC-SA 4.0 with the terms of use of nuScenes",
    **dict.fromkeys(("av2", "argoverse"), "Argoverse 2: CC BY-NC-SA 4.0"),
    **dict.fromkeys(("wod", "waymo"), "Waymo Dataset License Agreement for Non-Commercial Use (waymo.com/open/terms)"),
    "kitti360": "KITTI-360: CC BY-NC-SA 3.0",
    "pandaset": "PandaSet: CC BY 4.0 with the terms of PandaSet",
    "l5kit": "that of the dataset which l5kit has exported; see its facts",
    **dict.fromkeys(("lyft", "l5"), "Lyft Level 5: CC BY-NC-SA 4.0"),
    **dict.fromkeys(("pg", "metadrive"), "made scenes of MetaDrive: Apache 2.0"),
}
"""Licence of the data of a dataset that somebody has converted, by the beginning of its name."""


class SourceDataError(L5KitError, ValueError):
    """A file of another dataset is damaged, of an unknown version, or has impossible values.

    Args:
        file: Which file, relative to the folder of the source, or whole.
        record: Which record, table, row or element of it; empty for the whole file.
        problem: What is wrong, and what is to be done if something is.

    Attributes:
        file: Which file, relative to the folder of the source, or whole.
        record: Which record, table, row or element of it.
        problem: What is wrong, and what is to be done if something is.
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
    """Turn what goes wrong in a block into a :class:`SourceDataError` that names file and record.

    A disk that is full, a folder that may not be read and the like stay the errors that they are, as they are no
    fault of the file; and so does what already names its file.

    Args:
        file: Which file, relative to the folder of the source.
        record: Which record of it.

    Raises:
        SourceDataError: Something was wrong with a value, type, key or index; the cause is chained.
    """
    try:
        yield
    except SourceDataError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError) as error:
        text = " ".join(str(error)[:_LONGEST_REASON].split())
        has_text = text and isinstance(error, ValueError)  # other than the text of a KeyError
        problem = text if has_text or isinstance(error, L5KitError) else f"{type(error).__name__}: {text}"
        raise SourceDataError(file, record, problem) from error


@dataclass(frozen=True, order=True)
class SceneRef:
    """Where a scene of a source is, found without reading it.

    Attributes:
        split: Part of the source that it is of, such as ``train`` or ``val``: it goes to ``scenes/SPLIT.zarr``.
        name: What it is called, unique in its split; scenes are in the order of their names.
        file: Its file, relative to the folder of the source.
        record: Which record of the file, in words, for errors; empty for the whole file.
        key: Numbers by which the reader finds it, such as a byte offset; they mean something to the reader alone.
        others: Further files that it is made of, relative to the folder of the source; where one of them or ``file``
            changes, the scene is read again.
    """

    split: str
    name: str
    file: str
    record: str = ""
    key: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceInfo:
    """What holds for all scenes of a source.

    Attributes:
        dataset: Its name.
        version: Its version, as far as it is known.
        licence: The licence of the data, in one sentence, and whom to name.
        step_time_s: Usual time between two steps.
        label_mapping: The one of ``PERCEPTION_LABELS`` for each class of the source, read-only.
        missing: What it does not have that logs of l5kit have, one sentence each.
        made_up: What the reader adds that the files do not have, one sentence each.

    Raises:
        InvalidArgumentError: A label is none, or the time is not above 0.
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
        """Return class and fields, as what cannot be changed cannot be pickled either."""
        mapping = dict(self.label_mapping)
        texts = self.dataset, self.version, self.licence
        return type(self), (*texts, self.step_time_s, mapping, self.missing, self.made_up)


def licence_of(dataset: str) -> str:
    """Return the licence of a dataset that somebody has converted, which changes none, by the beginning of its name."""
    known = next((licence for start, licence in _LICENCES.items() if dataset.startswith(start)), None)
    return known if known is not None else f"{dataset}: that of the dataset, which l5kit does not know"


def require_source_folder(source: Path, *, called: str) -> None:
    """Refuse a source that is no folder.

    Args:
        source: Where the files should lie.
        called: What should lie there, for the message.

    Raises:
        DatasetNotFoundError: It is a file, or nothing.
    """
    if not source.is_dir():
        got = "this is a file; give the folder around it" if source.exists() else "there is no such folder"
        raise DatasetNotFoundError(f"no {called} at {str(source)!r}: {got}")


class Reader(Protocol):
    """Reads a dataset in another format; made with the folder of it.

    It can be pickled, and reading changes nothing but caches, so that several threads or processes read at once.
    Reading a scene twice gives the same.
    """

    @property
    def source(self) -> Path:
        """The folder."""

    @property
    def info(self) -> SourceInfo:
        """What holds for all scenes.

        Raises:
            SourceDataError: The version of the source is unknown.
        """

    def list_scenes(self) -> list[SceneRef]:
        """Return where the scenes are, in their order, without reading them.

        A damaged file among others is listed too, and :meth:`read` raises.

        Raises:
            DatasetNotFoundError: The folder is not there, or holds nothing in this format.
            SourceDataError: A file about all scenes is damaged.
        """

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene with its map.

        Args:
            ref: One of :meth:`list_scenes`.

        Raises:
            SourceDataError: The file is damaged, or has impossible values; the message names file and record.
        """
