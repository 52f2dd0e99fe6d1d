"""Files of true and predicted positions."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import csv_utils
from l5kit.evaluation.csv_rows import MAX_LISTED
from l5kit.evaluation.csv_utils import MAX_MODES, read_gt_csv, read_pred_csv, write_gt_csv, write_pred_csv
from support.tolerances import NETWORK

ROUND_TRIP_TOLERANCE_M = NETWORK
TIMES = np.array([1_500_000_000_000_000_000, 1_500_000_000_100_000_000])
TRACKS = np.array([5, 18446744073709551615], np.uint64)

GT_GOLDEN = (
    "timestamp,track_id,avail_0,avail_1,coord_x00,coord_y00,coord_x01,coord_y01\r\n"
    "1500000000000000000,5,1.0,0.0,0.50000,-1.25000,0.00000,0.00000\r\n"
    "1500000000100000000,18446744073709551615,1.0,1.0,0.12346,2.00000,1234567.00000,-0.00000\r\n"
)
PRED_GOLDEN = (
    "timestamp,track_id,conf_0,conf_1,conf_2,coord_x00,coord_y00,coord_x01,coord_y01,"
    "coord_x10,coord_y10,coord_x11,coord_y11,coord_x20,coord_y20,coord_x21,coord_y21\r\n"
    "1500000000000000000,5,0.3333333333333333,0.6666666666666666,0.0,"
    "0.00000,1.00000,2.00000,3.00000,4.00000,5.00000,6.00000,7.00000,0.00000,0.00000,0.00000,0.00000\r\n"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.csv"


def read(reader, path, **options):
    return list(reader(path, **options))


def positions(*shape):
    return np.arange(np.prod(shape), dtype=float).reshape(shape)


def write_text(path, text):
    path.write_bytes(text.encode())
    return path


def test_true_positions_are_written_to_the_byte(path):
    coords = [[[0.5, -1.25], [0, 0]], [[0.123456, 2], [1234567, -1e-9]]]
    write_gt_csv(path, TIMES, TRACKS, np.array(coords), np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert path.read_bytes().decode() == GT_GOLDEN


def test_predictions_are_written_to_the_byte(path):
    write_pred_csv(path, TIMES[:1], TRACKS[:1], positions(1, 2, 2, 2), np.array([[1 / 3, 2 / 3]]))
    assert path.read_bytes().decode() == PRED_GOLDEN


def test_what_is_read_has_the_documented_types(path):
    write_text(path, GT_GOLDEN)
    first, second = read(read_gt_csv, path)
    assert (first["track_id"], first["timestamp"]) == ("5", "1500000000000000000")
    assert list(first) == ["track_id", "timestamp", "coord", "avail"]
    np.testing.assert_array_equal(second["coord"], [[0.12346, 2], [1234567, 0]])
    np.testing.assert_array_equal(first["avail"], [1, 0])
    write_text(path, PRED_GOLDEN)
    (row,) = read(read_pred_csv, path)
    assert list(row) == ["track_id", "timestamp", "coords", "conf"]
    np.testing.assert_array_equal(row["coords"][:2], positions(2, 2, 2))
    np.testing.assert_array_equal(row["coords"][2], 0)
    np.testing.assert_array_equal(row["conf"], [1 / 3, 2 / 3, 0])
    assert row["coords"].dtype == row["conf"].dtype == first["coord"].dtype == first["avail"].dtype == np.float64


COORDS = npst.arrays(
    np.float64,
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 13), st.just(2)),
    elements=st.floats(-1e6, 1e6),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(coords=COORDS, spare=st.integers(0, 12))
def test_predictions_come_back_within_a_tenth_of_a_millimetre(path, coords, spare):
    size, num_modes, num_steps, _ = coords.shape
    confs = np.full((size, num_modes), 1 / num_modes)
    write_pred_csv(path, np.arange(size), np.arange(size) + 7, coords, confs, num_modes + spare)
    rows = read(read_pred_csv, path, max_modes=num_modes + spare)
    assert [(row["timestamp"], row["track_id"]) for row in rows] == [(str(i), str(i + 7)) for i in range(size)]
    for row, expected, conf in zip(rows, coords, confs, strict=True):
        assert row["coords"].shape == (num_modes + spare, num_steps, 2)
        np.testing.assert_allclose(row["coords"][:num_modes], expected, rtol=0, atol=ROUND_TRIP_TOLERANCE_M)
        assert not row["coords"][num_modes:].any()
        np.testing.assert_array_equal(row["conf"][:num_modes], conf)
        assert not row["conf"][num_modes:].any()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(coords=COORDS)
def test_true_positions_come_back_within_a_tenth_of_a_millimetre(path, coords):
    coords = coords[:, 0]
    avails = (np.abs(coords[..., 0]) > 10).astype(np.float32)
    write_gt_csv(path, np.arange(len(coords)), np.arange(len(coords)), coords, avails)
    for row, expected, avail in zip(read(read_gt_csv, path), coords, avails, strict=True):
        np.testing.assert_allclose(row["coord"], expected, rtol=0, atol=ROUND_TRIP_TOLERANCE_M)
        np.testing.assert_array_equal(row["avail"], avail)


def test_one_mode_gets_confidence_1(path):
    write_pred_csv(path, TIMES, TRACKS, positions(2, 3, 2))
    for row, expected in zip(read(read_pred_csv, path), positions(2, 3, 2), strict=True):
        np.testing.assert_array_equal(row["conf"], [1, 0, 0])
        np.testing.assert_array_equal(row["coords"][0], expected)


def test_booleans_and_lists_are_written_as_numbers(path):
    write_gt_csv(path, [1], [2], [[[0.5, 1.5]]], [[True]])
    assert path.read_text().splitlines()[1] == "1,2,1.0,0.50000,1.50000"


def test_e1_more_than_ten_modes_come_back(path):
    """1.5 gave mode 1 step 10 and mode 11 step 0 the same name, so that one overwrote the other."""
    coords, confs = positions(1, 20, 30, 2), np.full((1, 20), 0.05)
    write_pred_csv(path, TIMES[:1], TRACKS[:1], coords, confs, 20)
    header = path.read_text().splitlines()[0].split(",")
    assert len(set(header)) == len(header) == 2 + 20 + 20 * 30 * 2
    (row,) = read(read_pred_csv, path, max_modes=20)
    np.testing.assert_array_equal(row["coords"], coords[0])


def test_e1_files_of_1_5_with_names_twice_are_read_by_position(path):
    names = [f"coord_{axis}{mode}{step}" for mode in range(12) for step in range(11) for axis in "xy"]
    assert len(set(names)) < len(names)
    header = ["timestamp", "track_id", *(f"conf_{mode}" for mode in range(12)), *names]
    numbers = [1.0, *[0.0] * 11, *range(len(names))]
    write_text(path, ",".join(header) + "\r\n" + ",".join(map(str, [7, 8, *numbers])) + "\r\n")
    (row,) = read(read_pred_csv, path, max_modes=12)
    np.testing.assert_array_equal(row["coords"], positions(12, 11, 2))


def test_e1_names_twice_in_another_order_cannot_be_told_apart(path):
    names = [f"coord_{axis}{mode}{step}" for mode in range(12) for step in range(11) for axis in "xy"]
    header = ["track_id", "timestamp", *(f"conf_{mode}" for mode in range(12)), *names]
    write_text(path, ",".join(header) + "\n")
    with pytest.raises(InvalidArgumentError, match="repeated names"):
        read(read_pred_csv, path, max_modes=12)


def test_e1_up_to_ten_modes_the_names_are_those_of_1_5(path):
    write_pred_csv(path, TIMES[:1], TRACKS[:1], positions(1, 10, 12, 2), np.full((1, 10), 0.1), 10)
    header = path.read_text().splitlines()[0].split(",")
    assert header[2:12] == [f"conf_{mode}" for mode in range(10)]
    assert header[12:14] == ["coord_x00", "coord_y00"]
    assert header[-2:] == ["coord_x911", "coord_y911"]
    assert len(set(header)) == len(header)


def test_e2_the_file_is_complete_when_the_function_returns_and_lines_end_alike_everywhere(path):
    write_gt_csv(path, TIMES, TRACKS, np.zeros((2, 1, 2)), np.ones((2, 1)))
    content = path.read_bytes()
    assert content.endswith(b"\r\n")
    assert content.count(b"\n") == content.count(b"\r\n") == 3


def test_e2_a_failure_leaves_the_older_file_and_nothing_else(path, monkeypatch):
    write_gt_csv(path, TIMES, TRACKS, np.zeros((2, 1, 2)), np.ones((2, 1)))
    before = path.read_bytes()

    def fail_late(*arguments):
        yield ["1", "2", "1.0", "0.00000", "0.00000"]
        raise OSError("no space left")

    monkeypatch.setattr(csv_utils, "_keyed_rows", fail_late)
    with pytest.raises(OSError, match="no space left"):
        write_gt_csv(path, TIMES, TRACKS, np.ones((2, 1, 2)), np.ones((2, 1)))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"csv_path .*nowhere"):
        write_gt_csv(tmp_path / "nowhere" / "gt.csv", TIMES, TRACKS, np.zeros((2, 1, 2)), np.ones((2, 1)))


def test_arguments_are_not_changed(path):
    arrays = [TIMES.copy(), TRACKS.copy(), positions(2, 1, 2, 2), np.ones((2, 1))]
    for array in arrays:
        array.setflags(write=False)
    write_pred_csv(path, *arrays)
    assert len(read(read_pred_csv, path)) == 2


def test_columns_may_stand_in_any_order(path):
    header, *rows = [line.split(",") for line in PRED_GOLDEN.split()]
    order = np.random.default_rng(0).permutation(len(header))
    write_text(path, "\n".join(",".join(line[place] for place in order) for line in [header, *rows]))
    (row,) = read(read_pred_csv, path)
    np.testing.assert_array_equal(row["coords"][:2], positions(2, 2, 2))
    assert row["track_id"] == "5"


def test_a_byte_order_mark_and_empty_lines_do_no_harm(path):
    path.write_bytes(b"\xef\xbb\xbf" + GT_GOLDEN.replace("\r\n", "\n\n").encode())
    assert len(read(read_gt_csv, path)) == 2


GT_ARGUMENTS = {
    "timestamps": TIMES,
    "track_ids": TRACKS,
    "coords": np.zeros((2, 3, 2)),
    "avails": np.ones((2, 3)),
}
BAD_GT = {
    "one time too few": ("timestamps", TIMES[:1], "timestamps has shape"),
    "tracks as a column": ("track_ids", TRACKS[:, None], "track_ids has shape"),
    "coordinates without steps": ("coords", np.zeros((2, 2)), "coords has shape"),
    "three coordinates": ("coords", np.zeros((2, 3, 3)), "coords has shape"),
    "modes": ("coords", np.zeros((2, 1, 3, 2)), "coords has shape"),
    "other number of steps": ("avails", np.ones((2, 4)), "avails has shape"),
    "NaN": ("coords", np.full((2, 3, 2), np.nan), "NaN or infinite in 2 rows: 0; 1"),
}


@pytest.mark.parametrize(("argument", "value", "message"), BAD_GT.values(), ids=BAD_GT.keys())
def test_true_positions_that_do_not_fit_are_assertion_errors(path, argument, value, message):
    with pytest.raises(AssertionError, match=message):
        write_gt_csv(path, **GT_ARGUMENTS | {argument: value})
    assert not path.exists()


PRED_ARGUMENTS = {
    "timestamps": TIMES,
    "track_ids": TRACKS,
    "coords": np.zeros((2, 2, 3, 2)),
    "confs": np.full((2, 2), 0.5),
}
BAD_PRED = {
    "confidences missing": ({"confs": None}, "needs confs of shape"),
    "confidences of one mode": ({"coords": np.zeros((2, 3, 2))}, "confs must be None"),
    "confidences of another number of modes": ({"confs": np.full((2, 3), 1 / 3)}, "confs has shape"),
    "confidences that do not sum to 1": ({"confs": np.array([[0.5, 0.5], [0.5, 0.4]])}, r"in 1: row 1 is"),
    "a negative confidence": ({"confs": np.array([[0.5, 0.5], [1.5, -0.5]])}, r"in 1: row 1 is"),
    "NaN as confidence": ({"confs": np.full((2, 2), np.nan)}, "do not in 2"),
    "too many modes": ({"coords": np.zeros((2, 4, 3, 2)), "confs": np.full((2, 4), 0.25)}, "4 modes, but max_modes"),
    "no modes allowed": ({"max_modes": 0}, "max_modes must be at least 1"),
    "three coordinates": ({"coords": np.zeros((2, 2, 3, 3))}, "coords has shape"),
    "infinity": ({"coords": np.full((2, 2, 3, 2), np.inf)}, "NaN or infinite"),
    "one track too many": ({"track_ids": np.arange(3)}, "track_ids has shape"),
}


def test_a_mode_may_be_impossible(path):
    write_pred_csv(path, **PRED_ARGUMENTS | {"confs": np.array([[0.0, 1.0], [1.0, 0.0]])})
    assert [row["conf"].tolist() for row in read_pred_csv(path)] == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(("changes", "message"), BAD_PRED.values(), ids=BAD_PRED.keys())
def test_predictions_that_do_not_fit_are_assertion_errors(path, changes, message):
    with pytest.raises(AssertionError, match=message):
        write_pred_csv(path, **PRED_ARGUMENTS | changes)
    assert not path.exists()


MALFORMED = {
    "empty file": ("", "1 columns|0 columns"),
    "not divisible by three": ("timestamp,track_id,avail_0,coord_x00\n", "4 columns are not those of true positions"),
    "unknown names": ("timestamp,track_id,a,b,c\n", "missing avail_0; coord_x00; coord_y00; unknown a; b; c"),
    "key missing": ("time,track_id,avail_0,coord_x00,coord_y00\n", "missing timestamp; unknown time"),
    "names twice": ("timestamp,track_id,avail_0,coord_x00,coord_x00\n", "1 repeated names"),
    "row cut off": (GT_GOLDEN[:-30], "line 3: 6 columns instead of 8"),
    "no number": (GT_GOLDEN.replace("-1.25000", "east"), "line 2: could not convert string to float: 'east'"),
    "open quotes": (GT_GOLDEN + '"', "not valid csv"),
    "a prediction": (PRED_GOLDEN, "missing avail_0|columns are not those of true positions"),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_files_are_errors_that_say_where(path, text, message):
    write_text(path, text)
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        read(read_gt_csv, path)
    assert str(path) in str(raised.value)


def test_all_rows_that_cannot_be_read_are_listed_up_to_a_limit(path):
    header, *_ = GT_GOLDEN.split()
    good = "1,2,1.0,1.0,0.0,0.0,0.0,0.0"
    write_text(path, "\n".join([header, good, "1,2,3", *[good] * 3, "1,2,x,1,0,0,0,0", good]))
    with pytest.raises(InvalidArgumentError, match=r"2 rows .* line 3: 3 columns instead of 8; line 7: could not"):
        read(read_gt_csv, path)
    write_text(path, "\n".join([header, *["1,2"] * (MAX_LISTED + 5)]))
    with pytest.raises(InvalidArgumentError, match=r"15 rows .*line 11: .*; and 5 more"):
        read(read_gt_csv, path)


def test_no_row_is_handed_out_after_one_that_cannot_be_read(path):
    header, first, second = GT_GOLDEN.split()
    write_text(path, "\n".join([header, first, "1,2", second]))
    rows = read_gt_csv(path)
    assert next(rows)["track_id"] == "5"
    with pytest.raises(InvalidArgumentError, match="line 3"):
        next(rows)


def test_another_number_of_modes_is_told(path):
    write_pred_csv(path, TIMES, TRACKS, positions(2, 2, 5, 2), np.full((2, 2), 0.5), max_modes=5)
    with pytest.raises(InvalidArgumentError, match=r"max_modes 3|unknown conf_3") as raised:
        read(read_pred_csv, path)
    assert "conf_" in str(raised.value)
    assert len(read(read_pred_csv, path, max_modes=5)) == 2


def test_bytes_that_are_no_text_are_an_error(path):
    path.write_bytes(GT_GOLDEN.encode().replace(b"1.25", b"\xff\xfe"))
    with pytest.raises(InvalidArgumentError, match="not valid csv"):
        read(read_gt_csv, path)


@pytest.mark.parametrize(("reader", "golden"), [(read_gt_csv, GT_GOLDEN), (read_pred_csv, PRED_GOLDEN)])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fuzz_a_damaged_file_is_read_or_an_error_of_ours(path, reader, golden, data):
    content = bytearray(golden.encode())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content)))
        end = place + data.draw(st.sampled_from([0, 1, 1, 20]))
        content[place:end] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b",", b"\n", b'"', b"nan", b"\0"]))
        )
    path.write_bytes(content)
    with contextlib.suppress(InvalidArgumentError):
        rows = read(reader, path)
        assert all(row[key].dtype == np.float64 for row in rows for key in row if key not in ("track_id", "timestamp"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_fuzz_bytes_without_a_header_are_an_error_of_ours(path, content):
    path.write_bytes(content.removeprefix(b"timestamp"))
    for reader in (read_gt_csv, read_pred_csv):
        with pytest.raises(InvalidArgumentError):
            read(reader, path)


def test_a_missing_file_is_an_os_error(tmp_path):
    for reader in (read_gt_csv, read_pred_csv):
        with pytest.raises(FileNotFoundError):
            read(reader, tmp_path / "none.csv")


def test_the_number_of_modes_of_the_competition():
    assert MAX_MODES == 3
