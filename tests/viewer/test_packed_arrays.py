"""Arrays and facts as bytes: reading them by the documented form gives back what was packed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from l5kit.errors import UnsupportedValueError
from l5kit.visualization.viewer.packed_arrays import MAGIC, pack_arrays

TYPES = ("float64", "float32", "uint32", "int32", "uint16", "uint8")
SHAPES = hypothesis_numpy.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
ARRAYS = st.sampled_from(TYPES).flatmap(lambda dtype: hypothesis_numpy.arrays(dtype, SHAPES))


@given(
    facts=st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.booleans())),
    arrays=st.dictionaries(st.text(), ARRAYS, max_size=5),
)
def test_bytes_give_back_facts_and_arrays(unpack, facts, arrays):
    content = pack_arrays(facts, arrays)
    unpacked = unpack(content)
    assert unpacked.facts == facts
    assert list(unpacked.arrays) == list(arrays)
    for name, array in arrays.items():
        assert unpacked.arrays[name].dtype.name == array.dtype.name
        assert unpacked.arrays[name].shape == array.shape
        assert unpacked.arrays[name].tobytes() == array.tobytes()
    assert len(content) % 8 == 0


def test_the_bytes_of_a_small_case():
    content = pack_arrays({"a": 1}, {"x": np.array([1, 2, 3], np.uint16), "y": np.array([[1.0]], np.float32)})
    length = int.from_bytes(content[4:8], "little")
    assert content[:4] == MAGIC == b"L5KV"
    assert (8 + length) % 8 == 0
    assert content[8 : 8 + length].decode("ascii").rstrip(" ") == json.dumps(
        {
            "facts": {"a": 1},
            "arrays": [
                {"name": "x", "dtype": "uint16", "shape": [3], "offset": 0},
                {"name": "y", "dtype": "float32", "shape": [1, 1], "offset": 8},
            ],
        }
    )
    assert content[8 + length :] == bytes([1, 0, 2, 0, 3, 0, 0, 0]) + np.float32(1).tobytes() + bytes(4)


def test_arrays_in_any_memory_order_and_of_any_byte_order(unpack):
    table = np.arange(6, dtype=np.uint32).reshape(2, 3)
    arrays = {"turned": table.T, "every other": table[:, ::2], "big-endian": table.astype(">u4")}
    unpacked = unpack(pack_arrays({}, arrays))
    for name, array in arrays.items():
        assert unpacked.arrays[name].tolist() == array.tolist()


@pytest.mark.parametrize("dtype", ["float16", "int64", "uint64", "bool", "int16", "complex64", "U3"])
def test_other_types_are_refused(dtype):
    with pytest.raises(UnsupportedValueError, match=rf"array 'times' is .*; allowed are {', '.join(TYPES)}"):
        pack_arrays({}, {"fine": np.zeros(2, np.uint8), "times": np.zeros(2, dtype)})


@pytest.mark.parametrize("fact", [float("nan"), float("inf"), [1.0, float("-inf")]], ids=str)
def test_facts_that_no_browser_reads_are_refused(fact):
    with pytest.raises(ValueError, match="JSON"):
        pack_arrays({"origin_m": fact}, {})


@pytest.mark.parametrize("text", ["</script>", "\u2028", "\ud800", "ä\U0001f697", '"\\'], ids=ascii)
def test_any_text_is_a_fact(unpack, text):
    content = pack_arrays({text: text}, {})
    assert unpack(content).facts == {text: text}
    assert content.isascii()


def test_equal_input_gives_equal_bytes():
    arrays = {"x": np.arange(5, dtype=np.float32)}
    assert pack_arrays({"a": [1, 2]}, arrays) == pack_arrays({"a": [1, 2]}, arrays)
