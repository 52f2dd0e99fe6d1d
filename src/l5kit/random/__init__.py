"""Random generators with seeds."""

from l5kit.random.random_generator import (
    GaussianRandomGenerator,
    LambdaRandomGenerator,
    RandomGenerator,
    ReplayRandomGenerator,
    UniformRandomGenerator,
)

__all__ = [
    "GaussianRandomGenerator",
    "LambdaRandomGenerator",
    "RandomGenerator",
    "ReplayRandomGenerator",
    "UniformRandomGenerator",
]
