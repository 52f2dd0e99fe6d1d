"""Runner that sends seeds to worker processes and reports outcomes, even if a worker dies."""

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import l5kit
from attack.judging import Outcome, Reading, is_good
from attack.readers import WAYS

TESTS = Path(__file__).resolve().parents[1]
_START_LIMIT_S = 900
_GRACE_S = 20
_MOST_STARTS = 100


@dataclass(frozen=True)
class Plan:
    """How sets are read.

    Attributes:
        all_ways: Whether each set is opened in all ways, or in one that its seed decides.
        reading_s: Seconds that one reader may take on one set.
        memory_gib: Memory that a worker may take beyond what its start takes.
        only: The readers; empty for all. With some, workers compile what they need as they go.
        sabotage: Functions of ``attack.sabotage`` that spoil the samples of seeds, to see whether that is found.
        environment: Variables to set for the workers.
        keeps_all: Whether results hold all readings, or the worst of each reader and all that are not good.
    """

    all_ways: bool = True
    reading_s: float = 20.0
    memory_gib: float = 2.0
    only: tuple[str, ...] = ()
    sabotage: Mapping[int, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps_all: bool = False


@dataclass
class SetResult:
    """Outcome of one set.

    Attributes:
        seed: Its seed.
        family: Family of its damage.
        kind: Kind of its damage.
        said: Description of its damage.
        readings: Outcomes of its readers.
    """

    seed: int
    family: str = ""
    kind: str = ""
    said: str = ""
    readings: list[Reading] = field(default_factory=list)

    def condense(self) -> None:
        """Keep what is not good, and the worst reading of each reader."""
        worst: dict[tuple[str, str], Reading] = {}
        for reading in self.readings:
            place = reading.way, reading.reader
            if place not in worst or reading.outcome > worst[place].outcome:
                worst[place] = reading
        chosen = {id(reading) for reading in worst.values()}
        self.readings = [
            reading for reading in self.readings if id(reading) in chosen or not is_good(reading, self.family)
        ]


def attack(
    seeds: Iterable[int],
    *,
    plan: Plan | None = None,
    processes: int = 2,
    done: Callable[[SetResult], None] | None = None,
) -> list[SetResult]:
    """Return what became of the sets of some seeds, in their order.

    Args:
        seeds: The seeds.
        plan: How they are read; None for the usual way.
        processes: How many worker processes.
        done: Called with each result as it comes.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    listed = list(seeds)
    for seed in listed:
        waiting.put(seed)
    results: dict[int, SetResult] = {}
    failures: list[BaseException] = []
    with tempfile.TemporaryDirectory(prefix="l5kit-attack-") as folder:

        def serve(number: int) -> None:
            watcher = _Watcher(Path(folder) / str(number), plan or Plan())
            try:
                while not failures:
                    try:
                        seed = waiting.get_nowait()
                    except queue.Empty:
                        return
                    results[seed] = watcher.attack(seed)
                    if done is not None:
                        done(results[seed])
            except BaseException as error:
                failures.append(error)
            finally:
                watcher.close()

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(min(processes, len(listed)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [results[seed] for seed in listed]


class _Watcher:
    """One worker process at a time, replaced when it ends.

    Args:
        folder: Its scratch folder.
        plan: How sets are read.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._num_starts = 0

    def attack(self, seed: int) -> SetResult:
        """Return what became of the set of a seed."""
        result = SetResult(seed)
        order = {
            "seed": seed,
            "ways": list(WAYS) if self._plan.all_ways else [WAYS[seed % len(WAYS)]],
            "only": self._plan.only,
            "sabotage": self._plan.sabotage.get(seed, ""),
        }
        done: list[list[str]] = []
        for _ in range(_MOST_STARTS):
            process = self._process or self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(order | {"done": done}) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                self._process = None
                continue
            if self._listen(process, result, done):
                if not self._plan.keeps_all:
                    result.condense()
                return result
        raise RuntimeError(f"seed {seed} has ended {_MOST_STARTS} workers: {result}")

    def _listen(self, process: subprocess.Popen[str], result: SetResult, done: list[list[str]]) -> bool:
        """Take readings until the set is finished (True) or the worker has ended (False)."""
        begun: list[str] | None = None
        while True:
            try:
                line = self._lines.get(timeout=_START_LIMIT_S if begun is None else self._plan.reading_s + _GRACE_S)
            except queue.Empty:
                line = None
            if line is None:
                self._note_end(process, result, begun)
                if begun is not None:
                    done.append(begun)
                return False
            message: dict[str, Any] = json.loads(line)
            if "finished" in message:
                return True
            if "begin" in message:
                if begun is not None:
                    done.append(begun)
                begun = message["begin"]
            if "kind" in message:
                result.family, result.kind, result.said = message["family"], message["kind"], message["said"]
            if "reading" in message:
                values = message["reading"]
                result.readings.append(Reading(**values | {"outcome": Outcome(values["outcome"])}))

    def _note_end(self, process: subprocess.Popen[str], result: SetResult, begun: list[str] | None) -> None:
        self._process = None
        try:
            status: int | str = process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = "none"
        said = (self._folder / "errors.txt").read_text("utf-8", "replace")
        outcome = Outcome.HANG if status == "none" or "Timeout (" in said else Outcome.CRASH
        way, reader = begun or ["", "the start"]
        trace = _trace_of(said)
        cause = trace[0] if trace else f"exit status {status}"
        detail = f"exit status {status}; {' < '.join(trace[:8])}; {said[-300:]}"
        result.readings.append(Reading(reader, way, "the whole reader", outcome, cause, detail))

    def _start(self) -> "subprocess.Popen[str]":
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        paths = [str(Path(l5kit.__file__).parents[1]), str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | self._plan.environment
        warm_up = "none" if self._plan.only else "whole" if self._num_starts == 0 else "short"
        command = [sys.executable, "-m", "attack.worker", "--work", str(self._folder), "--warm-up", warm_up]
        command += ["--limit", str(self._plan.reading_s), "--memory-gib", str(self._plan.memory_gib)]
        with (self._folder / "errors.txt").open("w") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
        self._process, self._num_starts = process, self._num_starts + 1
        self._lines = queue.Queue()
        threading.Thread(target=_pass_on, args=(process.stdout, self._lines), daemon=True).start()
        line = self._lines.get(timeout=_START_LIMIT_S)
        if line is None or not json.loads(line).get("ready"):
            said = (self._folder / "errors.txt").read_text("utf-8", "replace")
            raise RuntimeError(f"a worker did not start: {line} {said[-3000:]}")
        return process

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _pass_on(stream: Any, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _trace_of(said: str) -> list[str]:
    """Return the frames in the last faulthandler output, innermost first, those of l5kit before all others."""
    start = max(said.rfind("Timeout ("), said.rfind("Fatal Python error"))
    ours, others = [], []
    for line in said[start:].splitlines() if start >= 0 else []:
        path, _, rest = line.strip().removeprefix('File "').partition('", line ')
        number, _, name = rest.partition(" in ")
        if "/l5kit/" in path:
            ours.append(f"l5kit/{path.rpartition('/l5kit/')[2]}:{number} {name}")
        elif "site-packages" in path:
            others.append(f"{'/'.join(path.split('/')[-2:])}:{number} {name}")
    return ours + others
