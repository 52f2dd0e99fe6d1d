"""``l5kit export``."""

import contextlib
import json

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.digests.digest import dataset_digest
from support.random_logs import assert_same_records


@pytest.fixture(scope="module")
def exported(city, tmp_path_factory):
    """Path of an export in columns, never written to."""
    from l5kit.data.interop import export_columns

    out = tmp_path_factory.mktemp("export") / "columns.zarr"
    export_columns(ChunkedDataset(str(city / "scenes" / "sample.zarr")).open(), out)
    return out


def test_columns_are_written_and_described(l5kit, city, tmp_path):
    done = l5kit("export", city, tmp_path / "out.zarr", "--layout", "columns", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    assert told["rows"] == {
        "scenes": 3,
        "frames": 300,
        "agents": len(log.agents),
        "traffic_light_faces": len(log.tl_faces),
    }
    assert told["bytes"] == sum(file.stat().st_size for file in (tmp_path / "out.zarr").rglob("*") if file.is_file())
    assert (told["layout"], told["out"]) == ("columns", str(tmp_path / "out.zarr"))
    assert_same_records(ChunkedDataset(told["out"]).open(), log)


@pytest.mark.parametrize("layout", ["columns", "parquet"])
def test_workers_change_nothing_and_files_tell_the_digest(l5kit, city, tmp_path, layout):
    if layout == "parquet":
        pytest.importorskip("pyarrow")
    digests = []
    for workers in (1, 2):
        done = l5kit("export", city, tmp_path / str(workers), "--layout", layout, "--workers", workers, "--json")
        assert (done.exit_code, done.stderr) == (0, "")
        digests.append(dataset_digest(tmp_path / str(workers)))
        assert json.loads(done.stdout)["digest"] == dataset_digest(city / "scenes" / "sample.zarr")
    assert digests[0] == digests[1]
    if layout == "parquet":
        from pyarrow import parquet

        told = json.loads(parquet.read_schema(tmp_path / "2" / "scenes.parquet").metadata[b"l5kit"])
    else:
        told = json.loads((tmp_path / "2" / "zarr.json").read_text())["attributes"]["l5kit_source"]
    assert told["digest"] == dataset_digest(city / "scenes" / "sample.zarr")


@pytest.mark.parametrize("layout", ["columns", "parquet"])
def test_an_export_that_is_interrupted_leaves_nothing(l5kit, city, tmp_path, layout, monkeypatch):
    @contextlib.contextmanager
    def interrupted(title, **_):
        def progress(done, total):
            if title.startswith("Exporting"):
                raise KeyboardInterrupt

        yield progress

    monkeypatch.setattr("l5kit.cli.export.show_progress", interrupted)
    assert l5kit("export", city, tmp_path / "out", "--layout", layout, "--workers", 2).exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_people_get_a_table(l5kit, city, tmp_path):
    done = l5kit("export", city, tmp_path / "out.zarr")
    assert done.exit_code == 0
    assert "scenes 3, frames 300" in done.stdout
    assert "MB" in done.stdout


def test_what_is_there_is_replaced_only_when_told(l5kit, city, tmp_path):
    assert l5kit("export", city, tmp_path / "out.zarr").exit_code == 0
    done = l5kit("export", city, tmp_path / "out.zarr")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--overwrite" in done.stderr
    assert l5kit("export", city, tmp_path / "out.zarr", "--overwrite").exit_code == 0


def test_an_export_is_a_dataset_for_the_other_commands(l5kit, city, exported):
    theirs, ours = (json.loads(l5kit("info", path, "--json").stdout) for path in (city, exported))
    assert ours["summary"] == theirs["summary"]
    done = l5kit("validate", exported)
    assert (done.exit_code, done.stdout) == (0, f"{exported}: nothing wrong found\n")


def test_digests_of_an_export_find_a_change(l5kit, exported, tmp_path):
    assert l5kit("info", exported, "--checksums", tmp_path / "digests.json").exit_code == 0
    digests = json.loads((tmp_path / "digests.json").read_text())
    assert {"zarr.json", "agents/zarr.json", "agents/centroid/c/0/0"} < set(digests)
    assert l5kit("validate", exported, "--checksums", tmp_path / "digests.json").exit_code == 0
    digests["agents/centroid/c/0/0"] = "0" * 64
    (tmp_path / "digests.json").write_text(json.dumps(digests))
    done = l5kit("validate", exported, "--checksums", tmp_path / "digests.json", "--json")
    assert done.exit_code == 1
    assert [found["check"] for found in json.loads(done.stdout)["findings"]] == ["checksum"]
