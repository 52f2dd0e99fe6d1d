"""``l5kit import`` and ``l5kit resample``."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from l5kit.data import ChunkedDataset
from support import argoverse2_files as av2

FIRST, SECOND = (f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2))


@pytest.fixture
def source(tmp_path):
    """Two scenarios of Argoverse 2."""
    folder = tmp_path / "source" / "val"
    av2.write_scenario(folder, FIRST)
    av2.write_scenario(folder, SECOND)
    return tmp_path / "source"


def test_a_dataset_is_imported_and_told_of(l5kit, source, tmp_path):
    done = l5kit("import", "argoverse2", source, tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "2 read, 0 failed" in done.stdout
    assert "CC BY-NC-SA 4.0" in done.stdout
    assert len(ChunkedDataset(str(tmp_path / "out" / "scenes" / "val.zarr")).open().scenes) == 2
    assert l5kit("validate", tmp_path / "out").exit_code == 0
    facts = json.loads(l5kit("info", tmp_path / "out", "--json").stdout)["facts"]
    assert facts["sources"][0]["dataset"] == "Argoverse 2 motion forecasting"


def test_scenes_that_fail_are_listed_and_machines_are_told_the_same(l5kit, source, tmp_path):
    (source / "val" / SECOND / f"log_map_archive_{SECOND}.json").unlink()
    done = l5kit("import", "argoverse2", source, tmp_path / "out", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["scenes"], told["step_time_s"], told["logs"]) == (
        1,
        0.1,
        {"val": str(tmp_path / "out" / "scenes" / "val.zarr")},
    )
    assert told["failed"][0]["name"] == SECOND
    assert f"failed: val/{SECOND}/log_map_archive_{SECOND}.json: there is no such file" in done.stderr
    strict = l5kit("import", "argoverse2", source, tmp_path / "strict", "--strict")
    assert strict.exit_code == 1
    assert strict.stderr.startswith(f"error: val/{SECOND}/log_map_archive_{SECOND}.json")


def test_what_cannot_be_imported_is_an_error_in_one_line(l5kit, source, tmp_path):
    for arguments, message in (
        (("argoverse2", tmp_path / "none", tmp_path / "out"), "there is no such folder"),
        (("argoverse2", tmp_path, tmp_path / "out"), "no scenario of Argoverse 2"),
        (("argoverse2", source, source), "but no import, so nothing in it is replaced"),
    ):
        done = l5kit("import", *arguments)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert l5kit("import", "kitti", source, tmp_path / "out").exit_code == 2


def test_only_so_many_scenes_are_imported(l5kit, source, tmp_path):
    assert l5kit("import", "argoverse2", source, tmp_path / "out", "--max-scenes", 1).exit_code == 0
    assert len(ChunkedDataset(str(tmp_path / "out" / "scenes" / "val.zarr")).open().scenes) == 1


@pytest.mark.process
def test_processes_make_the_same_files(l5kit, source, tmp_path):
    assert l5kit("import", "argoverse2", source, tmp_path / "one").exit_code == 0
    assert l5kit("import", "argoverse2", source, tmp_path / "two", "--workers", 2).exit_code == 0
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    )
    assert one == two


def test_the_format_that_the_source_has_is_told(l5kit, source, tmp_path):
    for asked in ("womd", "nuscenes"):
        done = l5kit("import", asked, source, tmp_path / "out")
        assert done.exit_code == 1
        assert f"it looks like argoverse2: l5kit import argoverse2 {source}" in done.stderr
    (tmp_path / "waymo" / "validation").mkdir(parents=True)
    (tmp_path / "waymo" / "validation" / "a.tfrecord-00000-of-00150").write_bytes(b"")
    assert "it looks like womd: " in l5kit("import", "argoverse2", tmp_path / "waymo", tmp_path / "out").stderr
    (tmp_path / "empty").mkdir()
    assert "looks like" not in l5kit("import", "nuscenes", tmp_path / "empty", tmp_path / "out").stderr


def test_a_dataset_is_resampled(l5kit, source, tmp_path):
    assert l5kit("import", "argoverse2", source, tmp_path / "out").exit_code == 0
    done = l5kit("resample", tmp_path / "out", tmp_path / "slow", "--step", 0.5, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["logs"] == {"val.zarr": {"frames_before": 220, "frames": 44}}
    log = ChunkedDataset(str(tmp_path / "slow" / "scenes" / "val.zarr")).open()
    assert log.facts.step_time_s == 0.5
    assert np.allclose(np.diff(log.frames["timestamp"][:22].astype(np.int64)) / 1e9, 0.5)
    assert "44" in l5kit("resample", tmp_path / "out", tmp_path / "again", "--step", 0.5).stdout
    refused = l5kit("resample", tmp_path / "out", tmp_path / "slow")
    assert refused.exit_code == 1
    assert "which exists" in refused.stderr
