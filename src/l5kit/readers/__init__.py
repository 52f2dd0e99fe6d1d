"""Other datasets in: readers of their formats beside one contract, and the import that makes logs and a map of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
