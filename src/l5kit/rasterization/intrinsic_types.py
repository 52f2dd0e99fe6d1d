"""Types of what numba's intrinsics are made of, where code is written for LLVM by hand."""

from collections.abc import Callable
from typing import Any, TypeAlias

from numba.core.typing.templates import Signature

TargetContext: TypeAlias = Any
"""A ``numba.core.base.BaseContext``, whose methods have no types."""

CodeWriter: TypeAlias = Callable[[TargetContext, Any, Signature, Any], object]
"""Writes the code of a call with a builder of llvmlite, for arguments of these types and values; returns its result."""

TypedCode: TypeAlias = tuple[Signature, CodeWriter]
"""What an intrinsic returns for the types of its arguments: these with the type of the result, and the code."""
