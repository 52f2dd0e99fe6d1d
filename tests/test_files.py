"""Files that are written whole or not at all have the permissions of any new file."""

import os
import stat

import numpy as np
import pytest

from l5kit._files import replaced_when_complete
from l5kit.configs import save_config_data
from l5kit.data import SCENE_DTYPE, ChunkedDataset
from l5kit.data.map_builder import MapBuilder
from l5kit.visualization import write_png


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request):
    """The umask of this process for one test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_appears_only_when_complete(tmp_path):
    target = tmp_path / "file.bin"
    with replaced_when_complete(target) as path:
        path.write_bytes(b"half")
        assert path.parent == tmp_path
        assert path.suffix == ".bin"
        assert not target.exists()
    assert target.read_bytes() == b"half"


def interrupted(path):
    path.write_bytes(b"half")
    raise KeyboardInterrupt


def test_an_interruption_keeps_the_older_file(tmp_path):
    target = tmp_path / "file.bin"
    target.write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt), replaced_when_complete(target) as path:
        interrupted(path)
    assert target.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        pytest.param(
            "nowhere/file.bin", FileNotFoundError, r"^path '.*file\.bin': the folder '.*nowhere' does", id="no folder"
        ),
        pytest.param("", IsADirectoryError, "^path .* is a folder", id="a folder"),
    ],
)
def test_a_wrong_place_is_named(tmp_path, wanted, error, message):
    with pytest.raises(error, match=message), replaced_when_complete(tmp_path / wanted, argument="path"):
        pytest.fail("the block must not run")


def write_config(path):
    save_config_data({"a": 1}, str(path))


def write_map(path):
    MapBuilder(np.eye(4)).save(path)


def write_picture(path):
    write_png(path, np.zeros((2, 3, 3), np.uint8))


def write_dataset(path):
    ChunkedDataset.in_memory(scenes=np.zeros(1, SCENE_DTYPE)).save(path)


@pytest.mark.skipif(os.name == "nt", reason="the umask is one of POSIX")
@pytest.mark.parametrize(
    ("write", "name"),
    [(write_config, "a.yaml"), (write_map, "a.pb"), (write_picture, "a.png"), (write_dataset, "a.zarr.zip")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_files_honour_the_umask(umask, write, name, tmp_path):
    write(tmp_path / name)
    assert permissions(tmp_path / name) == 0o666 & ~umask


@pytest.mark.skipif(os.name == "nt", reason="the umask is one of POSIX")
def test_folders_of_a_dataset_honour_the_umask(umask, tmp_path):
    write_dataset(tmp_path / "a.zarr")
    written = [tmp_path / "a.zarr", *(tmp_path / "a.zarr").rglob("*")]
    assert len(written) > 10
    for path in written:
        assert permissions(path) == (0o777 if path.is_dir() else 0o666) & ~umask
