"""Kernels: views of arrays whose references they do not count, where counting takes long."""

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_OWNER = cast("Callable[[Any], Any]", types.MemInfoPointer)(types.voidptr)


def _uncounted(_typing_context: Any, arrays: Any) -> Any:
    """Return type and code of an array, or a tuple with arrays, without the owners of its memory."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Write the machine code."""
        return _stripped(context, builder, signature.args[0], arguments[0])

    return arrays(arrays), write


uncounted: Callable[[Any], Any] = cast("Callable[[Any], Any]", intrinsic(_uncounted))
"""Return an array, or a tuple with arrays, in the same memory without counted references; for use inside kernels.

Each view that is taken of an array, and each call that one is handed to, else counts up and down with instructions that
wait for all other processors. Only arguments of the kernel may be handed to this: an array that it has made itself is
given back after its last use, which those of the views are none of.
"""


def _stripped(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value of some type without the owners of its memory."""
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        parts = [_stripped(context, builder, each, builder.extract_value(value, i)) for i, each in enumerate(kinds)]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    of_kind: Any = make_array
    view = of_kind(kind)(context, builder, value)
    view.meminfo = context.get_constant_null(_OWNER)
    view.parent = context.get_constant_null(types.pyobject)
    return view._getvalue()
