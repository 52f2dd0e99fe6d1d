"""Job folders: they keep the parts of a job over scenes, so that it can be resumed after a kill.

::

    JOB/job.json             what is done, with which data
    JOB/0-scene/stage.json   the first pass over the scenes: how they are split into blocks
    JOB/0-scene/000000016/   a part: result.pickle, files/ if the job writes files, and receipt.json with digests

The worker of a block writes its part under a temporary name and renames it, so a part is complete or missing. Results
are always read from parts, whether they were written just now or by a run that was killed: they do not depend on the
workers or on the number of restarts.
"""

import hashlib
import json
import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from l5kit import __version__
from l5kit._files import clear_leftovers_in, placed_when_complete, remove_whole, write_json
from l5kit._types import Int64Array, JsonObject
from l5kit.data.jobs.folder_lock import held_alone
from l5kit.data.jobs.owned_outputs import OutputKind
from l5kit.data.jobs.receipts import digest_of_json, find_damage, write_receipt
from l5kit.errors import EngineError, InvalidArgumentError

Result = TypeVar("Result")

_JOB: Final = "job.json"
_LOCK: Final = "job.lock"
_STAGE: Final = "stage.json"
_RECEIPT: Final = "receipt.json"
_RESULT: Final = "result.pickle"
_FILES: Final = "files"
_PART: Final = OutputKind(
    "a part of a job", lambda part: (part / _RECEIPT).is_file(), rf"{_RECEIPT}|{_RESULT}|{_FILES}/.+"
)


@dataclass(frozen=True)
class WritesFiles:
    """A job that writes files into a folder; a copy with another folder writes the same files there.

    Attributes:
        folder: Folder of the files.
    """

    folder: Path


class JobFolder:
    """A folder with the parts of one job, used by one process at a time.

    Args:
        path: The folder, from :func:`open_job`.
        facts: Description of the job, which identifies its parts.
    """

    def __init__(self, path: Path, facts: JsonObject) -> None:
        self._path = path
        self._facts = facts
        self._num_stages = 0

    def require_same(self, name: str, facts: Mapping[str, object]) -> None:
        """Refuse to continue with facts that differ from those at the start of the job.

        Args:
            name: Subject of the facts, which names their file.
            facts: Facts as JSON.

        Raises:
            InvalidArgumentError: They differ.
        """
        file, now = self._path / f"{name}.json", json.loads(json.dumps(facts))
        before = _read(file)
        self._facts = {**self._facts, f"{name}.json": now}
        if before is None:
            write_json(file, now, argument="job")
        elif before != now:
            raise InvalidArgumentError(
                f"job (--job) is {str(self._path)!r}, which was started with another {name}: {before}, now {now}; name "
                "another folder, or remove this one"
            )

    def next_stage(self, indices: Int64Array, *, unit: str, block_size: int) -> "Stage":
        """Return the stage that keeps the parts of the next pass over scenes.

        Passes are identified by their order, which is the same at every start of the job.

        Args:
            indices: Indices of the scenes, (N,).
            unit: Name of an item.
            block_size: Scenes per block of a new stage; an existing stage keeps its size.

        Raises:
            InvalidArgumentError: The folder holds the parts of a pass over other items.
        """
        folder = self._path / f"{self._num_stages}-{unit}"
        self._num_stages += 1
        facts = {"unit": unit, "scenes": len(indices), "sha256": hashlib.sha256(indices.tobytes()).hexdigest()}
        before = _read(folder / _STAGE)
        if before is None:
            folder.mkdir(exist_ok=True)
            write_json(folder / _STAGE, facts | {"block_size": block_size}, argument="job")
        elif {name: before.get(name) for name in facts} != facts:
            raise InvalidArgumentError(
                f"job (--job) is {str(self._path)!r}, which holds parts of {before.get('scenes')} "
                f"{before.get('unit')}s, not of these {len(indices)} {unit}s; name another folder"
            )
        clear_leftovers_in(folder)
        kept_size = block_size if before is None else before.get("block_size")
        if not isinstance(kept_size, int) or kept_size < 1:
            raise InvalidArgumentError(
                f"job (--job) is {str(self._path)!r}, in which block_size of {folder.name}/{_STAGE} must be an integer "
                f"of at least 1, got {kept_size!r}; remove {folder.name}"
            )
        return Stage(folder, kept_size, digest_of_json({**self._facts, "stage": {"name": folder.name, **facts}}))


