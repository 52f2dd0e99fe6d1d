"""Runs of intervals: which records can be trusted, and to which of them a row belongs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.index.interval_run import IntervalFault, IntervalRun, RunTitles

TITLES = RunTitles("scene", "frame_index_interval", "frame")
BORDERS = (0, 14, 28, 42, 56)
"""True starts and ends of the scenes in most cases."""


def check(bounds, length=56, *, breaks=()):
    def is_break(rows):
        return np.isin(rows, breaks)

    return IntervalRun.check(TITLES, np.array(bounds, np.int64).reshape(-1, 2), length, is_break=is_break)


def faults(run):
    return [] if run.faults is None else [IntervalFault(fault).name for fault in run.faults]


@pytest.mark.parametrize(
    ("bounds", "length"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([[0, 0]], 0, id="an empty record"),
        pytest.param([[0, 14], [14, 28]], 28, id="two"),
        pytest.param([[0, 0], [0, 14], [14, 14], [14, 28], [28, 28]], 28, id="empty ones where the previous one ends"),
    ],
)
def test_a_plain_run(bounds, length):
    run = check(bounds, length)
    assert (run.faults, run.is_plain) == (None, True)
    assert run.is_sound.all()
    for record, (start, stop) in enumerate(bounds):
        assert (run.owners(np.arange(start, stop)) == record).all()


ONE_WRONG = {
    "zeroed": ([[0, 14], [0, 0], [28, 42], [42, 56]], {1: "FLOATING"}),
    "last zeroed": ([[0, 14], [14, 28], [28, 42], [0, 0]], {3: "FLOATING"}),
    "last emptied": ([[0, 14], [14, 28], [28, 42], [42, 42]], {3: "EMPTY"}),
    "two zeroed": ([[0, 14], [0, 0], [28, 42], [0, 0]], {1: "FLOATING", 3: "FLOATING"}),
    "swapped": ([[14, 28], [0, 14], [28, 42], [42, 56]], {0: "BOTH", 1: "BOTH"}),
    "last two swapped": ([[0, 14], [14, 28], [42, 56], [28, 42]], {2: "BOTH", 3: "BOTH"}),
    "a copy of the one before": ([[0, 14], [0, 14], [28, 42], [42, 56]], {1: "BOTH"}),
    "a copy of the next": ([[14, 28], [14, 28], [28, 42], [42, 56]], {0: "BOTH"}),
    "reversed": ([[0, 14], [28, 14], [28, 42], [42, 56]], {1: "REVERSED"}),
    "negative": ([[0, 14], [-14, 28], [28, 42], [42, 56]], {1: "OUTSIDE"}),
    "too far": ([[0, 14], [14, 28], [28, 42], [42, 57]], {3: "OUTSIDE"}),
    "unreadable": ([[0, 14], [-1, -1], [28, 42], [42, 56]], {1: "UNREADABLE"}),
    "elsewhere": ([[0, 14], [43, 55], [28, 42], [42, 56]], {1: "BOTH"}),
    "shrunk at both ends": ([[0, 14], [15, 27], [28, 42], [42, 56]], {1: "BOTH"}),
    "grown at both ends": ([[0, 14], [13, 29], [28, 42], [42, 56]], {1: "BOTH"}),
    "last elsewhere": ([[0, 14], [14, 28], [28, 42], [5, 9]], {3: "BOTH"}),
}


ONE_EMPTIED = {
    "emptied": ([[0, 14], [14, 14], [28, 42], [42, 56]], {1: "EMPTY"}, {2: "START"}),
    "first zeroed": ([[0, 0], [14, 28], [28, 42], [42, 56]], {0: "EMPTY"}, {1: "START"}),
    "first two zeroed": ([[0, 0], [0, 0], [28, 42], [42, 56]], {0: "EMPTY", 1: "EMPTY"}, {2: "START"}),
    "emptied at its end": ([[0, 14], [28, 28], [28, 42], [42, 56]], {1: "EMPTY"}, {0: "STOP"}),
    "between empty ones": ([[0, 14], [14, 14], [28, 28], [28, 56]], {1: "EMPTY", 2: "EMPTY"}, {}),
    "a row between empty ones": ([[0, 14], [14, 14], [15, 15], [15, 56]], {1: "EMPTY", 2: "EMPTY"}, {}),
    "moved behind empty ones": ([[0, 14], [14, 14], [35, 40], [28, 56]], {2: "BOTH"}, {}),
}


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param([[0, 14], [14, 14], [10, 28], [28, 56]], id="at the end of the one before"),
        pytest.param([[0, 18], [14, 14], [14, 28], [28, 56]], id="at the start of the next"),
    ],
)
def test_an_empty_one_where_two_overlap_is_sound(bounds):
    assert faults(check(bounds)) == ["STOP", "NONE", "START", "NONE"]


@pytest.mark.parametrize(("bounds", "wrong", "doubtful"), ONE_EMPTIED.values(), ids=ONE_EMPTIED.keys())
def test_rows_beside_an_empty_one_may_be_those_of_the_filled_one_on_their_other_side(bounds, wrong, doubtful):
    """However many they are, unless a break tells; what has an empty one at its own side of them is trusted."""
    for breaks, found in [((), wrong | doubtful), (BORDERS, wrong)]:
        assert faults(check(bounds, breaks=breaks)) == [found.get(record, "NONE") for record in range(4)]


@pytest.mark.parametrize("breaks", [(), BORDERS], ids=["nothing tells", "breaks tell"])
@pytest.mark.parametrize(("bounds", "wrong"), ONE_WRONG.values(), ids=ONE_WRONG.keys())
def test_who_is_wrong_is_found_and_the_others_are_trusted(bounds, wrong, breaks):
    run = check(bounds, breaks=breaks)
    assert faults(run) == [wrong.get(record, "NONE") for record in range(4)]
    assert not run.is_plain
    for record, (start, stop) in enumerate(bounds):
        if record not in wrong:
            assert (run.owners(np.arange(start, stop)) == record).all()


SEVERAL_WRONG = {
    "all shifted on": ([[3, 17], [17, 31], [31, 45], [45, 59]], 56, []),
    "all shifted back": ([[-3, 11], [11, 25], [25, 39], [39, 53]], 56, []),
    "the second half shifted back": ([[0, 14], [14, 28], [27, 41], [41, 55]], 56, [0, 1]),
    "the second half shifted on": ([[0, 14], [14, 28], [29, 43], [43, 57]], 56, [0, 1]),
    "two in the middle shifted": ([[0, 14], [16, 30], [30, 44], [42, 56], [56, 70]], 70, [0, 3, 4]),
    "two halves have changed places": ([[28, 42], [42, 56], [0, 14], [14, 28]], 56, []),
    "a third and the rest have changed places": ([[42, 56], [56, 70], [0, 14], [14, 28], [28, 42]], 70, []),
    "the first third and the last": (
        [[56, 70], [70, 84], [28, 42], [42, 56], [0, 14], [14, 28], [84, 98], [98, 112]],
        112,
        [7],
    ),
}


@pytest.mark.parametrize(("bounds", "length", "sound"), SEVERAL_WRONG.values(), ids=SEVERAL_WRONG.keys())
def test_stretches_that_lie_elsewhere_are_refused(bounds, length, sound):
    """Those at the sides of a stretch may be refused as well."""
    run = check(bounds, length)
    assert set(sound) <= set(np.flatnonzero(run.is_sound).tolist())
    elsewhere = [record for record, (start, _) in enumerate(bounds) if start != 14 * record]
    assert not run.is_sound[elsewhere].any()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param(
            [[0, 14], [28, 28], [14, 28], [28, 42]], ["NONE", "FLOATING", "MISPLACED", "NONE"], id="before it"
        ),
        pytest.param(
            [[0, 14], [14, 28], [14, 14], [28, 42]], ["NONE", "MISPLACED", "FLOATING", "NONE"], id="behind it"
        ),
        pytest.param(
            [[0, 14], [14, 28], [28, 42], [28, 28]], ["NONE", "NONE", "MISPLACED", "FLOATING"], id="at the end"
        ),
    ],
)
def test_an_empty_record_that_has_changed_places_with_a_filled_one(bounds, expected):
    assert faults(check(bounds, 42)) == expected


ONE_BORDER_WRONG = {
    "one short": ([[0, 13], [14, 28], [28, 42], [42, 56]], 0, ["STOP", "START"]),
    "one late": ([[0, 14], [15, 28], [28, 42], [42, 56]], 1, ["STOP", "START"]),
    "one long": ([[0, 15], [14, 28], [28, 42], [42, 56]], 0, ["STOP", "START"]),
    "one early": ([[0, 14], [13, 28], [28, 42], [42, 56]], 1, ["STOP", "START"]),
    "over the next as well": ([[0, 28], [14, 28], [28, 42], [42, 56]], 0, ["STOP", "START"]),
}


@pytest.mark.parametrize(("bounds", "wrong", "both"), ONE_BORDER_WRONG.values(), ids=ONE_BORDER_WRONG.keys())
def test_two_that_disagree_are_both_refused_unless_a_break_tells_who_is_right(bounds, wrong, both):
    assert faults(check(bounds)) == [*both, "NONE", "NONE"]
    expected = ["NONE"] * 4
    expected[wrong] = both[wrong]
    assert faults(check(bounds, breaks=BORDERS)) == expected


@pytest.mark.parametrize("breaks", [(), BORDERS], ids=["nothing tells", "breaks tell"])
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param([[3, 14], [14, 28], [28, 42], [42, 56]], ["START", *["NONE"] * 3], id="first starts late"),
        pytest.param([[0, 14], [14, 28], [28, 42], [42, 55]], [*["NONE"] * 3, "STOP"], id="last ends early"),
    ],
)
def test_the_ends_of_a_run(bounds, expected, breaks):
    assert faults(check(bounds, breaks=breaks)) == expected


@pytest.mark.parametrize(
    "bounds",
    [[[28, 42]], [[0, 14], [28, 42]], [[14, 28], [28, 42]], [[0, 14], [14, 28]], [[0, 14], [42, 56]]],
    ids=str,
)
def test_records_that_were_left_out_as_a_whole_leave_the_others_as_they_are(bounds):
    run = check(bounds)
    assert run.faults is None
    assert not run.is_plain
    taken = np.concatenate([np.arange(start, stop) for start, stop in bounds])
    assert (run.owners(np.setdiff1d(np.arange(56), taken)) == -1).all()
    assert "belongs to no scene" in run.explain_row(int(np.setdiff1d(np.arange(56), taken)[0]))


def test_a_gap_of_the_median_length_is_no_damage_and_a_shorter_one_is():
    assert check([[0, 14], [28, 42]], 42).faults is None
    assert faults(check([[0, 14], [27, 41]], 41)) == ["STOP", "START"]


GAP_OF_A_RECORD = [[0, 14], [28, 42], [42, 56], [56, 70]]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_gap_where_no_record_can_be_left_out_is_damage_however_long_it_is(goes_on):
    asked = []

    def tell(before, behind):
        asked.append((before.tolist(), behind.tolist()))
        return np.full(len(before), goes_on)

    bounds = np.array(GAP_OF_A_RECORD, np.int64)
    run = IntervalRun.check(TITLES, bounds, 70, goes_on=tell)
    assert faults(run) == (["STOP", "START", "NONE", "NONE"] if goes_on else [])
    assert asked == [([0], [1])]


def test_where_most_records_have_gaps_others_were_left_out_on_purpose():
    bounds = np.arange(20, dtype=np.int64).reshape(-1, 2) * 14

    def tell(before, behind):
        raise AssertionError("nobody needs to look")

    assert IntervalRun.check(TITLES, bounds, 19 * 14, goes_on=tell).faults is None


MOVED_AWAY = {
    "to later rows": ([[0, 2], [2, 2], [2, 2], [5, 6], [2, 2], [2, 4], [4, 5], [5, 6]], {3: "BOTH"}),
    "with one behind": ([[0, 2], [2, 2], [4, 5], [2, 2], [2, 4], [2, 2], [5, 6]], {2: "BOTH", 5: "FLOATING"}),
    "one of two": ([[0, 2], [2, 2], [3, 4], [2, 2], [2, 4], [4, 5], [5, 6]], {2: "BOTH"}),
}


@pytest.mark.parametrize(("bounds", "wrong"), MOVED_AWAY.values(), ids=MOVED_AWAY.keys())
def test_empty_ones_beside_one_that_lies_elsewhere_are_trusted_where_the_others_meet(bounds, wrong):
    assert faults(check(bounds, 6)) == [wrong.get(record, "NONE") for record in range(len(bounds))]


def test_an_empty_one_has_not_changed_places_across_others_that_are_where_they_should_be():
    bounds = [[0, 13], [13, 14], [14, 14], [14, 14], [13, 13], [14, 14], [14, 15]]
    assert faults(check(bounds, 15)) == ["NONE"] * 4 + ["FLOATING", "NONE", "NONE"]
    swapped = [[0, 13], [13, 14], [13, 13], [13, 13], [14, 14], [14, 15]]
    assert faults(check(swapped, 15)) == ["NONE", "MISPLACED", "FLOATING", "FLOATING", "NONE", "NONE"]


def test_records_behind_those_that_mean_something_are_not_looked_at():
    bounds = np.array([[0, 14], [14, 28], [0, 0], [3, 1]], np.int64)
    assert IntervalRun.check(TITLES, bounds, 28, num_used=2).faults is None
    assert IntervalRun.check(TITLES, bounds, 28).faults is not None


def test_a_part_of_a_run_starts_where_it_has_to_and_counts_as_the_whole_does():
    bounds = np.array([[14, 28], [28, 41], [42, 56]], np.int64)
    run = IntervalRun.check(TITLES, bounds, 56, origin=(1, 14))
    assert faults(run) == ["NONE", "STOP", "START"]
    assert run.explain(1) == "frame_index_interval [28, 41] of scene 2 does not end at 42, where the next one starts"
    assert faults(IntervalRun.check(TITLES, bounds, 56, origin=(1, 13)))[0] == "START"


EXPLAINED = {
    "zeroed": (1, "frame_index_interval [0, 0] of scene 1 is empty, but not at 14, where the previous one ends"),
    "emptied": (
        1,
        "frame_index_interval [14, 14] of scene 1 is empty, but the frames from 14 to 28 belong to no scene",
    ),
    "reversed": (1, "frame_index_interval [28, 14] of scene 1 ends before it starts"),
    "too far": (3, "frame_index_interval [42, 57] of scene 3 does not lie within the 56 frames"),
    "swapped": (
        1,
        "frame_index_interval [0, 14] of scene 1 neither starts at 28, where the previous one ends, nor ends at 28, "
        "where the next one starts",
    ),
}


@pytest.mark.parametrize("case", EXPLAINED)
def test_what_is_wrong_is_told_in_words(case):
    record, text = EXPLAINED[case]
    assert check((ONE_WRONG | ONE_EMPTIED)[case][0]).explain(record) == text


def test_the_words_name_the_record_that_a_row_was_lost_from():
    assert check(ONE_WRONG["zeroed"][0]).explain_row(20) == (
        "frame 20 belongs to no scene: "
        "frame_index_interval [0, 0] of scene 1 is empty, but not at 14, where the previous one ends"
    )
    assert check([[0, 14], [28, 42]]).explain_row(20) == (
        "frame 20 belongs to no scene: scene 0 ends at 14, scene 1 starts at 28"
    )
    assert check([[0, 14]]).explain_row(20) == "frame 20 belongs to no scene: scene 0 ends at 14, there are no more"


def test_the_error_of_a_block_that_cannot_be_read_is_told_of_all_its_records():
    bounds = np.array([[0, 14], [-1, -1], [-1, -1], [42, 56]], np.int64)
    run = IntervalRun.check(TITLES, bounds, 56, read_errors={1: "chunk 1 is garbage"})
    assert run.explain(2) == "scene 2 cannot be read: chunk 1 is garbage"


def true_runs():
    counts = st.lists(st.integers(0, 9), min_size=2, max_size=9).filter(lambda counts: sum(c > 0 for c in counts) > 1)
    return counts.map(lambda counts: np.stack([np.cumsum(counts) - counts, np.cumsum(counts)], axis=1))


@given(truth=true_runs(), data=st.data())
@settings(max_examples=500, deadline=None, derandomize=True)
def test_whatever_is_written_over_one_interval_the_others_stay_readable(truth, data):
    """If breaks show where records start, only overwritten ones are refused (an empty one may become a duplicate)."""
    length = int(truth[-1, 1])
    record = data.draw(st.sampled_from(np.flatnonzero(truth[:, 0] < truth[:, 1]).tolist()))
    damaged = truth.copy()
    damaged[record] = data.draw(st.tuples(*[st.integers(-3, length + 3)] * 2))
    breaks = np.unique(truth)
    run = IntervalRun.check(TITLES, damaged, length, is_break=lambda rows: np.isin(rows, breaks))
    others = np.arange(len(truth)) != record
    assert run.is_sound[others & (truth[:, 0] < truth[:, 1])].all()


@given(truth=true_runs(), data=st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_rows_that_one_number_has_lost_leave_nobody_trusted_who_may_have_had_them(truth, data):
    """A border of records with empty ones at it is written down many times, and one number of it is wrong."""
    record = data.draw(st.sampled_from(np.flatnonzero(truth[:, 0] < truth[:, 1]).tolist()))
    side = data.draw(st.integers(0, 1))
    lost = data.draw(st.integers(1, int(truth[record, 1] - truth[record, 0])))
    damaged = truth.copy()
    damaged[record, side] += lost if side == 0 else -lost
    run = IntervalRun.check(TITLES, damaged, int(truth[-1, 1]))
    other = record + (1 if side else -1)
    has_empty = 0 <= other < len(truth) and truth[other, 0] == truth[other, 1]
    if has_empty or damaged[record, 0] == damaged[record, 1]:
        assert not run.is_sound[record]
    if has_empty:
        assert not run.is_sound[other]
    # whoever has neither of the two at his sides has his places confirmed by others
    far = np.abs(np.arange(len(truth)) - (record + other) / 2) > 1
    assert run.is_sound[far & (truth[:, 0] < truth[:, 1])].all()


@given(truth=true_runs(), data=st.data())
@settings(max_examples=500, deadline=None, derandomize=True)
def test_an_interval_that_is_trusted_has_its_rows_or_left_out_as_many_as_a_record_has(truth, data):
    length = int(truth[-1, 1])
    record = data.draw(st.integers(0, len(truth) - 1))
    damaged = truth.copy()
    damaged[record] = data.draw(st.tuples(*[st.integers(-3, length + 3)] * 2))
    run = IntervalRun.check(TITLES, damaged, length)
    if run.is_sound[record] and (damaged[record] != truth[record]).any():
        fitting = damaged[run.is_sound & (damaged[:, 0] < damaged[:, 1])]
        num_lost = length - np.diff(fitting, axis=1).sum()
        assert num_lost >= max(1, int(np.median(np.diff(fitting, axis=1))) - 1) or (np.diff(damaged[record]) == 0)
