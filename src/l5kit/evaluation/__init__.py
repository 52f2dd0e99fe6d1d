"""Open-loop evaluation: csv files of true and predicted positions, their metrics, and chopped datasets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
