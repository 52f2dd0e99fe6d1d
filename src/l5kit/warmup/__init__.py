"""Warm-up: ahead-of-use compilation of the kernels, and the workloads it runs, which the benchmarks also measure."""
