"""Without a terminal, progress is printed as lines."""

from functools import partial

import pytest

from l5kit.data import progress
from l5kit.data.progress import TELL_EVERY_S, progress_of_part, show_progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that tests move on by hand."""
    now_s = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    return now_s


@pytest.mark.parametrize("show", [show_progress, partial(show_progress, rate_of="scenes")])
def test_a_line_is_told_once_a_minute(clock, capsys, show):
    with show("Checking", visible=True) as step:
        for second, done in ((TELL_EVERY_S - 1, 10), (TELL_EVERY_S, 1_200), (TELL_EVERY_S + 59, 1_300), (120, 1_400)):
            clock[0] = second
            step(done, 5_000)
    assert capsys.readouterr() == ("", "Checking: 1,200 of 5,000\nChecking: 1,400 of 5,000\n")


def test_bytes_are_told_as_megabytes(clock, capsys):
    with show_progress("Reading", visible=True, in_bytes=True) as step:
        clock[0] = TELL_EVERY_S
        step(1_500_000_000, 20_000_000_000)
    assert capsys.readouterr().err == "Reading: 1,500 of 20,000 MB\n"


def test_no_line_is_told_where_nobody_looks(clock, capsys):
    with show_progress("Reading", visible=False) as step:
        clock[0] = TELL_EVERY_S
        step(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_part_tells_how_far_all_of_it_is():
    told = []
    of_all = progress_of_part(lambda *numbers: told.append(numbers), 10, 50)
    of_all(3, 20)
    of_all(20, 20)
    assert told == [(13, 50), (30, 50)]
    assert progress_of_part(None, 10, 50) is None
