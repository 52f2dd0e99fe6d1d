"""Whatever is damaged: readers give what is stored, or an error that says what and where; nothing wrong in silence.

Each set comes of a seed. To look at one, from the root of the repository::

    PYTHONPATH=src:tests python -m attack --one 123            # every reading that is not plainly right
    PYTHONPATH=src:tests python -m attack --make 123 folder    # the set itself
"""

import os
from pathlib import Path

import pytest

from attack.damage import FAMILIES, KINDS, kind_of
from attack.judging import Outcome, is_good
from attack.report import causes, table
from attack.runner import Plan, SetResult, attack

NUM_SETS = 150
"""All kinds of damage once, and more of the frequent ones; each set is opened in one way."""

NUM_SETS_LONG = 10_000
NUM_SETS_BOUNDS_CHECKED = 500
_ROOT = Path(__file__).resolve().parents[2]
_REPORTS = _ROOT / "build" / "attack"


@pytest.fixture(scope="module")
def results() -> list[SetResult]:
    return attack(range(NUM_SETS), plan=Plan(all_ways=False))


def test_the_seeds_have_all_kinds_of_damage() -> None:
    assert {kind_of(seed) for seed in range(NUM_SETS)} == set(KINDS)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_damage_is_told_or_harmless(family: str, results: list[SetResult]) -> None:
    assert_good([result for result in results if result.family == family])


@pytest.mark.process
@pytest.mark.slow
def test_the_attack_is_no_blank_charge(results: list[SetResult]) -> None:
    outcomes = [reading.outcome for result in results for reading in result.readings]
    for outcome in (Outcome.RIGHT, Outcome.AS_STORED, Outcome.NAMED):
        assert outcomes.count(outcome) > 50, outcome
    assert all(result.readings for result in results)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_ten_thousand_sets() -> None:
    assert_good(_reported(NUM_SETS_LONG, "all"))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_kernels_keep_to_their_arrays() -> None:
    """With numba's checks of bounds an index outside an array is an IndexError instead of any value."""
    _REPORTS.mkdir(parents=True, exist_ok=True)
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(_REPORTS / "numba-with-bounds")}
    quiet = next(seed for seed in range(10_000) if kind_of(seed).name == "scene time")
    plan = Plan(
        all_ways=False, reading_s=60.0, only=("samples",), sabotage={quiet: "indexes_outside"}, environment=environment
    )
    (spoiled,) = attack([quiet], plan=plan)
    assert any("IndexError" in reading.cause for reading in spoiled.readings), "the checks are not on"
    assert_good(_reported(NUM_SETS_BOUNDS_CHECKED, "bounds", first=NUM_SETS_LONG, environment=environment))


def _reported(
    num_sets: int, name: str, *, first: int = 0, environment: dict[str, str] | None = None
) -> list[SetResult]:
    """Attack and leave the table of outcomes in the folder ``build/attack``."""
    done = attack(
        range(first, first + num_sets),
        processes=os.cpu_count() or 2,
        plan=Plan(reading_s=60.0, environment=environment or {}),
    )
    _REPORTS.mkdir(parents=True, exist_ok=True)
    (_REPORTS / f"{name}.txt").write_text(f"{num_sets} sets\n\n{table(done)}\n{causes(done)}\n", "utf-8")
    return done


def assert_good(results: list[SetResult]) -> None:
    bad = [
        (result, reading) for result in results for reading in result.readings if not is_good(reading, result.family)
    ]
    seeds = sorted({result.seed for result, _ in bad})
    assert not bad, (
        f"{len(bad)} readings of {len(seeds)} sets, of {len(results)}: seeds {seeds[:40]}\n{causes(results)[:8000]}"
    )
