"""Machine facts for a benchmark, and memory of a process."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import cv2

from l5kit.errors import UnsupportedValueError

_CPU_FILE = Path("/proc/cpuinfo")
_MEMORY_FILE = Path("/proc/self/smaps_rollup")
_LIBRARIES = {"NumPy": "numpy", "numba": "numba", "zarr": "zarr", "torch": "torch"}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts of the machine.

    Attributes:
        cpu: Name of the processor.
        num_cores: Cores that this process may use.
        system: Name and release of the operating system.
        versions: Versions of Python and of each library that affects speed.
    """

    cpu: str
    num_cores: int
    system: str
    versions: dict[str, str]

    @property
    def hardware(self) -> str:
        """Processor, cores and system in one line."""
        return f"{self.cpu}, {self.num_cores} {'core' if self.num_cores == 1 else 'cores'}, {self.system}"

    @property
    def software(self) -> str:
        """The versions in one line."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of a process in MB (10^6 bytes), as Linux counts it.

    Attributes:
        resident_mb: Pages in memory, those of files included.
        anonymous_mb: Of these, pages that belong to no file: what the process has allocated.
        proportional_mb: Like ``resident_mb``, with each shared page divided among those who share it.
    """

    resident_mb: float
    anonymous_mb: float
    proportional_mb: float


def describe_machine() -> Machine:
    """Return the facts of this machine."""
    versions = {"Python": platform.python_version(), "OpenCV": cv2.__version__}
    return Machine(
        cpu=_cpu_name(),
        num_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        versions=versions | _installed_versions(),
    )


def _installed_versions() -> dict[str, str]:
    """Return the installed versions of the libraries that affect speed."""
    versions = {}
    for name, package in _LIBRARIES.items():
        with suppress(metadata.PackageNotFoundError):  # torch, which only tensors need
            versions[name] = metadata.version(package)
    return versions


def has_memory_figures() -> bool:
    """Return whether this system reports the memory of a process, as Linux does."""
    return _MEMORY_FILE.exists()


def read_process_memory() -> ProcessMemory:
    """Return the memory of this process.

    Raises:
        UnsupportedValueError: The system does not tell.
    """
    if not has_memory_figures():
        raise UnsupportedValueError(f"memory is read from {_MEMORY_FILE}, which only Linux has; measure it there")
    return parse_memory(_MEMORY_FILE.read_text("ascii"))


def parse_memory(text: str) -> ProcessMemory:
    """Return the memory from the text of a ``smaps_rollup`` file, whose unit is 1,024 bytes."""
    words = [line.split() for line in text.splitlines()[1:]]
    megabytes = {line[0].rstrip(":"): int(line[1]) * 1024 / 1e6 for line in words}
    return ProcessMemory(megabytes["Rss"], megabytes["Anonymous"], megabytes["Pss"])


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Let OpenCV use one thread, and restore the setting afterwards."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def _cpu_name() -> str:
    if _CPU_FILE.exists():
        for line in _CPU_FILE.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