@dataclass(frozen=True)
class Stage:
    """The parts of one pass over scenes.

    Attributes:
        folder: Folder of the parts.
        block_size: Scenes per block.
        job: Digest of the job and the pass; parts with another digest belong to something else.
    """

    folder: Path
    block_size: int
    job: str

    def is_done(self, block: Int64Array) -> bool:
        """Return whether the part of a block exists; a damaged part is removed, with a warning.

        Raises:
            InvalidArgumentError: A damaged part contains foreign files.
        """
        part = self._part(block)
        if not part.is_dir():
            return False
        damage = find_damage(part, _RECEIPT, expected=self._facts_of(block))
        if damage is not None:
            foreign = next(_PART.foreign_in(part), None)
            if foreign is not None:
                raise InvalidArgumentError(
                    f"the job folder has the damaged part {part}, which would be rebuilt, but {foreign!r} in it does "
                    "not belong to this job; move it away"
                )
            warnings.warn(f"{part} is damaged: {damage}; it is rebuilt", RuntimeWarning, stacklevel=4)
            remove_whole(part)
        return damage is None

    def write(self, block: Int64Array, make: Callable[[Path], object]) -> None:
        """Write the part of a block; if several workers write it, one wins, as all write the same.

        Args:
            block: Indices of its scenes.
            make: Creates the result, given an empty folder for files.
        """
        target = self._part(block)
        try:
            with placed_when_complete(target, may_replace=False) as part:
                (part / _FILES).mkdir(parents=True)
                result = make(part / _FILES)
                (part / _RESULT).write_bytes(pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL))
                write_receipt(part, _RECEIPT, self._facts_of(block))
        except FileExistsError:
            if not target.is_dir():
                raise

    def read(self, block: Int64Array, into: Path | None = None) -> Any:
        """Return the result of a block.

        Args:
            block: Indices of its scenes.
            into: Destination of files that the block has written.

        Raises:
            EngineError: There is no complete part, although a worker has written one.
        """
        part = self._part(block)
        wanted = self._facts_of(block)
        damage = find_damage(part, _RECEIPT, expected=wanted) if part.is_dir() else "it does not exist"
        if damage is not None:
            raise EngineError(
                f"{part} was written by a worker, but {damage}; name a job folder (--job) that all machines share "
                "under the same path"
            )
        for file in sorted((part / _FILES).rglob("*")) if into is not None else ():
            if into is not None and file.is_file():
                # hard links if the file system supports them, as files may be large
                target = into / file.relative_to(part / _FILES)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(file, target)
                except OSError:
                    shutil.copyfile(file, target)
        return pickle.loads((part / _RESULT).read_bytes())

    def _facts_of(self, block: Int64Array) -> JsonObject:
        """Return the facts of a block in its receipt, besides its files."""
        indices = np.ascontiguousarray(block, np.int64)
        sha256 = hashlib.sha256(indices.tobytes()).hexdigest()
        return {"job": self.job, "first": int(block[0]), "scenes": len(block), "numbers": sha256}

    def _part(self, block: Int64Array) -> Path:
        return self.folder / f"{int(block[0]):09d}"


def require_shared(folder: Path) -> None:
    """Refuse a missing output folder: it is not shared with this machine, or was removed.

    Raises:
        EngineError: The folder does not exist.
    """
    if not folder.is_dir():
        raise EngineError(
            f"a worker cannot find the folder {str(folder)!r} for its output; name a folder (OUT, or --job) that all "
            "machines share under the same path"
        )


@contextmanager
def open_job(path: str | os.PathLike[str], facts: Mapping[str, object]) -> Iterator[JobFolder]:
    """Open a job folder, new or left by a run that was killed; removing it is left to the caller.

    Args:
        path: The folder, on a file system shared by all workers.
        facts: Description of the job as JSON: what is done, with which data and options.

    Raises:
        InvalidArgumentError: Another process uses the folder, it belongs to another job, or it holds something else.
    """
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"job (--job) is {str(folder)!r}, which is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with held_alone(folder / _LOCK, f"job (--job) is {str(folder)!r}, which another process uses now; wait for it"):
        now: JsonObject = json.loads(json.dumps({"l5kit": __version__, **facts}))
        before = _read(folder / _JOB)
        if before is None:
            others = sorted(entry.name for entry in folder.iterdir() if entry.name != _LOCK)
            if [name for name in others if not name.startswith(f".{_JOB}.")]:
                raise InvalidArgumentError(
                    f"job (--job) is {str(folder)!r}, which holds {others[0]} and is not a job folder; name another"
                )
            write_json(folder / _JOB, now, argument="job")
        elif before != now:
            names = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
            raise InvalidArgumentError(
                f"job (--job) is {str(folder)!r}, which belongs to another job: {', '.join(names)} differ; name "
                "another folder, or remove this one"
            )
        yield JobFolder(folder, now)


def _read(path: Path) -> JsonObject | None:
    """Return the content of a JSON file; None if it is missing or incomplete."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
