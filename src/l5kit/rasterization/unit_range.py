"""Bytes as float32 values from 0 to 1."""

from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from l5kit._types import Float32Array, UInt8Array

_LANES: Final = 16
"""Values that are written at once past the caches: 64 bytes, a cache line."""

STREAMED_NUM_BYTES: Final = 2**22
"""Size of the images of a batch from which on they leave the caches before anybody reads them."""


@njit(nogil=True, cache=True, error_model="numpy")
def divide_by_255(pixels: UInt8Array, values: Float32Array) -> None:
    """Write ``pixels / 255`` to ``values``, both (N,); three times as fast as NumPy's division of mixed types."""
    for i in range(pixels.size):
        values[i] = np.float32(pixels[i]) / np.float32(255.0)


def _type_stream_line(typing_context: Any, pixels: Any, values: Any, start: Any) -> Any:  # noqa: ARG001
    """Return types and code of writing ``pixels / 255`` to 16 ``values`` from ``start`` on, past the caches.

    These values must begin a cache line.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1))
        some_bytes, some_floats = ir.VectorType(ir.IntType(8), _LANES), ir.VectorType(ir.FloatType(), _LANES)
        source, target = (builder.gep(pointer, [arguments[2]]) for pointer in (source, target))
        line = builder.load(builder.bitcast(source, some_bytes.as_pointer()), align=1)
        quotients = builder.fdiv(builder.uitofp(line, some_floats), ir.Constant(some_floats, [255.0] * _LANES))
        store = builder.store(quotients, builder.bitcast(target, some_floats.as_pointer()), align=4 * _LANES)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(pixels, values, start), generate


def _type_finish_streaming(typing_context: Any) -> Any:  # noqa: ARG001
    """Return types and code of waiting until other threads see the stored values, as they see ordinary stores."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


_stream_line: Any = intrinsic(_type_stream_line)
_finish_streaming: Any = intrinsic(_type_finish_streaming)


@njit(nogil=True, cache=True, error_model="numpy")
def stream_divided_by_255(pixels: UInt8Array, values: Float32Array) -> None:
    """Do the same with stores past the caches, which spare reading what is overwritten.

    That pays for memory that is in no cache, and costs where it is in one.
    """
    begin = min(-values.ctypes.data // values.itemsize % _LANES, values.size)
    end = begin + (values.size - begin) // _LANES * _LANES
    divide_by_255(pixels[:begin], values[:begin])
    for i in range(begin, end, _LANES):
        _stream_line(pixels, values, i)
    divide_by_255(pixels[end:], values[end:])
    _finish_streaming()
