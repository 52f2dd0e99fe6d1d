"""How closely numbers have to agree, by the type in which they were computed, and by how they were written down.

Each is an absolute or relative tolerance for numbers of ordinary size; where a test needs another one, it says why.
"""

FLOAT64 = 1e-12
"""A few operations on float64."""

FLOAT64_LONG = 1e-9
"""Long sums and chains of float64, and float64 of world coordinates."""

FLOAT32 = 1e-6
"""A few operations on float32; numbers of any type that are written with six decimals."""

FLOAT32_LONG = 1e-5
"""Float32 of coordinates and chains of float32; numbers that are written with five decimals."""

NETWORK = 1e-4
"""Float32 through the layers of a network; numbers that are written with four decimals."""
