"""Traffic of many environments: scenes of a log as arrays for kernels, and the road users of each environment."""
