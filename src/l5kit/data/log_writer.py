"""Log writer: writes scenes one after the other to a new log, which appears when it is complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zarr.storage import LocalStore

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit.data.log_facts import LogFacts, require_facts
from l5kit.data.save import require_free, require_local
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import LogRecords, SceneRecords, join_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError, ReadOnlyDatasetError

_SCENES_AT_ONCE = 8
_AGENTS_AT_ONCE = 200_000


class LogWriter:
    """Writer that appends scenes to a new log in small groups; created by :func:`write_log`.

    After a failed write, for example on a full disk, the state of the log is unknown. From then on every call raises,
    and so does the end of the block of :func:`write_log`, which leaves no log.

    Args:
        dataset: An initialized dataset without rows.

    Attributes:
        num_scenes: Number of scenes appended.
    """

    def __init__(self, dataset: ChunkedDataset) -> None:
        self.num_scenes = 0
        self._dataset = dataset
        self._waiting: list[SceneRecords] = []
        self._failure: BaseException | None = None
        self._is_ended = False

    def append(self, scene: SceneArrays | SceneRecords) -> int:
        """Append a scene and return its index.

        Args:
            scene: Plain arrays, with agents from :class:`~l5kit.data.tracks.Tracks` for example, or records; copied.

        Raises:
            CorruptedDataError: An earlier write failed.
            InvalidArgumentError: ``scene`` has another type, or does not fit the record types; it is not added.
            ReadOnlyDatasetError: The block of :func:`write_log` has ended.
        """
        self._require_writable()
        if isinstance(scene, SceneArrays):
            return self._add(scene.to_records())
        if not isinstance(scene, SceneRecords):
            raise InvalidArgumentError(
                f"scene must be SceneArrays or SceneRecords, got {type(scene).__name__}; "
                "SceneRecords.read(dataset, scene_index) reads one, and append_log() takes LogRecords"
            )
        frames, agents, tl_faces = scene.frames.copy(), scene.agents.copy(), scene.tl_faces.copy()
        return self._add(replace(scene, frames=frames, agents=agents, tl_faces=tl_faces))

    def append_log(self, log: LogRecords) -> None:
        """Append all scenes of a log in memory, such as that of a :class:`~l5kit.data.record_buffer.RecordBuffer`.

        Raises:
            CorruptedDataError: An earlier write failed, or intervals of the log are wrong.
            InvalidArgumentError: ``log`` is not a LogRecords.
            ReadOnlyDatasetError: The block of :func:`write_log` has ended.
        """
        self._require_writable()
        if not isinstance(log, LogRecords):
            raise InvalidArgumentError(
                f"log must be LogRecords, as to_log() of a RecordBuffer gives, got {type(log).__name__}; append() "
                "takes single scenes"
            )
        dataset = log.as_dataset()
        for scene in range(len(log.scenes)):
            self._add(SceneRecords.read(dataset, scene))  # copies

    def flush(self) -> None:
        """Write the pending scenes.

        Raises:
            CorruptedDataError: An earlier write failed.
            ReadOnlyDatasetError: The block of :func:`write_log` has ended.
        """
        self._require_writable()
        if not self._waiting:
            return
        dataset = self._dataset
        try:
            joined = join_scenes(self._waiting, (len(dataset.frames), len(dataset.agents), len(dataset.tl_faces)))
            for name, records in vars(joined).items():
                getattr(dataset, name).append(records)
        except BaseException as error:  # some of the four arrays may have the scenes, others not
            self._failure = error
            raise
        self._waiting.clear()

    def _add(self, scene: SceneRecords) -> int:
        """Take ownership of a scene whose arrays are not used elsewhere."""
        self._waiting.append(scene)
        self.num_scenes += 1
        num_agents = sum(len(waiting.agents) for waiting in self._waiting)
        if len(self._waiting) == _SCENES_AT_ONCE or num_agents >= _AGENTS_AT_ONCE:
            self.flush()
        return self.num_scenes - 1

    def _require_writable(self) -> None:
        if self._is_ended:
            raise ReadOnlyDatasetError(
                "nothing can be added to the log: the block of write_log() that it was written in has ended; add "
                "scenes within the block, or open() the log with mode 'r+'"
            )
        if self._failure is not None:
            raise CorruptedDataError(
                f"the log is not complete, as scenes could not be written ({self._failure!r}); mend that and write the "
                "log anew"
            ) from self._failure


@contextmanager
def write_log(
    path: str | os.PathLike[str], *, facts: LogFacts | None = None, overwrite: bool = False
) -> Iterator[LogWriter]:
    """Yield the writer of a new log, which appears at its path when the block ends without an error.

    Args:
        path: Folder of the log, by convention with ``.zarr`` in its name; parent folders are created.
        facts: Facts of the log, stored with it; None for those of L5Kit 1.5.
        overwrite: Replace an existing log.

    Raises:
        CorruptedDataError: A write failed within the block, but the block continued.
        FileExistsError: ``path`` exists, at the start or at the end, and ``overwrite`` is False.
        InvalidArgumentError: Something other than a log exists at ``path``, at the start or at the end, ``path`` is a
            URL or the name of a zip file, or ``facts`` is invalid.
    """
    require_local("path", path)
    require_facts(facts)
    target = Path(path).absolute()
    if target.name.endswith(".zip"):
        raise InvalidArgumentError(f"path is {str(path)!r}; a log is written to a folder, and save() makes a zip file")
    clear_leftovers(target)
    require_free(target, overwrite=overwrite)
    with placed_when_complete(target, may_replace=overwrite) as complete:
        complete.mkdir()
        writer = LogWriter(ChunkedDataset(LocalStore(complete)).initialize("w", facts=facts or LogFacts()))
        try:
            yield writer
            writer.flush()
        finally:
            # refuse later calls and discard pending scenes
            writer._is_ended = True
            writer._waiting.clear()
        require_free(target, overwrite=overwrite)
