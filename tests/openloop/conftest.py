"""Tests of evaluations run in one thread."""

from support.models import one_thread

__all__ = ["one_thread"]
