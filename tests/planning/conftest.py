"""The tests of models compute in one thread."""

from model_cases import one_thread

__all__ = ["one_thread"]
