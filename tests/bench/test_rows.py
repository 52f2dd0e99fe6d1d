"""Selection and order of measured rows."""

import pytest

from l5kit.errors import InvalidArgumentError
from l5kit_bench.row import Fact, MeasuredRow, PreparedRow, choose_rows, measure_rows
from l5kit_bench.run import all_rows


def timed_row(make_row, clock, key, *, seconds, count, log):
    """A row whose n-th pass takes the n-th of the given times."""
    times = iter(seconds)

    def work():
        log.append(key)
        clock.now += next(times)
        return count

    return make_row(key), PreparedRow(work)


def test_passes_alternate_and_the_first_is_not_counted(make_row, clock):
    log = []
    rows = [
        timed_row(make_row, clock, "a", seconds=[1000, 2, 4, 1], count=8, log=log),
        timed_row(make_row, clock, "b", seconds=[1000, 1, 1, 4], count=2, log=log),
    ]
    a, b = measure_rows(rows, num_passes=3, clock=clock)
    assert log == ["a", "b"] * 4
    assert (a.rates, a.rate) == ((4, 2, 8), 4)
    assert (b.rates, b.rate) == ((2, 2, 0.5), 2)


def test_facts_are_asked_for_when_all_passes_are_done(make_row, clock):
    log = []

    def work():
        clock.now += 1
        log.append("work")
        return 1

    ready = PreparedRow(work, lambda: [Fact(f"after {len(log)}", 5)])
    (measured,) = measure_rows([(make_row("a"), ready)], num_passes=2, clock=clock)
    assert measured.facts == (Fact("after 3", 5),)


def test_an_even_number_of_passes_has_the_mean_of_the_middle_two(make_row):
    assert MeasuredRow(make_row("a"), (1.0, 4.0, 2.0, 100.0)).rate == 3


@pytest.mark.parametrize("name", ["b", "B", "the second"])
def test_rows_are_chosen_by_key_and_by_title(make_row, name):
    rows = [make_row("a"), make_row("b", title="The second")]
    assert choose_rows(rows, [name]) == rows[1:]
    assert choose_rows(rows, []) == rows


def test_a_chosen_row_brings_what_it_is_compared_with_in_the_order_of_all(make_row):
    rows = [make_row("one"), make_row("other"), make_row("two", base="one")]
    assert [row.key for row in choose_rows(rows, ["two"])] == ["one", "two"]


def test_an_unknown_row_names_the_nearest_one_and_all():
    with pytest.raises(InvalidArgumentError, match=r"no row 'agent-semantics' .did you mean 'agent-semantic'\?.*mask"):
        choose_rows(all_rows(), ["agent-semantics"])


def test_rows_have_names_of_their_own_and_are_compared_with_rows_that_exist():
    rows = all_rows(lambda *_: None, make_crowded_city=lambda *_: None, train=lambda *_: (1, 0.0))
    keys = [row.key for row in rows]
    assert len(set(keys)) == len({row.title for row in rows}) == len(rows)
    assert {row.base for row in rows} - {None} <= set(keys)
    told = {"city", "state-idm", "environment-1024", "environment-1024-agents", "train-rl"}
    assert told == set(keys) - {row.key for row in all_rows()}
