"""``benchmarks/compare.py``, in a temporary repository with an instant benchmark."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "compare.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of the source distribution")

BENCH = {
    "__init__.py": "",
    "machine.py": "from contextlib import nullcontext as one_opencv_thread\n",
    "row.py": """
def choose_rows(rows, names):
    return [row for row in rows if not names or row.key in names]

def measure_pass(work):
    return work()
""",
    "run.py": """
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Callable

import l5kit.speed

@dataclass
class Row:
    key: str
    title: str
    unit: str
    prepare: Callable

def prepare(name):
    work = getattr(l5kit.speed, name)
    return SimpleNamespace(work=work)

def all_rows():
    return [Row(name, f"the {name}", "steps", lambda _, name=name: prepare(name)) for name in ("walk", "run")]
""",
    "workplace.py": """
from contextlib import nullcontext

QUICK = None

def Amounts():
    return None

def Workplace(files, amounts):
    return nullcontext(files)

def find_bench_files(path):
    return path
""",
}
SPEEDS = ("def walk():\n    return 2.0\n", "def walk():\n    return 5.0\ndef run():\n    return 9.0\n")


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("benchmarks_compare", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def git(folder, *arguments):
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    """Two commits with two speeds; the benchmark is only in the working tree."""
    folder = tmp_path / "repository"
    package = folder / "src" / "l5kit"
    package.mkdir(parents=True)
    git(tmp_path, "init", "-q", str(folder))
    (package / "__init__.py").write_text("")
    for speed in SPEEDS:
        (package / "speed.py").write_text(speed)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "speed")
    (package / "warmup").mkdir()
    bench = folder / "benchmarks" / "l5kit_bench"
    bench.mkdir(parents=True)
    for name, text in BENCH.items():
        (bench / name).write_text(text)
    return folder


def run_script(repository, *arguments):
    options = [*arguments, "--repository", str(repository), "--data", str(repository)]
    return subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)


@pytest.mark.process
def test_two_commits_are_compared_and_nothing_is_left_behind(repository):
    before = git(repository, "status", "--porcelain")
    done = run_script(repository, "HEAD~1", "HEAD", "--passes", "2")
    assert done.returncode == 0, done.stderr
    old, new = (git(repository, "rev-parse", "--short", name).strip() for name in ("HEAD~1", "HEAD"))
    assert done.stdout.splitlines() == [
        f"| workload | {old} (old) | {new} (new) | new / old | in single passes |",
        "| --- | --- | --- | --- | --- |",
        "| the walk, steps/s | 2 | 5 | 2.500 | 2.50 to 2.50 |",
    ]
    assert done.stderr == "left out: the run (old): AttributeError: module 'l5kit.speed' has no attribute 'run'\n"
    assert git(repository, "status", "--porcelain") == before
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.process
def test_what_a_commit_lacks_counts_only_where_a_row_uses_it(repository):
    run = repository / "benchmarks" / "l5kit_bench" / "run.py"
    imports = "from l5kit.speed import run\nfrom l5kit.pace import Trot, amble\n"  # no commit has the module
    sprint = 'Row("sprint", "the sprint", "steps", lambda _: SimpleNamespace(work=run))'
    text = run.read_text().replace(
        "import l5kit.speed\n",
        f"import l5kit.speed\n{imports}Gait = int | Trot\n__import__(name='l5kit.speed', fromlist=['walk'])\n",
    )
    run.write_text(text.replace('("walk", "run")]', f'("walk",)] + [{sprint}]'))

    done = run_script(repository, "HEAD~1", "HEAD", "--passes", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2:] == ["| the walk, steps/s | 2 | 5 | 2.500 | 2.50 to 2.50 |"]
    assert done.stderr == "left out: the sprint (old): ImportError: l5kit.speed has no run\n"


@pytest.mark.process
def test_a_commit_that_does_not_exist_is_an_error_that_names_it(repository):
    done = run_script(repository, "no-such-commit")
    assert done.returncode == 1
    assert "no-such-commit" in done.stderr
    assert "Traceback" not in done.stderr


class ToldSide:
    def __init__(self, name, log, rates):
        self.name, self.log, self.rates = name, log, iter(rates)

    def measure(self, key):
        self.log.append(self.name + key)
        return next(self.rates)


def test_sides_alternate_and_take_turns_in_being_first(compare):
    log = []
    old, new = ToldSide("old ", log, [9, 1, 2]), ToldSide("new ", log, [9, 3, 5])
    assert compare.alternate(old, new, ["a"], 2) == {"a": ([1, 2], [3, 5])}
    assert log == ["old a", "new a", "new a", "old a", "old a", "new a"]


def test_ratios_are_those_of_medians_and_of_single_passes(compare):
    compared = compare.Comparison("this", "things", (10.0, 20.0, 40.0), (30.0, 20.0, 60.0))
    assert compared.cells() == ("this, things/s", "20", "30", "1.500", "1.00 to 3.00")
