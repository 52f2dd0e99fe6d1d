"""The harness of the attack finds each outcome: shown on undamaged sets and on readers that are spoiled on purpose."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack.attacker import Attacker
from attack.clean_sets import SETS, CleanSet, pack
from attack.damage import KINDS, kept_clean_set, kind_of, make_damaged_set
from attack.judging import Expected, MismatchError, Outcome, difference, judge_error, judge_value
from attack.record_files import Records, read_records
from attack.runner import Plan, SetResult, attack
from attack.study import Study, blamed, disputed, suspects
from l5kit.data import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError, SampleError


@pytest.fixture(scope="module")
def clean_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clean")


@pytest.mark.parametrize("clean", SETS, ids=lambda clean: clean.name)
def test_every_reader_is_right_on_an_undamaged_set(clean: CleanSet, clean_folder: Path, tmp_path: Path) -> None:
    readings = Attacker(clean, clean_folder, tmp_path).read_undamaged()
    odd = [r for r in readings if r.outcome not in (Outcome.RIGHT, Outcome.WARNED) and "has no frame" not in r.detail]
    assert not odd
    assert len({reading.reader for reading in readings}) > 20


@pytest.mark.parametrize("clean", SETS, ids=lambda clean: clean.name)
def test_what_is_stored_is_read_as_l5kit_reads_it(clean: CleanSet, clean_folder: Path, tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "set"
    shutil.copytree(kept_clean_set(clean, clean_folder), root)
    log = pack(root, clean)
    stored = read_records(log, is_zip=clean.is_zip)
    assert stored is not None
    opened = ChunkedDataset(str(log)).open()
    for key, name in (("scenes", "scenes"), ("frames", "frames"), ("agents", "agents")):
        assert np.asarray(getattr(opened, name)[:]).tobytes() == stored[key].tobytes() == clean.records()[key].tobytes()
    assert Study(clean.records(), stored).is_same
    assert not Study(clean.records(), stored).problems()


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b"/"))
    return digest.hexdigest()


@pytest.mark.parametrize("seed", [0, 17, 60, 101, 120])
def test_a_seed_makes_the_same_set_again(seed: int, clean_folder: Path, tmp_path: Path) -> None:
    first, second = (make_damaged_set(seed, tmp_path / name, clean_folder=clean_folder) for name in ("a", "b"))
    assert first.description == second.description
    assert _digest(first.root) == _digest(second.root)


def test_every_kind_of_damage_can_be_done(clean_folder: Path, tmp_path: Path) -> None:
    for seed in range(len(KINDS)):
        made = make_damaged_set(seed, tmp_path / str(seed), clean_folder=clean_folder)
        assert made.log.exists() or made.kind.family in ("zip", "metadata")
    assert {kind_of(seed).name for seed in range(len(KINDS))} == {kind.name for kind in KINDS}


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        pytest.param([[0, 3], [3, 3], [3, 7]], [], id="in a run, one of them empty"),
        pytest.param([[0, 3], [0, 0], [3, 7]], [0, 1, 2], id="zeroed in the middle"),
        pytest.param([[0, 3], [4, 5], [5, 7]], [0, 1], id="a gap, whose sides nobody can tell apart"),
        pytest.param([[1, 3], [3, 5], [5, 7]], [0], id="a first one that starts late"),
        pytest.param([[0, 3], [3, 5], [5, 8]], [2], id="a last one that ends behind the rows"),
        pytest.param([[0, 3], [3, 5], [5, 6]], [], id="rows that nothing names"),
        pytest.param([[0, 3], [5, 7], [3, 5], [7, 7]], [0, 1, 2, 3], id="two swapped"),
        pytest.param([[0, -5], [-5, 7]], [0, 1], id="negative"),
        pytest.param([[0, 3], [3, 3], [3, 3], [4, 5], [5, 7]], [1, 2, 3], id="a gap behind two empty ones"),
        pytest.param([[0, 3], [3, 3], [3, 3], [5, 6], [3, 7]], [2, 3, 4], id="one behind empty ones that has moved"),
    ],
)
def test_a_break_in_a_run_of_intervals(bounds: list[list[int]], found: list[int]) -> None:
    assert np.flatnonzero(suspects(np.array(bounds), 7)).tolist() == found


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        pytest.param([[0, 3], [3, 3], [3, 7]], [], id="in a run"),
        pytest.param([[0, 3], [0, 0], [3, 7]], [1], id="zeroed in the middle"),
        pytest.param([[0, 3], [4, 5], [5, 7]], [0, 1], id="a gap, whose sides nobody can tell apart"),
        pytest.param([[0, 5], [3, 5], [5, 7]], [0, 1], id="rows twice, whose owner nobody can tell"),
        pytest.param([[0, 3], [3, 7], [3, 3]], [2], id="an empty one that fits nowhere"),
        pytest.param([[1, 3], [3, 5], [5, 7]], [0], id="a first one that starts late"),
        pytest.param([[0, 3], [3, 5], [5, 9]], [2], id="a last one that ends behind the rows"),
    ],
)
def test_intervals_that_nobody_may_trust(bounds: list[list[int]], found: list[int]) -> None:
    assert np.flatnonzero(blamed(np.array(bounds), 7)).tolist() == found


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        pytest.param([[0, 3], [3, 3], [3, 7]], [], id="in a run"),
        pytest.param([[0, 3], [2, 5], [5, 7]], [0, 1], id="one row twice"),
        pytest.param([[0, 3], [0, 9], [5, 7]], [1], id="shared by one that cannot be right: it ends behind the rows"),
        pytest.param([[0, 3], [1, 6], [5, 7]], [1], id="shared by one that fits on neither side"),
    ],
)
def test_rows_that_two_intervals_name(bounds: list[list[int]], found: list[int]) -> None:
    assert np.flatnonzero(disputed(np.array(bounds), 7)).tolist() == found


def test_an_interval_that_does_not_lie_within_the_rows_holds_none() -> None:
    clean = SETS[0].records()
    stored = Records({key: rows.copy() for key, rows in clean.arrays.items()})
    last = len(stored["agents"]) - 1
    frame = Study(clean, stored).stored_frame_of_agent(last)
    assert frame is not None
    stored["frames"]["agent_index_interval"][0] = [0, 2**40]
    assert Study(clean, stored).stored_frame_of_agent(last) == frame


def test_rows_of_a_million_intervals_are_compared_in_little_memory() -> None:
    bounds = np.zeros((1_000_000, 2), np.int64)
    bounds[:3] = [[0, 3], [2, 5], [5, 7]]
    assert np.flatnonzero(disputed(bounds, 7)).tolist() == [0, 1]


def test_records_are_compared_by_their_fields() -> None:
    records = np.array([(1, (2.0, 3.0))], [("a", "<i8"), ("b", "<f8", (2,))])
    turned = np.zeros(1, [("b", "<f8", (2,)), ("a", "<i8")])
    turned["a"], turned["b"] = records["a"], records["b"]
    assert difference(turned, records) is None
    turned["b"][0, 1] = 4
    assert difference(turned, records) == "it.b is np.float64(4.0), not np.float64(3.0) at (0, 1) (1 of 2 values)"


def _fail() -> Any:
    raise RuntimeError("nothing like that is stored")


@pytest.mark.parametrize(
    ("value", "expected", "said", "outcome"),
    [
        pytest.param({"a": 1}, Expected(lambda: {"a": 1}), [], Outcome.RIGHT, id="right"),
        pytest.param({"a": 1}, Expected(lambda: {"a": 1}), ["look"], Outcome.WARNED, id="right with a warning"),
        pytest.param({"a": 2}, Expected(lambda: {"a": 1}, lambda: {"a": 2}), [], Outcome.AS_STORED, id="as stored"),
        pytest.param(
            {"a": 2}, Expected(lambda: {"a": 1}), [], Outcome.WRONG, id="other, and stored ones would be wrong"
        ),
        pytest.param({"a": 3}, Expected(lambda: {"a": 1}, lambda: {"a": 2}), [], Outcome.WRONG, id="neither"),
        pytest.param({"a": 3}, Expected(lambda: {"a": 1}, _fail), [], Outcome.WRONG, id="nothing is stored"),
        pytest.param(
            {"a": 2},
            Expected(lambda: {"a": 1}, lambda: {"a": 2}, warns_if_stored=True),
            [],
            Outcome.WRONG,
            id="without the warning that it needs",
        ),
        pytest.param(5, Expected(lambda: {"a": 1}), [], Outcome.WRONG, id="something else altogether"),
        pytest.param({"a": 1, "b": 2}, Expected(lambda: {"a": 1}), [], Outcome.WRONG, id="another key"),
        pytest.param(np.array([np.nan, 1]), Expected(lambda: np.array([np.nan, 1])), [], Outcome.RIGHT, id="NaN"),
        pytest.param(np.zeros(3), Expected(lambda: np.zeros(4)), [], Outcome.WRONG, id="another shape"),
    ],
)
def test_a_value_is_judged(value: Any, expected: Expected, said: list[str], outcome: Outcome) -> None:
    assert judge_value(value, expected, said)[0] is outcome


def _chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "must_work", "outcome"),
    [
        pytest.param(CorruptedDataError("/set/log.zarr/agents/1 is missing"), False, Outcome.NAMED, id="named"),
        pytest.param(CorruptedDataError("frame 17 is odd"), True, Outcome.BLOCKED, id="for something that is whole"),
        pytest.param(CorruptedDataError("something is odd"), False, Outcome.VAGUE, id="names nothing"),
        pytest.param(KeyError("x"), False, Outcome.RAW, id="raw"),
        pytest.param(MemoryError(), False, Outcome.RAW, id="too much memory asked for"),
        pytest.param(FileNotFoundError(2, "no such file", "/set/meta.json"), False, Outcome.NAMED, id="of the system"),
        pytest.param(OSError("bad"), False, Outcome.RAW, id="of the system, without a file"),
        pytest.param(
            _chained(SampleError("sample 3: IndexError: x"), IndexError("x")),
            False,
            Outcome.RAW,
            id="a sample's raw cause",
        ),
        pytest.param(
            _chained(SampleError("sample 3: frame 2"), InvalidArgumentError("frame 2")),
            False,
            Outcome.NAMED,
            id="a sample's named cause",
        ),
        pytest.param(FileNotFoundError("/set/map.pb does not exist"), False, Outcome.NAMED, id="a file, in words"),
        pytest.param(FileNotFoundError("there is none"), False, Outcome.RAW, id="no file"),
        pytest.param(MismatchError("two things: differ"), False, Outcome.WRONG, id="a reader's own finding"),
    ],
)
def test_an_error_is_judged(error: Exception, must_work: bool, outcome: Outcome) -> None:
    assert judge_error(error, Expected(must_work=must_work), "/set")[0] is outcome


def test_the_first_difference_names_where_a_sample_comes_from() -> None:
    sample = {"image": np.zeros((2, 2)), "scene_index": 1, "timestamp": 5}
    found = difference(sample, sample | {"image": np.ones((2, 2)), "timestamp": 7})
    assert found is not None
    assert found.startswith("timestamp")


SABOTAGE = {
    "nothing": Outcome.RIGHT,
    "another_scene": Outcome.WRONG,
    "another_value": Outcome.WRONG,
    "raises_key_error": Outcome.RAW,
    "sleeps": Outcome.HANG,
    "exits": Outcome.CRASH,
    "reads_where_nothing_is": Outcome.CRASH,
    "takes_memory": Outcome.MEMORY,
    "takes_all_memory": Outcome.RAW,
}


@pytest.fixture(scope="module")
def spoiled(clean_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SetResult]:
    """Sets whose samples are as they were, apart from what is done to the reader."""
    Attacker(SETS[0], clean_folder, tmp_path_factory.mktemp("compiled")).read_undamaged(
        ("uncached",)
    )  # within no limit
    quiet = [seed for seed in range(10_000) if kind_of(seed).name == "scene time"]
    by_seed = dict(zip(quiet, SABOTAGE, strict=False))
    plan = Plan(all_ways=False, reading_s=15.0, only=("open", "samples", "summary"), sabotage=by_seed)
    return {by_seed[result.seed]: result for result in attack(by_seed, plan=plan)}


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("sabotage", SABOTAGE)
def test_a_spoiled_reader_is_found(sabotage: str, spoiled: dict[str, SetResult]) -> None:
    found = {reading.reader: Outcome.RIGHT for reading in spoiled[sabotage].readings}
    for reading in spoiled[sabotage].readings:
        found[reading.reader] = max(found[reading.reader], reading.outcome)
    assert found["samples"] is SABOTAGE[sabotage], spoiled[sabotage]
    assert found["open"] <= Outcome.WARNED
    assert found["summary"] <= Outcome.WARNED, "the readers after it are heard as well"
