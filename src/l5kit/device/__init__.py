"""Devices: the CPU or a GPU as a target of kernels, with its memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
