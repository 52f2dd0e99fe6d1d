"""Kernel compilation: numba options of all kernels except those of synthetic cities (``l5kit.synthetic``)."""

from numba import njit

kernel_jit = njit(nogil=True, cache=True, error_model="numpy")
"""Decorator of kernels, which release the GIL, are cached on disk, and divide by 0 like NumPy."""
