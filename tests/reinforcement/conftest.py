"""Small trainings of drivers in one thread."""

import platform

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from support.models import one_thread

__all__ = ["one_thread"]


@pytest.fixture(autouse=True, scope="module")
def _processor_is_known():
    """Let the library ask another process for the kind of processor, of which its files tell, before tests begin."""
    platform.processor()
