"""Lookup of numbers in a file by blocks: equal to NumPy on the whole array, whatever the blocks."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.stores.npy_files import NpyPieces, map_npy
from l5kit.dataset import kept_index
from l5kit.dataset.kept_index import AscendingNumbers, count_taken_before
from l5kit.errors import CorruptedDataError

CASES = {
    "steps": np.arange(0, 300, 3),
    "equal ones across pieces": np.repeat([2, 5, 5, 9, 40], [1, 7, 30, 11, 3]),
    "all equal": np.full(25, 7),
    "a piece and one": np.arange(9) * 2 + 5,
    "one": np.array([4]),
    "none": np.empty(0, np.int64),
}


def write(folder: Path, numbers: np.ndarray) -> tuple[Path, np.ndarray]:
    file = folder / "numbers.npy"
    np.save(file, numbers.astype("<i8"))
    array = map_npy(file, dtype="<i8", shape=numbers.shape)
    assert array is not None
    return file, array


@pytest.fixture(params=[(8, 1 << 17), (4, 3), (512, 1 << 17)], ids=["pieces of 8", "three pieces", "one piece"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    shortest, most = request.param
    monkeypatch.setattr(kept_index, "_SHORTEST_PIECE", shortest)
    monkeypatch.setattr(kept_index, "_MOST_PIECES", most)
    monkeypatch.setattr(kept_index, "_READ_AT_ONCE", 50)
    monkeypatch.setattr(kept_index, "_PLACES_AT_ONCE", 7)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_in_file", [True, False], ids=["file", "memory"])
def test_numbers_are_found_as_numpy_finds_them(tmp_path: Path, case: str, is_in_file: bool) -> None:
    file, array = write(tmp_path, CASES[case])
    numbers = AscendingNumbers.of_file(file, array) if is_in_file else AscendingNumbers(CASES[case])
    assert numbers.is_read_in_pieces == (is_in_file and len(array) > 0 and NpyPieces.can_be_made)
    values = np.random.default_rng(0).permutation(np.arange(-2, 305))
    for side in ("left", "right"):
        wanted = np.searchsorted(array, values, side)
        assert_array_equal(numbers.search(values, side), wanted)
        assert [int(numbers.search(value, side)[0]) for value in values[:, None]] == wanted.tolist()
    places = np.random.default_rng(1).integers(0, max(len(array), 1), 40 * (len(array) > 0))
    assert_array_equal(numbers.at(places), array[places])


@pytest.mark.skipif(not NpyPieces.can_be_made, reason="files are not read in pieces here")
def test_a_file_that_is_cut_short_meanwhile_is_an_error_that_names_it(tmp_path: Path) -> None:
    file, array = write(tmp_path, np.arange(2000))
    numbers = AscendingNumbers.of_file(file, array)
    os.truncate(file, file.stat().st_size - 8)
    assert numbers.at(np.array([3])) == 3
    for look in (lambda: numbers.at(np.array([1999])), lambda: numbers.search(np.array([1990]))):
        with pytest.raises(CorruptedDataError, match=r"numbers\.npy has fewer than the 2000 rows"):
            look()


def test_a_file_that_has_lost_its_name_is_read_on(tmp_path: Path) -> None:
    file, array = write(tmp_path, np.arange(2000))
    numbers = AscendingNumbers.of_file(file, array)
    file.unlink()
    assert numbers.at(np.array([1999])) == 1999
    assert_array_equal(AscendingNumbers.of_file(file, array).at(np.array([3])), [3])


@pytest.mark.skipif(not NpyPieces.can_be_made, reason="files are not read in pieces here")
def test_what_reads_a_file_gives_it_back(tmp_path: Path) -> None:
    file, array = write(tmp_path, np.arange(20))
    for _ in range(5000):  # more than a process may have open
        AscendingNumbers.of_file(file, array)
    with pytest.raises(TypeError, match="opens the file itself"):
        pickle.dumps(NpyPieces(file, array))


@pytest.mark.parametrize("rows_at_once", [1, 7, 100, 1000])
def test_rows_are_counted_in_one_pass(monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    monkeypatch.setattr(kept_index, "ROWS_AT_ONCE", rows_at_once)
    random = np.random.default_rng(2)
    mask = random.random(150) < 0.6
    for rows in (np.arange(151), np.sort(random.integers(0, 151, 40)), np.array([0, 0, 7, 7, 150, 150]), np.arange(0)):
        assert_array_equal(count_taken_before(mask, rows), np.searchsorted(np.flatnonzero(mask), rows))
    assert count_taken_before(mask[:0], np.array([0, 0])).tolist() == [0, 0]
