"""Kernels compiled ahead of use, and the workloads that do so, which the benchmarks of a checkout measure as well."""
