"""Devices: where kernels run, the processor or a GPU, and the memory that they work on."""
