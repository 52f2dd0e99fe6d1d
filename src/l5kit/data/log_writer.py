"""The writer of new logs: scenes of plain arrays one after the other, in a dataset that appears when it is complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zarr.storage import LocalStore

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit.data.log_facts import LogFacts
from l5kit.data.save import require_free
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import LogRecords, SceneRecords, join_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

__all__ = ["LogWriter", "write_log"]

_SCENES_AT_ONCE = 8
_AGENTS_AT_ONCE = 200_000


class LogWriter:
    """Writes scenes to the end of a new log, a few at a time; :func:`write_log` makes one.

    Args:
        dataset: An initialized dataset without rows.

    Attributes:
        num_scenes: Scenes that were appended.
    """

    def __init__(self, dataset: ChunkedDataset) -> None:
        self.num_scenes = 0
        self._dataset = dataset
        self._waiting: list[SceneRecords] = []

    def append(self, scene: SceneArrays | SceneRecords) -> int:
        """Add a scene and return its number.

        Args:
            scene: Plain arrays, with agents from :class:`~l5kit.data.tracks.Tracks` say, or records.
        """
        self._waiting.append(scene.to_records() if isinstance(scene, SceneArrays) else scene)
        self.num_scenes += 1
        num_agents = sum(len(waiting.agents) for waiting in self._waiting)
        if len(self._waiting) == _SCENES_AT_ONCE or num_agents >= _AGENTS_AT_ONCE:
            self.flush()
        return self.num_scenes - 1

    def append_log(self, log: LogRecords) -> None:
        """Add all scenes of a log in memory, such as those of a :class:`~l5kit.data.record_buffer.RecordBuffer`."""
        dataset = log.as_dataset()
        for scene in range(len(log.scenes)):
            self.append(SceneRecords.read(dataset, scene))

    def flush(self) -> None:
        """Write the scenes that wait."""
        if not self._waiting:
            return
        dataset = self._dataset
        joined = join_scenes(self._waiting, (len(dataset.frames), len(dataset.agents), len(dataset.tl_faces)))
        for name, records in vars(joined).items():
            array = getattr(dataset, name)
            array.append(records)
        self._waiting.clear()


@contextmanager
def write_log(
    path: str | os.PathLike[str], *, facts: LogFacts | None = None, overwrite: bool = False
) -> Iterator[LogWriter]:
    """Hand out the writer of a new log, which is in its place when the block ends without an error.

    Args:
        path: Folder for the log, with ``.zarr`` in its name by custom; folders around it are made.
        facts: Facts of the log; None for those of L5Kit 1.5. They are stored with it.
        overwrite: Replace a log that is there.

    Raises:
        FileExistsError: There is something, and ``overwrite`` is False.
        InvalidArgumentError: What is there is no log, or the name is that of a zip file.
    """
    target = Path(path).absolute()
    if target.name.endswith(".zip"):
        raise InvalidArgumentError(f"path is {str(path)!r}; a log is written to a folder, and save() makes a zip file")
    clear_leftovers(target)
    require_free(target, overwrite=overwrite)
    with placed_when_complete(target) as complete:
        complete.mkdir()
        writer = LogWriter(ChunkedDataset(LocalStore(complete)).initialize("w", facts=facts or LogFacts()))
        yield writer
        writer.flush()
