"""Kernel helpers: array views without reference counting, which is slow in parallel kernels."""

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_OWNER = cast("Callable[[Any], Any]", types.MemInfoPointer)(types.voidptr)


def _uncounted(_typing_context: Any, arrays: Any) -> Any:
    """Return type and code generator for an array, or a tuple with arrays, without memory owners."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Generate the machine code."""
        return _stripped(context, builder, signature.args[0], arguments[0])

    return arrays(arrays), write


uncounted: Callable[[Any], Any] = cast("Callable[[Any], Any]", intrinsic(_uncounted))
"""Return an array, or a tuple with arrays, in the same memory without reference counting; for use inside kernels.

Otherwise each view of an array, and each call with one, increments and decrements a counter with atomic instructions,
for which processors wait on each other. Use it only for arguments of a kernel: an array made inside the kernel would be
freed after its last use, and views without counted references do not extend its life.
"""


def _stripped(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value of any type without memory owners."""
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        parts = [_stripped(context, builder, each, builder.extract_value(value, i)) for i, each in enumerate(kinds)]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    array_maker: Any = make_array
    view = array_maker(kind)(context, builder, value)
    view.meminfo = context.get_constant_null(_OWNER)
    view.parent = context.get_constant_null(types.pyobject)
    return view._getvalue()
