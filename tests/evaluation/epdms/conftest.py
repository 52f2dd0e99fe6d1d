"""The map of the tests of EPDMS."""

import pytest

from support.windows import make_crossing


@pytest.fixture(scope="session")
def crossing(tmp_path_factory):
    return make_crossing(tmp_path_factory.mktemp("crossing"))
