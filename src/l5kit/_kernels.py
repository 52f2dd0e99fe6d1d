"""Kernels, and how they are compiled: the options of numba that all have but those of synthetic towns (`synthetic`)."""

from numba import njit

kernel_jit = njit(nogil=True, cache=True, error_model="numpy")
"""Compiles a kernel, without the lock of Python, kept on disk, where a division by 0 gives what NumPy gives."""
