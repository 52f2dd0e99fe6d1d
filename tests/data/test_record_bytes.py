"""Arrays of records one after the other."""

import numpy as np
import pytest

from l5kit.data.record_bytes import join_records
from l5kit.data.records import AGENT_DTYPE

FIELDS = [field for field in AGENT_DTYPE if field[0] in ("track_id", "yaw")]
SAME = np.dtype(FIELDS)


@pytest.mark.parametrize("num_spare", [0, 3])
@pytest.mark.parametrize(
    "dtypes",
    [
        pytest.param((SAME, SAME), id="one type"),
        pytest.param((SAME, np.dtype(FIELDS)), id="the same type twice"),
        pytest.param((SAME, np.dtype([("yaw", ">f8"), ("track_id", "<u2")])[["yaw", "track_id"]]), id="two types"),
    ],
)
def test_records_and_spare_rows_are_one_behind_the_other(dtypes, num_spare):
    parts = [np.ones(2, dtypes[0]), np.full(1, 2, dtypes[1])]
    joined = join_records(parts, num_spare=num_spare)
    assert joined.dtype == np.concatenate(parts).dtype
    assert joined["yaw"].tolist() == [1, 1, 2] + [0] * num_spare
    assert joined["track_id"].tolist() == [1, 1, 2] + [0] * num_spare
    joined["yaw"] = 5
    assert [part["yaw"].tolist() for part in parts] == [[1, 1], [2]]
