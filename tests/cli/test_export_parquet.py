"""``l5kit export --layout parquet``."""

import json

import pyarrow.parquet as pq

from l5kit.data import ChunkedDataset

PLACES = {
    "scenes": "scenes.parquet",
    "frames": "frames",
    "agents": "agents",
    "traffic_light_faces": "traffic_light_faces",
}


def test_a_dataset_becomes_tables_which_are_replaced_only_when_told_so(l5kit, city, tmp_path):
    out = tmp_path / "tables"
    done = l5kit("export", city, out, "--layout", "parquet", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    log = ChunkedDataset(city / "scenes" / "sample.zarr").open()
    assert facts["rows"] == {key: pq.ParquetDataset(out / place).read().num_rows for key, place in PLACES.items()}
    assert facts["bytes"] == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert pq.read_table(out / "agents")["track_id"].to_pylist() == log.agents["track_id"].tolist()

    again = l5kit("export", city, out, "--layout", "parquet")
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    assert l5kit("export", city, out, "--layout", "parquet", "--overwrite").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]
