"""The unit of speed, and the facts of machine and process."""

import itertools

import pytest

from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit_bench import score as score_module
from l5kit_bench.machine import (
    describe_machine,
    has_memory_figures,
    one_opencv_thread,
    parse_memory,
    read_process_memory,
)
from l5kit_bench.score import geometric_mean, measure_score, score_of_script
from support.tolerances import FLOAT64


@pytest.mark.parametrize(
    ("rates", "mean"),
    [([2, 8], 4), ([7], 7), ([1, 10, 100], 10), ([1500, 1500, 1500, 1500], 1500)],
    ids=str,
)
def test_geometric_mean(rates, mean):
    assert geometric_mean(rates) == pytest.approx(mean, rel=FLOAT64)


def test_the_score_is_the_geometric_mean_of_the_best_windows(monkeypatch, clock):
    """Work that takes 0.1 and 0.4 s gives 10 and 2.5 a second, whose geometric mean is 5."""

    def taking(*seconds):
        durations = itertools.chain(seconds, itertools.repeat(seconds[-1]))

        def work():
            clock.now += next(durations)

        return work

    slow_first_window = taking(0.1, *[0.5] * 2, 0.125)
    monkeypatch.setattr(score_module, "_pieces_of_work", lambda: [slow_first_window, taking(0.5)])
    assert measure_score(window_s=1, clock=clock) == pytest.approx((8 * 2) ** 0.5)


def test_the_score_is_made_of_four_pieces_of_work_that_run():
    pieces = score_module._pieces_of_work()
    assert len(pieces) == 4
    assert pieces[0]() == 20_000 // 8 * sum(range(8))
    assert len(pieces[1]()) == len(pieces[2]()) == 100_000
    assert measure_score(window_s=1e-3) > 0


def test_a_script_may_tell_the_score(tmp_path):
    (tmp_path / "mine.py").write_text("def score():\n    return 1234\n")
    assert score_of_script(tmp_path / "mine.py") == 1234


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("mine.py", None, "does not exist", id="no file"),
        pytest.param("mine.py", "x = 1", r"has no function score\(\)", id="no function"),
        pytest.param("mine.txt", "x = 1", "must be a Python file", id="no Python"),
    ],
)
def test_another_file_tells_no_score(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        score_of_script(tmp_path / name)


def test_memory_is_told_in_megabytes():
    text = "5580-7ffd ---p 00000000 00:00 0    [rollup]\nRss:    1000 kB\nPss:     500 kB\nAnonymous:    250 kB\n"
    memory = parse_memory(text)
    assert (memory.resident_mb, memory.proportional_mb, memory.anonymous_mb) == (1.024, 0.512, 0.256)


def test_memory_of_this_process_or_an_error_that_says_where_to_measure():
    if has_memory_figures():
        memory = read_process_memory()
        assert 0 < memory.anonymous_mb <= memory.resident_mb
        assert memory.proportional_mb <= memory.resident_mb
    else:
        with pytest.raises(UnsupportedValueError, match="only Linux"):
            read_process_memory()


def test_the_machine_is_described():
    machine = describe_machine()
    assert machine.num_cores >= 1
    assert {"Python", "NumPy", "OpenCV", "numba"} <= set(machine.versions)
    assert machine.cpu


def test_opencv_gets_its_threads_back():
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        with one_opencv_thread():
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
