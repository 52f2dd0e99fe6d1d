"""Readers of other dataset formats behind one protocol, and the import that converts them to logs and maps."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
