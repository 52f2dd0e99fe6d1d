"""All readers on one set after the other, in one process."""

import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from attack.clean_sets import CleanSet, pack
from attack.damage import DamagedSet, kept_clean_set
from attack.job import Job
from attack.judging import Outcome, Reading
from attack.oracle import Oracle, Tools
from attack.readers import BESIDE, WAYS, readers_for
from attack.target import Kind

_SAMPLES = ("samples", "batches", "agents", "agent batches", "vectors")


class Attacker:
    """Reads damaged sets that were the same undamaged one.

    Args:
        clean: That one.
        clean_folder: Where undamaged sets are kept.
        work: A folder to work in.
    """

    def __init__(self, clean: CleanSet, clean_folder: Path, work: Path) -> None:
        self.clean = clean
        self._work = work
        self._clean_root = kept_clean_set(clean, clean_folder)
        self._oracle = Oracle(clean.records(), Tools(self._clean_root))
        self._usual_warnings: set[str] = set()
        self._said: set[str] = set()

    def read_undamaged(self, ways: Sequence[str] = WAYS) -> list[Reading]:
        """Return what readers find in the undamaged set, and take its warnings for usual ones."""
        root = self._work / "undamaged"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self._clean_root, root)
        log = pack(root, self.clean)
        readings: list[Reading] = []
        for family in ("records", *BESIDE):
            if family == "checkpoint":
                continue
            kind = Kind(family, "none", lambda target: "")
            damaged = DamagedSet(-1, root, log, self.clean, kind, "undamaged")
            self.read_damaged(damaged, list(ways), set(), begin=lambda way, reader: None, report=readings.append)
        self._usual_warnings = set(self._said)
        shutil.rmtree(root)
        return readings

    def read_damaged(
        self,
        damaged: DamagedSet,
        ways: list[str],
        done: set[tuple[str, str]],
        *,
        only: Sequence[str] = (),
        begin: Callable[[str, str], None],
        report: Callable[[Reading], None],
    ) -> None:
        """Read a damaged set.

        Args:
            damaged: The set.
            ways: How its log is opened.
            done: Ways and readers that are left out.
            only: The readers; empty for all.
            begin: Called with way and reader before each of them.
            report: Called with each reading.
        """
        finds_something: bool | None = None
        failed: Reading | None = None
        for way in ways:
            scratch = self._work / f"scratch-{damaged.root.name}-{way}"
            scratch.mkdir()
            job = Job(damaged, self._clean_root, self._oracle, scratch, way, self._usual_warnings, report)
            for name, reader in readers_for(damaged.kind.family, way, is_first_way=way == ways[0]).items():
                if (way, name) in done or (only and name not in only):
                    continue
                job.reader, job.said_by_reader = name, []
                begin(way, name)
                started = time.perf_counter()
                try:
                    reader(job)
                except Exception as error:  # a fault of the reader, which must not pass for one of what is read
                    said = traceback.format_exc(limit=-4)
                    job.note("the reader itself", Outcome.CRASH, f"the harness failed: {type(error).__name__}", said)
                job.seconds[name] = time.perf_counter() - started
            self._said |= job.all_said
            if job.finds_something is not None:
                finds_something = job.finds_something or bool(finds_something)
            failed = failed or next(
                (r for r in job.readings if r.reader in _SAMPLES and Outcome.NAMED <= r.outcome <= Outcome.RAW), None
            )
            shutil.rmtree(scratch, ignore_errors=True)
            job.close()
        if finds_something is False and failed is not None:
            cause = "nothing is found in a log whose samples fail"
            detail = f"{failed.reader}, {failed.what}: {failed.detail}"
            report(Reading("path validation", failed.way, "the findings", Outcome.WRONG, cause, detail))
