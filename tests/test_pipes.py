"""Pipes instead of files: every reader of a user's file refuses them without waiting."""

import os
import shutil
import signal
import sys

import numpy as np
import pytest

from l5kit.cle.scene_type_agg import read_scene_types
from l5kit.configs.config import load_config_data, load_metadata
from l5kit.configs.texts import require_regular_file
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.digests.manifest import Manifest
from l5kit.data.jobs.owned_outputs import require_own_file
from l5kit.errors import InvalidArgumentError, L5KitError
from l5kit.evaluation.csv_utils import read_pred_csv
from l5kit.rasterization.satellite_image import read_aerial_pixels
from l5kit.readers.argoverse2 import Argoverse2Reader
from l5kit.readers.nuscenes_map import read_city_map
from l5kit.visualization.viewer.prediction_file import PredictionFile
from support import argoverse2_files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")


@pytest.fixture(autouse=True)
def no_waiting():
    """Ends a test that waits for a writer."""

    def stop(*_):
        raise TimeoutError("waited for a writer of the pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def as_pipe(path):
    """Put a pipe without a writer in the place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def read_policy(path):
    from l5kit.environment.policy_file import read_policy

    read_policy(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: MapAPI(str(path), np.eye(4)),
        load_config_data,
        load_metadata,
        Manifest.read,
        read_aerial_pixels,
        lambda path: list(read_pred_csv(path)),
        read_scene_types,
        PredictionFile,
        read_policy,
        lambda path: read_city_map(path, "boston"),
    ],
    ids=[
        *("map", "configuration", "metadata", "manifest", "picture", "predictions", "scene types", "shown predictions"),
        *("policy", "map expansion"),
    ],
)
def test_files_that_are_pipes_are_refused(tmp_path, read):
    with pytest.raises(L5KitError, match=r"\bis a pipe; save its output to a file"):
        read(as_pipe(tmp_path / "pipe"))


def test_a_map_of_a_scenario_that_is_a_pipe_fails_with_it(tmp_path):
    argoverse2_files.write_scenario(tmp_path, "0" * 8 + "-0000-0000-0000-" + "0" * 12)
    (place,) = tmp_path.rglob("log_map_archive_*.json")
    as_pipe(place)
    reader = Argoverse2Reader(tmp_path)
    with pytest.raises(L5KitError, match=r"log_map_archive_.* is a pipe"):
        reader.read(reader.list_scenes()[0])


@pytest.mark.parametrize("name", [".zgroup", "frames/.zarray", "agents/.zattrs"])
def test_a_log_whose_metadata_are_a_pipe_is_refused(city, tmp_path, name):
    shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "log.zarr")
    as_pipe(tmp_path / "log.zarr" / name)
    with pytest.raises(InvalidArgumentError, match=r"^metadata file .* is a pipe"):
        ChunkedDataset(str(tmp_path / "log.zarr")).open()


def test_a_chunk_that_is_a_pipe_is_damaged(city, tmp_path):
    shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "log.zarr")
    as_pipe(tmp_path / "log.zarr" / "agents" / "0")
    log = ChunkedDataset(str(tmp_path / "log.zarr")).open()
    assert len(log.frames[:3]) == 3
    with pytest.raises(L5KitError, match=r"chunk file .*/agents/0 cannot be read .* is a pipe"):
        _ = log.agents[:3]


def test_pipes_that_are_open_already_are_read(tmp_path):
    """As ``<(command)`` of a shell gives them."""
    reading, writing = os.pipe()
    os.write(writing, b"key: 3")
    os.close(writing)
    assert load_config_data(f"/dev/fd/{reading}") == {"key": 3}
    os.close(reading)


def test_devices_are_refused_and_what_is_not_there_is_not_judged(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"^csv file /dev/zero is a device; save its output to a file"):
        require_regular_file("/dev/zero", called="csv file")
    require_regular_file(tmp_path / "none", called="csv file")
    require_regular_file(tmp_path, called="csv file")


def test_what_is_written_does_not_replace_a_pipe(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"out is .*, a pipe or device, which a file cannot replace"):
        require_own_file(as_pipe(tmp_path / "out.json"), argument="out")
