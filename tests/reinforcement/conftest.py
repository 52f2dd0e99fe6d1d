"""Small trainings of drivers in one thread."""

import importlib.util
import platform

import pytest

_IS_POSSIBLE = importlib.util.find_spec("stable_baselines3") is not None
collect_ignore_glob = [] if _IS_POSSIBLE else ["test_*.py"]
if _IS_POSSIBLE:
    from support.models import one_thread

    __all__ = ["one_thread"]


@pytest.fixture(autouse=True, scope="module")
def _processor_is_known():
    """Let the library query the processor in another process before tests begin."""
    platform.processor()
