#!/usr/bin/env python3
"""Rates of two commits, compared row by row.

Usage: python benchmarks/compare.py OLD [NEW] [--data FOLDER] [--row ROW ...] [--passes N]

Both commits are checked out into temporary folders; the working tree stays untouched. The rows are those of
`benchmarks/l5kit_bench` in the working tree, so both commits do the same work. Each commit runs in its own process with
its own compiled kernels. Passes alternate (old, new, new, old, ...), so drift of the machine cancels. Rows that one of
the commits cannot run are left out; a missing name only matters to the rows that use it.
"""

import argparse
import builtins
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

REPOSITORY = Path(__file__).resolve().parents[1]
DESCRIPTION = (Path("benchmarks", "l5kit_bench"), Path("src", "l5kit", "warmup"))
"""Folders of the working tree that define the measurements."""


@dataclass(frozen=True)
class Comparison:
    """The rates of one row, pass by pass."""

    title: str
    unit: str
    old: tuple[float, ...]
    new: tuple[float, ...]

    def cells(self) -> tuple[str, ...]:
        """Return title, medians, median ratio of paired passes, and smallest and largest ratio."""
        old, new = statistics.median(self.old), statistics.median(self.new)
        ratios = [after / before for before, after in zip(self.old, self.new, strict=True)]
        rates = [f"{rate:,.4g}" for rate in (old, new)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        return (f"{self.title}, {self.unit}/s", *rates, f"{statistics.median(ratios):.3f}", spread)


class Side:
    """A process that measures rows with the code of one commit."""

    def __init__(self, source: Path, scratch: Path, task: dict[str, Any]) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(source), str(source.parent / "benchmarks")]),
            "NUMBA_CACHE_DIR": str(scratch / "numba"),
            "L5KIT_CACHE_DIR": str(scratch / "cache"),
        }
        # without the folder of this file, which belongs to the working tree
        command = [sys.executable, "-P", __file__, "--serve", json.dumps(task | {"source": str(source)})]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=scratch
        )
        prepared = self._answer()
        self.rows: dict[str, dict[str, str]] = prepared["rows"]
        self.left_out: dict[str, str] = prepared["left_out"]

    def measure(self, key: str) -> float:
        """Run one pass of a row, and return its rate."""
        self._process.stdin.write(f"{key}\n")
        self._process.stdin.flush()
        return float(self._answer()["rate"])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process that measures ended with exit code {self._process.wait()}")
        return json.loads(line)


