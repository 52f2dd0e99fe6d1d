"""``l5kit export --layout py123d``."""

import json

import pyarrow as pa

from l5kit.data import ChunkedDataset


def test_a_dataset_becomes_logs_and_a_map_which_are_replaced_only_when_told_so(l5kit, city, tmp_path):
    out = tmp_path / "out"
    done = l5kit("export", city, out, "--layout", "py123d", "--split", "val", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    log = ChunkedDataset(city / "scenes" / "sample.zarr").open()
    facts = json.loads(done.stdout)
    assert facts["files"] == 4 * len(log.scenes) + 1
    assert (out / "maps" / "l5kit" / "l5kit_world.arrow").is_file()
    with pa.memory_map(str(out / "logs" / "l5kit_val" / "scene-000001" / "sync.arrow")) as source:
        num_frames = pa.ipc.open_file(source).read_all().num_rows
    start, stop = log.scenes[1]["frame_index_interval"]
    assert num_frames == stop - start

    again = l5kit("export", city, out, "--layout", "py123d")
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    assert l5kit("export", city, out, "--layout", "py123d", "--overwrite").exit_code == 0
    assert [path.name for path in (out / "logs").iterdir()] == ["l5kit_train"]


def test_logs_are_for_what_the_log_is_called(l5kit, city, tmp_path):
    (tmp_path / "validate.zarr").symlink_to(city / "scenes" / "sample.zarr", target_is_directory=True)
    assert l5kit("export", tmp_path / "validate.zarr", tmp_path / "out", "--layout", "py123d").exit_code == 0
    assert [path.name for path in (tmp_path / "out" / "logs").iterdir()] == ["l5kit_val"]
