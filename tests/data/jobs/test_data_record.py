"""Records of the data that results are of."""

import fsspec
import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.jobs.data_record import DataRecord
from support.random_logs import random_dataset


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "log.zarr"
    random_dataset(np.random.default_rng(3), 4).save(str(path))
    return path


def test_a_log_is_recorded_with_digest_and_scenes(log, monkeypatch):
    assert DataRecord.of_log(log) == DataRecord(str(log), dataset_digest(log), 4)
    assert DataRecord.of_log(log, key="scenes/log.zarr").as_dict() == {
        "path": "scenes/log.zarr",
        "digest": dataset_digest(log),
        "num_scenes": 4,
    }
    monkeypatch.chdir(log.parent)
    assert DataRecord.of_log("log.zarr").path == str(log)
    assert DataRecord.of(".", num_scenes=7) == DataRecord(str(log.parent), dataset_digest(log.parent), 7)


def test_a_log_on_a_server_has_no_digest(log):
    fsspec.filesystem("memory").put(str(log), "/test-record.zarr", recursive=True)
    assert len(ChunkedDataset("memory://test-record.zarr").open().scenes) == 4
    assert DataRecord.of_log("memory://test-record.zarr") == DataRecord("memory://test-record.zarr", None, 4)


def test_a_log_that_has_no_digest_is_warned_of(log, tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    with pytest.warns(RuntimeWarning, match="no digest of the data is recorded: .* leads out of it"):
        assert DataRecord.of(tmp_path, num_scenes=1).digest is None
