"""A server with bad habits, and waits that take no time."""

import numpy as np
import pytest

from l5kit.data.download import Retries
from support.bad_server import bad_server


@pytest.fixture(scope="module")
def running_server():
    with bad_server() as server:
        yield server


@pytest.fixture
def server(running_server, monkeypatch):
    """The server, without the requests of earlier tests."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running_server.files.clear()
    running_server.tricks.clear()
    running_server.asked.clear()
    return running_server


@pytest.fixture
def waits():
    """The seconds that were waited, in order."""
    return []


@pytest.fixture
def retries(waits):
    return Retries(sleep=waits.append)


@pytest.fixture(scope="session")
def content():
    """Content of a file: 300,000 distinct bytes."""
    return np.random.default_rng(0).bytes(300_000)
