"""Trainings that are killed at a given moment and resumed, each in a separate process.

``python -m support.processes.trainings`` reads jobs as JSON, one per line, and forks a process for each, so libraries
are loaded once. A moment is an operation that changes the disk or takes time; moments are counted, and the process
kills itself with SIGKILL at the requested one.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Job:
    """A training of one process.

    Attributes:
        cfg: The configuration.
        folder: Output folder.
        city: The data.
        resume: Whether it resumes.
        killed_at: Index of the moment at which it is killed; None to let it end.
        signal: The signal that ends it.
        cache: Folder of the agents masks and decoded logs.
    """

    cfg: dict[str, Any]
    folder: str
    city: str
    cache: str
    resume: bool = False
    killed_at: int | None = None
    signal: int = signal.SIGKILL


@dataclass(frozen=True)
class Ended:
    """End of a process.

    Attributes:
        status: Exit status, or minus the number of a signal.
        moments: Names of the moments that it reached.
        told: Printed lines.
        error: Traceback, if there was one.
    """

    status: int
    moments: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    error: str = ""


class Trainings:
    """A process that runs jobs, one after the other; to be used in a ``with`` block."""

    def __enter__(self) -> "Trainings":
        paths = [str(_TESTS.parent / "src"), str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.processes.trainings"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def run(self, job: Job) -> Ended:
        """Run a job to its end."""
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


class _Moments:
    """Counts moments, writes their names down, and ends the process at one."""

    def __init__(self, killed_at: int | None, number: int, notes: Path) -> None:
        self._killed_at = killed_at
        self._signal = number
        self._notes = notes
        self._count = 0

    def __call__(self, name: str) -> None:
        with self._notes.open("a") as file:
            file.write(name + "\n")
        if self._count == self._killed_at:
            os.kill(os.getpid(), self._signal)
        self._count += 1

    def around(self, owner: Any, name: str, *, after: bool = True) -> None:
        """Let there be a moment before each call of a function, and one after it."""
        inner = getattr(owner, name)

        def outer(*args: Any, **options: Any) -> Any:
            subject = Path(str(args[1])).name if name == "replace" else ""
            self(f"before {name} {subject}".strip())
            result = inner(*args, **options)
            if after:
                self(f"after {name} {subject}".strip())
            return result

        setattr(owner, name, outer)


def _train(job: Job, notes: Path, told: Path) -> int:
    """Train in this process; return the exit status."""
    from l5kit.training import run
    from l5kit.training.best import TopWeights
    from l5kit.training.curves import CurveTable
    from l5kit.training.lightning_module import TrainingModule

    os.environ["L5KIT_CACHE_DIR"] = job.cache
    moments = _Moments(job.killed_at, job.signal, notes)
    moments.around(os, "replace")
    moments.around(CurveTable, "log_metrics")
    moments.around(TopWeights, "remove")
    moments.around(TrainingModule, "training_step", after=False)
    moments.around(TrainingModule, "validation_step", after=False)
    moments.around(run, "_write_result", after=False)
    with told.open("w") as file:
        run.train(
            job.cfg,
            job.folder,
            data_folder=job.city,
            resume=job.resume,
            tell=lambda line: print(line, file=file, flush=True),
            show_bar=False,
        )
    return 0


def _in_child(job: Job, notes: Path, told: Path, error: Path) -> None:
    """Train and end this process."""
    status = 1
    try:
        with contextlib.redirect_stdout(sys.stderr):
            status = _train(job, notes, told)
    except KeyboardInterrupt:
        status = 130
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def _main() -> None:
    """Run the jobs of standard input."""
    import tempfile

    import torch

    import l5kit.training.run  # noqa: F401 - loaded once, before the forks

    torch.set_num_threads(1)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            notes, told, error = (Path(folder) / name for name in ("notes", "told", "error"))
            for file in (notes, told, error):
                file.touch()
            child = os.fork()
            if child == 0:
                _in_child(Job(**json.loads(line)), notes, told, error)
            _, status = os.waitpid(child, 0)
            texts = [file.read_text() for file in (notes, told, error)]
        ended = Ended(os.waitstatus_to_exitcode(status), texts[0].splitlines(), texts[1].splitlines(), texts[2])
        print(json.dumps(asdict(ended)), flush=True)


if __name__ == "__main__":
    _main()
