"""Bars of long work in notebooks."""

import types
from functools import partial

import pytest

pytest.importorskip("IPython")

import IPython
import IPython.display

from l5kit.data import progress
from l5kit.data.progress import in_notebook, show_progress


@pytest.fixture
def shown(monkeypatch):
    """Outputs of a notebook in order, in a process that acts as a kernel."""
    values = []

    def display(value, *, display_id):
        assert display_id
        values.append(value)
        return types.SimpleNamespace(update=values.append)

    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(progress, "_MIN_PAUSE_S", 0.0)
    return values


@pytest.mark.parametrize("show", [show_progress, partial(show_progress, rate_of="scenes")])
def test_a_bar_moves_and_vanishes(shown, show):
    with show("<Reading>", visible=True) as step:
        step(3, 12)
    html = [value._repr_html_() for value in shown]
    assert [("value" in text, "3 of 12" in text) for text in html] == [(False, False), (True, True), (False, False)]
    assert "&lt;Reading&gt;" in html[1]
    assert html[-1] == ""
    assert [repr(value) for value in shown][1:] == ["<Reading> 3 of 12", ""]


def test_a_bar_vanishes_when_the_work_fails(shown):
    with pytest.raises(RuntimeError), show_progress("Reading", visible=True):
        raise RuntimeError
    assert shown[-1]._repr_html_() == ""


def test_a_bar_is_not_moved_all_the_time(shown, monkeypatch):
    monkeypatch.setattr(progress, "_MIN_PAUSE_S", 1e9)
    with show_progress("Reading", visible=True) as step:
        for done in range(100):
            step(done, 100)
    assert len(shown) <= 3


def test_nothing_is_shown_where_nobody_looks(shown, monkeypatch):
    with show_progress("Reading", visible=False) as step:
        step(1, 2)
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert not in_notebook()
    with show_progress("Reading", visible=True) as step:
        step(1, 2)
    assert shown == []