def alternate(old: Any, new: Any, keys: Sequence[str], num_passes: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return the rates of rows on both sides, measured in alternating order after a warm-up pass."""
    rates: dict[str, tuple[list[float], list[float]]] = {key: ([], []) for key in keys}
    for number in range(num_passes + 1):
        for key in keys:
            sides = [(0, old), (1, new)]
            for place, side in sides if number % 2 == 0 else reversed(sides):
                rate = side.measure(key)
                if number:
                    rates[key][place].append(rate)
    return rates


@contextmanager
def checked_out(repository: Path, commit: str, folder: Path) -> Iterator[Path]:
    """Yield the source folder of a commit, with the benchmarks of the working tree in it."""
    git(repository, "worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        ignored = shutil.ignore_patterns("__pycache__")
        for part in DESCRIPTION:
            shutil.rmtree(folder / part, ignore_errors=True)
            shutil.copytree(repository / part, folder / part, ignore=ignored)
        yield folder / "src"
    finally:
        git(repository, "worktree", "remove", "--force", str(folder))


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def compare(options: argparse.Namespace) -> tuple[list[Comparison], dict[str, str]]:
    """Return the rows that both commits can run, and the reasons why others are left out."""
    with ExitStack() as at_end:
        scratch = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="l5kit-compare-")))
        task = {"data": str(options.data.resolve()), "rows": options.row, "quick": options.quick}
        sides = []
        for name, commit in (("old", options.old), ("new", options.new)):
            folder = scratch / name
            folder.mkdir()
            source = at_end.enter_context(checked_out(options.repository, commit, folder / "tree"))
            sides.append(Side(source, folder, task))
            at_end.callback(sides[-1].close)
        old, new = sides
        keys = [key for key in old.rows if key in new.rows]
        rates = alternate(old, new, keys, options.passes)
    compared = [Comparison(old.rows[key]["title"], old.rows[key]["unit"], *map(tuple, rates[key])) for key in keys]
    left_out = {f"{title} ({name})": why for name, side in zip(("old", "new"), sides, strict=True)
                for title, why in side.left_out.items()}  # fmt: skip
    return compared, left_out


_import: Final = builtins.__import__


def import_what_is_there(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002 - called by these names
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import as the benchmarks do; names that the commit lacks become placeholder classes.

    The benchmarks are newer than the commits, so most commits lack something that they import.
    """
    is_of_rows = str((globals or {}).get("__name__")).startswith(("l5kit_bench", "l5kit.warmup"))
    if not (is_of_rows and fromlist and name.startswith("l5kit.")):
        return _import(name, globals, locals, fromlist, level)
    try:
        module = _import(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("l5kit."):  # an optional library that is not installed
            raise
        module = ModuleType(name)
    missing = {wanted: Lacking(wanted, (), {"__module__": name}) for wanted in fromlist if not hasattr(module, wanted)}
    if not missing:
        return module
    # a separate module, as other code of the commit may check whether the name exists
    stand_in = ModuleType(name)
    stand_in.__dict__.update(vars(module) | missing)
    return stand_in


class Lacking(type):
    """Placeholder of a name that the commit lacks: importable and usable in annotations, but an error when called."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise ImportError(f"{cls.__module__} has no {cls.__name__}")


def serve(task: dict[str, Any]) -> None:
    """Prepare rows, then measure one pass of each row that is named on standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr
    import l5kit

    if not Path(l5kit.__file__).is_relative_to(task["source"]):
        raise SystemExit(f"l5kit was imported from {l5kit.__file__} in place of {task['source']}")
    builtins.__import__ = import_what_is_there
    from l5kit_bench.machine import one_opencv_thread
    from l5kit_bench.row import choose_rows, measure_pass
    from l5kit_bench.run import all_rows
    from l5kit_bench.workplace import QUICK, Amounts, Workplace, find_bench_files

    files = find_bench_files(Path(task["data"]))
    with one_opencv_thread(), Workplace(files, QUICK if task["quick"] else Amounts()) as place:
        works, rows, left_out = {}, {}, {}
        for row in choose_rows(all_rows(), task["rows"]):
            try:
                works[row.key] = row.prepare(place).work
                works[row.key]()
            except Exception as error:  # any error of an old commit
                left_out[row.title] = f"{type(error).__name__}: {error}"
            else:
                rows[row.key] = {"title": row.title, "unit": row.unit}
        print(json.dumps({"rows": rows, "left_out": left_out}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps({"rate": measure_pass(works[line.strip()])}), file=answers, flush=True)


def markdown(compared: Sequence[Comparison], options: argparse.Namespace) -> str:
    """Return the table as Markdown, with the hashes of the commits as titles."""
    old, new = (git(options.repository, "rev-parse", "--short", commit) for commit in (options.old, options.new))
    titles = ("workload", f"{old} (old)", f"{new} (new)", "new / old", "in single passes")
    rows = [titles, ("---",) * len(titles), *(row.cells() for row in compared)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="commit to compare with")
    parser.add_argument("new", nargs="?", default="HEAD", help="commit to compare (HEAD)")
    parser.add_argument("--data", type=Path, help="dataset folder or .zarr; by default a city is made")
    parser.add_argument("--row", action="append", default=[], help="row of l5kit bench; may be given several times")
    parser.add_argument("--passes", type=int, default=7, help="passes that are counted (7)")
    parser.add_argument("--quick", action="store_true", help="little work, to see that everything runs")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="l5kit-compare-city-") as city:
        if options.data is None:
            from l5kit.synthetic import make_city

            options.data = make_city(Path(city) / "city", num_scenes=1).path
        compared, left_out = compare(options)
    print(markdown(compared, options))
    for title, reason in left_out.items():
        print(f"left out: {title}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
