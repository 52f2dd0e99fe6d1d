"""One damaged set, opened in one way, and what its readers found."""

import contextlib
import functools
import re
import resource
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attack.damage import LOG_FAMILIES, ROW_FAMILIES, DamagedSet
from attack.judging import ANYTHING, Expected, Outcome, Reading, judge_error, judge_value
from attack.oracle import Oracle, Tools
from attack.record_files import Records, read_records
from attack.study import Study
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import DatasetFiles

SETTING_UP = ("opening", "opening for the viewer", "making the dataset")
"""Warnings that also hold for everything read afterwards."""

MEMORY_LIMIT_MB = 400
"""Growth of the process during one reading that no set of this size can need."""

_USUAL = re.compile("the agents mask of .* has to be computed")


@functools.cache
def _study_of(oracle: Oracle) -> Study:
    return Study(oracle.records, oracle.records)


@dataclass
class Job:
    """Input of the readers.

    Attributes:
        damaged: The set.
        clean_root: The folder of the undamaged set.
        clean: The right answers for the undamaged set, kept from set to set.
        scratch: An initially empty folder.
        way: How the log is opened: ``cached``, ``uncached`` or ``mmap``.
        usual_warnings: Warnings that the undamaged set gives, too.
        report: Called with each reading.
    """

    damaged: DamagedSet
    clean_root: Path
    clean: Oracle
    scratch: Path
    way: str
    usual_warnings: set[str]
    report: Callable[[Reading], None]
    reader: str = ""
    said_at_open: list[str] = field(default_factory=list)
    said_by_reader: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    finds_something: bool | None = None
    all_said: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def study(self) -> Study | None:
        """Stored rows next to the undamaged ones; None if the stored rows cannot be determined."""
        stored = read_records(self.damaged.log, is_zip=self.damaged.clean.is_zip)
        return None if stored is None else Study(self.clean.records, stored)

    @property
    def whole(self) -> Study:
        """The undamaged rows by themselves."""
        return _study_of(self.clean)

    @cached_property
    def stored(self) -> Oracle | None:
        """The right answers for what is stored now."""
        return None if self.study is None else Oracle(self.study.stored, self.clean.tools)

    @cached_property
    def without_faces(self) -> Oracle:
        """The right answers for the undamaged log without its traffic lights."""
        arrays = dict(self.clean.records.arrays)
        arrays["traffic_light_faces"] = arrays["traffic_light_faces"][:0]
        return Oracle(Records(arrays), self.clean.tools)

    @cached_property
    def tools(self) -> Tools:
        """Rasterizer of samples over the files next to the log: the undamaged ones if only the log is damaged."""
        return self.clean.tools if self.is_log_damage else Tools(self.damaged.root)

    @property
    def is_log_damage(self) -> bool:
        return self.damaged.kind.family in LOG_FAMILIES

    @property
    def is_row_damage(self) -> bool:
        """Whether some rows are damaged and all others are readable."""
        return self.damaged.kind.family in ROW_FAMILIES

    @property
    def files(self) -> DatasetFiles:
        """The files of the set, as a person would name them."""
        root = self.damaged.root
        return DatasetFiles(
            dataset=self.damaged.log,
            semantic_map=root / "semantic_map" / "semantic_map.pb",
            meta=root / "meta.json",
            aerial=root / "aerial_map" / "aerial_map.png",
            notes=(),
        )

    @cached_property
    def dataset(self) -> ChunkedDataset:
        """The log, opened; raises what opening raises."""
        cached: Any = {"cached": True, "uncached": False, "mmap": "mmap"}[self.way]
        folder = {"cache_folder": self.scratch / "decoded"} if self.way == "mmap" else {}
        return ChunkedDataset(str(self.damaged.log)).open(cached=cached, progress=False, **folder)

    def attempt(self, what: str, read: Callable[[], Any], expected: Expected = ANYTHING) -> Any:
        """Read something, judge it, and return it; None after an error."""
        before = _peak_mb(forget=True)
        value: Any = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = read()
                error: BaseException | None = None
            except (Exception, SystemExit) as raised:
                error = raised
        texts = list(map(_text_of, caught))
        self.all_said |= set(map(_anonymous, texts))
        said = [text for text in texts if _anonymous(text) not in self.usual_warnings and not _USUAL.search(text)]
        grown = _peak_mb() - before
        if self.reader == "open":
            self.said_at_open += said
        elif what in SETTING_UP:
            self.said_by_reader.extend(said)
        if grown > MEMORY_LIMIT_MB:
            self._add(
                what,
                Outcome.MEMORY,
                "a set of a few kilobytes takes much memory",
                f"{grown:.0f} MB more; {error!r:.200}",
            )
        elif error is not None:
            self._add(what, *judge_error(error, expected, str(self.damaged.root)))
        else:
            self._add(what, *judge_value(value, expected, said + self.said_at_open + self.said_by_reader))
        return value

    def close(self) -> None:
        """Close what the log holds open."""
        store = getattr(getattr(vars(self).get("dataset"), "root", None), "store", None)
        if store is not None:
            store.close()

    def note(self, what: str, outcome: Outcome, cause: str, detail: str = "") -> None:
        """Add what a reader found by itself."""
        self._add(what, outcome, cause, detail)

    def _add(self, what: str, outcome: Outcome, cause: str, detail: str) -> None:
        reading = Reading(self.reader, self.way, what, outcome, cause, detail[:600])
        self.readings.append(reading)
        self.report(reading)


def _peak_mb(*, forget: bool = False) -> float:
    """Return the peak memory of this process, reset first where the system allows it.

    ``getrusage`` may report the peak of the parent process.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if forget:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def _text_of(warning: warnings.WarningMessage) -> str:
    return f"{warning.category.__name__}: {warning.message}"


def _anonymous(text: str) -> str:
    return re.sub(r"\d+", "N", re.sub(r"['\"]?/[^\s'\"]+['\"]?", "PATH", text))
