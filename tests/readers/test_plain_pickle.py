"""Pickles that are read without being run: plain values come back as they are, all else is refused by name."""

import collections
import os
import pickle
import struct
import sys

import numpy as np
import pytest

from l5kit.readers.plain_pickle import load_plain_pickle

VALUE = {
    "numbers": [0, -5, 255, 256, 70_000, -(2**40), 10**30, 2.5, float("inf"), True, False, None],
    "text": ("", "ä", "x" * 300, b"", b"bytes", b"b" * 300),
    "nested": {"a": {"b": [{"c": (1, (2, (3, 4)))}]}, 7: "seven"},
    "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
    "scalars": [np.float64(2.5), np.int32(-3), np.bool_(True), np.float32(0.5)],
    "arrays": [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(3, dtype=">i4"),
        np.array([True, False]),
        np.zeros((0, 3)),
        np.array(["stop", "go"]),
        np.float32([1, 2]),
    ],
}
SHARED = np.arange(4.0)


def same(found, wanted):
    if isinstance(wanted, np.ndarray):
        return found.dtype == wanted.dtype and found.shape == wanted.shape and np.array_equal(found, wanted)
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(same, found, wanted))
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back_from_every_protocol(protocol):
    assert same(load_plain_pickle(pickle.dumps(VALUE, protocol)), VALUE)


@pytest.mark.parametrize("protocol", [4, 5])
def test_sets_come_back_where_a_protocol_has_them(protocol):
    value = {"kinds": {"VEHICLE", 3}, "fixed": frozenset({"a"})}
    assert load_plain_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_an_array_that_lies_at_two_places_is_there_twice(protocol):
    first, second = load_plain_pickle(pickle.dumps([SHARED, {"again": SHARED}], protocol))
    assert np.array_equal(first, SHARED)
    assert np.array_equal(second["again"], SHARED)


def test_arrays_of_objects_with_one_axis_become_lists():
    assert load_plain_pickle(pickle.dumps(np.array([None, "go"], object))) == [None, "go"]
    with pytest.raises(ValueError, match="an array of objects must have one axis"):
        load_plain_pickle(pickle.dumps(np.array([[None], ["go"]], object)))


def test_arrays_cannot_be_written_to():
    found = load_plain_pickle(pickle.dumps(np.arange(3.0)))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1.0


# --- what is refused


class Runs:
    """Code that a standard loader would run: it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_a_file_asks_to_run_is_not_run(tmp_path, protocol):
    content = pickle.dumps({"tracks": Runs(tmp_path / "ran")}, protocol)
    with pytest.raises(ValueError, match=r"it names (posix|nt)\.mkdir, and a pickle may run what it names"):
        load_plain_pickle(content)
    assert not (tmp_path / "ran").exists()
    pickle.loads(content)  # the payload is one
    assert (tmp_path / "ran").exists()


class Plain:
    """An object of a class, whose state is set without a call."""

    def __init__(self):
        self.value = 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Plain(), 4), r"it names .*test_plain_pickle\.Plain"),
        (pickle.dumps(np.random.default_rng(0), 4), r"it names numpy\.random"),
        (pickle.dumps(np.zeros(2, [("a", "f4")]), 4), "dtype"),
        (pickle.dumps(np.zeros(2, "M8[s]"), 4), "dtype M8; only numbers, bool and text"),
        (pickle.dumps(collections.defaultdict(list), 4), r"it names collections\.defaultdict"),
        (pickle.dumps(slice(1, 2), 4), r"it names builtins\.slice"),
        (b"\x80\x04(i__main__\nX\n.", "it holds an instance of a class"),
        (b"\x80\x04Pan id\n.", "it holds a persistent id"),
        (b"\x80\x04\x82\x01.", "it holds an entry of the registry"),
        (b"\x80\x05\x97.", "it holds a buffer outside"),
        (b"\x80\x04}N}b.", "it sets the state of an object that is not an array"),
        (b"not a pickle", "it is no pickle, or damaged"),
        (b"", "it ends too early"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"abc.", "it ends too early"),
        (b"\x80\x04r" + struct.pack("<I", 0xFFFFFFFF) + b".", "as a pickle"),
        (b"\x80\x04\x8b" + struct.pack("<I", 1 << 20) + b"\0" * (1 << 20) + b".", "a whole number has 1048576 bytes"),
        (b"I" + b"9" * 10_000 + b"\n.", "a whole number has 10000 digits"),
    ],
    ids=range(17),
)
def test_everything_else_is_refused_by_name(content, message):
    with pytest.raises(ValueError, match=message):
        load_plain_pickle(content)


def test_an_array_needs_as_many_bytes_as_its_shape_tells():
    content = pickle.dumps(np.arange(4.0), 4)
    for shape in (b"K\x05", b"K\x00"):
        with pytest.raises(ValueError, match=r"an array of shape \(\d,\) and float64 needs other than 32 bytes"):
            load_plain_pickle(content.replace(b"K\x04\x85", shape + b"\x85"))


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("kind", ["lists", "tuples", "dicts"])
def test_what_is_nested_a_thousand_deep_is_refused(protocol, kind):
    value = 1
    for _ in range(1000):
        value = {"lists": [value], "tuples": (value,), "dicts": {"a": value}}[kind]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        content = pickle.dumps({"metadata": value}, protocol)
    finally:
        sys.setrecursionlimit(before)
    with pytest.raises(ValueError, match="more than 100 levels deep"):
        load_plain_pickle(content)


def test_what_holds_itself_ends():
    loop = []
    loop.append(loop)
    assert len(load_plain_pickle(pickle.dumps(loop, 4))) == 1


def test_keys_that_are_tuples_of_tuples_are_refused():
    assert load_plain_pickle(pickle.dumps({("a", 1): 2}, 4)) == {("a", 1): 2}
    with pytest.raises(ValueError, match="a key of a dictionary must be text or a number, got a tuple"):
        load_plain_pickle(pickle.dumps({("a", (1, 2)): 3}, 4))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_wherever_a_file_is_cut_off_it_is_refused(protocol):
    content = pickle.dumps(VALUE, protocol)
    for end in range(len(content) - 1):
        with pytest.raises(ValueError, match=r"as a pickle|bytes|must"):
            load_plain_pickle(content[:end])


def test_files_with_other_bytes_are_read_or_refused():
    rng = np.random.default_rng(0)
    content = np.frombuffer(pickle.dumps(VALUE, 4), np.uint8)
    num_refused = 0
    for _ in range(1500):
        damaged = content.copy()
        damaged[rng.integers(len(content), size=rng.integers(1, 4))] = rng.integers(256)
        try:
            load_plain_pickle(damaged.tobytes())
        except ValueError:
            num_refused += 1
    assert 100 < num_refused < 1500
