"""Job folders: where the parts of a job over scenes are kept, so that one that was killed goes on.

::

    JOB/job.json             what is done, to what
    JOB/0-scene/stage.json   the first pass over the scenes: how they are cut into blocks
    JOB/0-scene/000000016/   a part: result.pickle, files/ where the job writes files, and receipt.json with digests

Who carries out a block writes its part under a temporary name and renames it, so that a part is whole or not there.
What comes of a block is read from its part, whether that was written just now or by a run that was killed: results are
the same for whatever carries them out, and how often it was begun.
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
    """A job that writes files into a folder; a copy with another folder writes the same files into that one.

    Attributes:
        folder: Where they go.
    """

    folder: Path


class JobFolder:
    """A folder with the parts of one job; it is held by one process at a time.

    Args:
        path: The folder, from :func:`open_job`.
        facts: What the job is, by which its parts are recognised.
    """

    def __init__(self, path: Path, facts: JsonObject) -> None:
        self._path = path
        self._facts = facts
        self._num_stages = 0

    def require_same(self, name: str, facts: Mapping[str, object]) -> None:
        """Refuse to go on with other facts than the job was begun with.

        Args:
            name: What the facts are of, for a file of its own.
            facts: As JSON holds them.

        Raises:
            InvalidArgumentError: They are others.
        """
        file, now = self._path / f"{name}.json", json.loads(json.dumps(facts))
        before = _read(file)
        self._facts = {**self._facts, f"{name}.json": now}
        if before is None:
            write_json(file, now, argument="job")
        elif before != now:
            raise InvalidArgumentError(
                f"job (--job) is {str(self._path)!r}, which was begun with another {name}: {before}, now {now}; name "
                "another folder, or remove this one"
            )

    def next_stage(self, indices: Int64Array, *, unit: str, block_size: int) -> "Stage":
        """Return where the parts of the next pass over scenes are kept.

        Passes are identified by their order, which is the same whenever the job is begun.

        Args:
            indices: Numbers of the scenes, (N,).
            unit: Unit of a number.
            block_size: Scenes of a block, where the stage is new; else the size that it was begun with is kept.

        Raises:
            InvalidArgumentError: The folder holds the parts of a pass over others.
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
                f"{before.get('unit')}s, and these are {len(indices)} {unit}s, or others; name another folder"
            )
        clear_leftovers_in(folder)
        kept_size = block_size if before is None else before.get("block_size")
        if not isinstance(kept_size, int) or kept_size < 1:
            raise InvalidArgumentError(
                f"job (--job) is {str(self._path)!r}, in which block_size of {folder.name}/{_STAGE} must be a number "
                f"from 1 on, got {kept_size!r}; remove {folder.name}"
            )
        return Stage(folder, kept_size, digest_of_json({**self._facts, "stage": {"name": folder.name, **facts}}))


@dataclass(frozen=True)
class Stage:
    """The parts of one pass over scenes.

    Attributes:
        folder: Where they are.
        block_size: Scenes of a block.
        job: Digest of what the job is, and of the pass: parts of another one are whole, but not of this job.
    """

    folder: Path
    block_size: int
    job: str

    def is_done(self, block: Int64Array) -> bool:
        """Return whether the part of a block is there; one that is damaged is removed, with a warning.

        Raises:
            InvalidArgumentError: One that is damaged has files of somebody else in it.
        """
        part = self._part(block)
        if not part.is_dir():
            return False
        damage = find_damage(part, _RECEIPT, expected=self._facts_of(block))
        if damage is not None:
            foreign = next(_PART.foreign_in(part), None)
            if foreign is not None:
                raise InvalidArgumentError(
                    f"the job folder has the damaged part {part}, which would be made again, but {foreign!r} in it is "
                    "not of this job; move that away"
                )
            warnings.warn(f"{part} is damaged: {damage}; it is made again", RuntimeWarning, stacklevel=4)
            remove_whole(part)
        return damage is None

    def write(self, block: Int64Array, make: Callable[[Path], object]) -> None:
        """Write the part of a block; of several that write it, which write the same, one wins.

        Args:
            block: Its numbers.
            make: Makes the result, given an empty folder for files.
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
            block: Its numbers.
            into: Where files that it has written are to appear.

        Raises:
            EngineError: There is no whole part, although a worker has written one.
        """
        part = self._part(block)
        wanted = self._facts_of(block)
        damage = find_damage(part, _RECEIPT, expected=wanted) if part.is_dir() else "it is not there"
        if damage is not None:
            raise EngineError(
                f"{part} was written by a worker, and {damage}; name a job folder (--job) that all machines share, "
                "under the same path"
            )
        for file in sorted((part / _FILES).rglob("*")) if into is not None else ():
            if into is not None and file.is_file():
                # a link where the file system can, as files may be large
                target = into / file.relative_to(part / _FILES)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(file, target)
                except OSError:
                    shutil.copyfile(file, target)
        return pickle.loads((part / _RESULT).read_bytes())

    def _facts_of(self, block: Int64Array) -> JsonObject:
        """Return what the receipt of a block tells besides its files."""
        indices = np.ascontiguousarray(block, np.int64)
        sha256 = hashlib.sha256(indices.tobytes()).hexdigest()
        return {"job": self.job, "first": int(block[0]), "scenes": len(block), "numbers": sha256}

    def _part(self, block: Int64Array) -> Path:
        return self.folder / f"{int(block[0]):09d}"


def require_shared(folder: Path) -> None:
    """Refuse, where something is to be written, a folder that is not there: on another machine, or given up.

    Raises:
        EngineError: It is not there.
    """
    if not folder.is_dir():
        raise EngineError(
            f"a worker is to write into {str(folder)!r}, and does not find it; name a folder (OUT, or --job) that all "
            "machines share, under the same path"
        )


@contextmanager
def open_job(path: str | os.PathLike[str], facts: Mapping[str, object]) -> Iterator[JobFolder]:
    """Hand out a job folder, new or left by a run that was killed; it stays, for the one who asks to remove.

    Args:
        path: The folder, on a file system that all workers share.
        facts: What is done, to which data, with which options, as JSON holds it.

    Raises:
        InvalidArgumentError: Another process has the folder, or it is of another job or holds something else.
    """
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"job (--job) is {str(folder)!r}, which is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with held_alone(folder / _LOCK, f"job (--job) is {str(folder)!r}, at which another process works; wait for it"):
        now: JsonObject = json.loads(json.dumps({"l5kit": __version__, **facts}))
        before = _read(folder / _JOB)
        if before is None:
            others = sorted(entry.name for entry in folder.iterdir() if entry.name != _LOCK)
            if [name for name in others if not name.startswith(f".{_JOB}.")]:
                raise InvalidArgumentError(
                    f"job (--job) is {str(folder)!r}, which holds {others[0]} and is no job folder; name another"
                )
            write_json(folder / _JOB, now, argument="job")
        elif before != now:
            names = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
            raise InvalidArgumentError(
                f"job (--job) is {str(folder)!r}, which is of another job: {', '.join(names)} differ; name another "
                "folder, or remove this one"
            )
        yield JobFolder(folder, now)


def _read(path: Path) -> JsonObject | None:
    """Return what a file of JSON holds; None where it is not there or not whole."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
