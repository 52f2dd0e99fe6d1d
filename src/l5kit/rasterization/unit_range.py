"""Conversion of bytes to float32 values from 0 to 1.

Writing the values takes as long as drawing the bytes: a raster of 25 channels is 5 MB. So values bypass the caches if
they would not stay there, and rows known to be 0 are not read.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Int64Array, UInt8Array

TargetContext: TypeAlias = Any
"""A ``numba.core.base.BaseContext``, whose methods have no types."""

CodeWriter: TypeAlias = Callable[[TargetContext, Any, Signature, Any], object]
"""Function that generates the code of a call with a builder of llvmlite, for given argument types and values."""

TypedCode: TypeAlias = tuple[Signature, CodeWriter]
"""Result of an intrinsic for its argument types: its signature, and the code generator."""

_LANES: Final = 16
"""Values per streaming store: 64 bytes, a cache line."""

_PARTS_OF_255TH: Final = tuple(float(np.float32(257 * part)) for part in (2.0**-16, 2.0**-32 + 2.0**-48))
"""In float32, the sum of the products of a byte with these two equals its quotient by 255 bit for bit."""

STREAMED_NUM_BYTES: Final = 2**22
"""Size of the images of a batch above which they leave the caches before they are read."""


@kernel_jit
def divide_by_255(pixels: UInt8Array, values: Float32Array, rows: Int64Array, streams: bool) -> None:
    """Write ``pixels / 255`` to ``values``, and 0 to the pixels.

    Args:
        pixels: C-contiguous, shape (planes, height, width); 0 outside of ``rows``.
        values: C-contiguous, of the same shape.
        rows: First row and end row of each plane that may not be 0, shape (planes, 2).
        streams: Whether stores bypass the caches, which saves reading the overwritten memory. That pays off for memory
            outside the caches, and costs time otherwise.
    """
    height, width = pixels.shape[1:]
    all_pixels, all_values = pixels.reshape(-1), values.reshape(-1)
    for plane in range(len(rows)):
        begin = plane * height * width
        first, end, stop = begin + rows[plane, 0] * width, begin + rows[plane, 1] * width, begin + height * width
        _write(all_pixels, all_values, begin, first, True, streams)
        _write(all_pixels, all_values, first, end, False, streams)
        _write(all_pixels, all_values, end, stop, True, streams)
        all_pixels[first:end] = 0
    if streams:
        _finish_streaming()


@kernel_jit
def _write(pixels: UInt8Array, values: Float32Array, begin: int, end: int, is_zero: bool, streams: bool) -> None:
    """Write some values, 0 or ``pixels / 255``; three times as fast as NumPy's division of mixed types."""
    first, last = begin, begin
    if streams:
        first = min(begin + -(values.ctypes.data // values.itemsize + begin) % _LANES, end)
        last = first + (end - first) // _LANES * _LANES
        if is_zero:
            for i in range(first, last, _LANES):
                _stream_zeros(pixels, values, i)
        else:
            for i in range(first, last, _LANES):
                _stream_line(pixels, values, i)
    if is_zero:
        values[begin:first] = 0
        values[last:end] = 0
    else:
        _divide(pixels[begin:first], values[begin:first])
        _divide(pixels[last:end], values[last:end])


@kernel_jit
def _divide(pixels: UInt8Array, values: Float32Array) -> None:
    for i in range(pixels.size):
        values[i] = np.float32(pixels[i]) / np.float32(255.0)


def _type_stream(*, is_zero: bool) -> Callable[[object, types.Type, types.Type, types.Type], TypedCode]:
    """Return the typing function of an intrinsic that streams 16 ``values`` from ``start`` on: 0 or ``pixels / 255``.

    The values must be aligned to a cache line.
    """

    def type_stream(
        typing_context: object,  # noqa: ARG001
        pixels: types.Type,
        values: types.Type,
        start: types.Type,
    ) -> TypedCode:
        def generate(
            context: TargetContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
        ) -> ir.Value:
            source, target = (
                context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1)
            )
            some_bytes, some_floats = ir.VectorType(ir.IntType(8), _LANES), ir.VectorType(ir.FloatType(), _LANES)
            line = ir.Constant(some_floats, [0.0] * _LANES)
            if not is_zero:
                position = builder.bitcast(builder.gep(source, [arguments[2]]), some_bytes.as_pointer())
                line = builder.uitofp(builder.load(position, align=1), some_floats)
                line = builder.fadd(
                    *(builder.fmul(line, ir.Constant(some_floats, [part] * _LANES)) for part in _PARTS_OF_255TH)
                )
            position = builder.bitcast(builder.gep(target, [arguments[2]]), some_floats.as_pointer())
            store = builder.store(line, position, align=4 * _LANES)
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(pixels, values, start), generate

    return type_stream


def _type_finish_streaming(typing_context: object) -> TypedCode:  # noqa: ARG001
    """Return signature and code of a fence, after which other threads see the streamed values like ordinary stores."""

    def generate(
        context: TargetContext,
        builder: ir.IRBuilder,
        signature: Signature,  # noqa: ARG001
        arguments: Sequence[ir.Value],  # noqa: ARG001
    ) -> ir.Value:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


_stream_line: Any = intrinsic(_type_stream(is_zero=False))
_stream_zeros: Any = intrinsic(_type_stream(is_zero=True))
_finish_streaming: Any = intrinsic(_type_finish_streaming)
