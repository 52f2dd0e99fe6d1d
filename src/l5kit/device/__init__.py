"""Devices: where kernels run, the processor or a GPU, and the memory that they work on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
