"""A dataset as Parquet files: values as pyarrow, DuckDB, polars and Hugging Face datasets read them, what they skip."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb")

import duckdb

import l5kit
from l5kit.data import PERCEPTION_LABELS, ChunkedDataset, LogFacts
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.interop import export_parquet, parquet_files, to_arrow, to_polars
from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError
from support.logs import write_with_chunks
from support.random_logs import random_dataset

CHILDREN = ("frames", "agents", "traffic_light_faces")
NUM_SCENES = 5


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An opened log of five scenes, the third of which has no frames."""
    made = random_dataset(np.random.default_rng(3), NUM_SCENES, min_frames=3)
    bounds = made.scenes["frame_index_interval"]
    start, stop = bounds[2, 0], bounds[3, 1]
    bounds[2], bounds[3] = (start, start), (start, stop)
    arrays = {name: getattr(made, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    path = tmp_path_factory.mktemp("log") / "log.zarr"
    ChunkedDataset.in_memory(**arrays, facts=LogFacts(step_time_s=0.5)).save(path)
    return ChunkedDataset(path).open()


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables") / "out"
    export_parquet(log, folder, scenes_per_file=2, digest="sha256:0123")
    return folder


@pytest.fixture(scope="module")
def tables(log):
    return to_arrow(log, label_names=True)


def files_of(folder, key):
    return [folder / "scenes.parquet"] if key == "scenes" else sorted((folder / key).iterdir())


def test_files_have_some_scenes_each(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted(["README.md", "scenes.parquet", *CHILDREN])
    for key in CHILDREN:
        assert [path.name for path in files_of(folder, key)] == [f"part-{number:05}.parquet" for number in range(3)]
    scenes = [sorted(set(pq.read_table(file)["scene_index"].to_pylist())) for file in files_of(folder, "frames")]
    assert scenes == [[0, 1], [3], [4]]


def test_parts_that_are_kept_are_of_the_same_export(log, folder, tmp_path):
    how = {"scenes_per_file": 2, "digest": "sha256:0123"}
    for name in ("first", "second"):
        with open_job(tmp_path / "job", {}) as job:
            export_parquet(log, tmp_path / name, workers=KeptWorkers(1, job), **how)
        for key in ("scenes", *CHILDREN):
            written = [file.read_bytes() for file in files_of(tmp_path / name, key)]
            assert written == [file.read_bytes() for file in files_of(folder, key)]
    for other in ({"nested": False}, {"label_names": False}, {"scenes_per_file": 1}, {"digest": ""}):
        with open_job(tmp_path / "job", {}) as job, pytest.raises(InvalidArgumentError, match="another export"):
            export_parquet(log, tmp_path / "other", workers=KeptWorkers(1, job), **how | other)


@pytest.mark.parametrize("key", ["scenes", *CHILDREN])
def test_pyarrow_reads_the_tables(folder, tables, key):
    found = pa.dataset.dataset(files_of(folder, key)).to_table()
    assert found.column_names == tables[key].column_names
    assert found.to_pylist() == tables[key].to_pylist()  # how lists and dictionaries are named differs by version
    assert len(found) > 0


@pytest.mark.parametrize("key", ["scenes", *CHILDREN])
def test_polars_reads_the_tables(log, folder, key):
    found = pl.read_parquet(files_of(folder, key))
    wanted = to_polars(log, label_names=True)[key]
    texts = [name for name in ("label", "status") if name in wanted.columns]
    assert found.with_columns(pl.col(texts).cast(pl.String)).equals(wanted.with_columns(pl.col(texts).cast(pl.String)))


@pytest.mark.parametrize("key", ["scenes", *CHILDREN])
def test_duckdb_reads_the_tables(folder, tables, key):
    files = [str(file) for file in files_of(folder, key)]
    found = duckdb.sql(f"select * from read_parquet({files})").fetchall()
    assert found == [tuple(row.values()) for row in tables[key].to_pylist()]


@pytest.mark.parametrize("key", CHILDREN)
def test_each_scene_is_a_row_group_that_statistics_tell(folder, tables, key):
    found = []
    for file in files_of(folder, key):
        metadata = pq.read_metadata(file)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            statistics = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
            assert statistics["scene_index"].min == statistics["scene_index"].max
            found.append((statistics["scene_index"].min, group.num_rows, statistics["frame_index"].max))
    rows = tables[key].to_pandas().groupby("scene_index")["frame_index"].agg(["size", "max"]).reset_index()
    assert found == list(rows.itertuples(index=False, name=None))


def test_duckdb_reads_only_the_scenes_that_are_asked_for(log, folder):
    query = f"select sum(timestamp) from '{folder}/frames/*.parquet' where scene_index = 1"
    assert duckdb.sql(query).fetchall() == [(log[1].frames["timestamp"].sum(),)]
    plan = duckdb.sql(f"explain analyze {query}").fetchall()[0][1]
    scanned = re.search(r"Row Groups Scanned:\s*(\d+) / (\d+)", plan)
    if scanned is None:
        pytest.skip(f"DuckDB {duckdb.__version__} does not tell which row groups it reads")
    assert scanned.groups() == ("1", "4")


def test_tracks_and_names_of_labels_are_asked_for_in_sql(log, folder):
    query = f"""select frame_index, centroid[1] from '{folder}/agents/*.parquet'
        where scene_index = 4 and label = 'PERCEPTION_LABEL_CAR' order by frame_index, centroid[1]"""
    scene = log[4]
    wanted = [
        (frame, row["centroid"][0])
        for frame, (start, stop) in enumerate(scene.frames["agent_index_interval"])
        for row in np.sort(scene.agents[start:stop], order="centroid")
        if row["label_probabilities"][PERCEPTION_LABELS.index("PERCEPTION_LABEL_CAR")] == 1
    ]
    assert duckdb.sql(query).fetchall() == wanted


@pytest.mark.parametrize("key", ["scenes", *CHILDREN])
def test_metadata_tell_units_and_where_it_comes_from(log, folder, key):
    for file in files_of(folder, key):
        schema = pq.read_schema(file)
        told = json.loads(schema.metadata[b"l5kit"])
        assert told["array"] == key
        assert (told["source"], told["digest"], told["num_scenes"]) == (log.path, "sha256:0123", NUM_SCENES)
        assert (told["step_time_s"], told["l5kit_version"]) == (0.5, l5kit.__version__)
        assert told["perception_labels"] == PERCEPTION_LABELS
    assert pq.read_schema(files_of(folder, "agents")[0]).field("velocity").metadata[b"units"] == b"m/s"


def test_the_digest_of_the_source_is_worked_out(log, tmp_path):
    in_memory = ChunkedDataset.in_memory(
        **{name: getattr(log, name)[:] for name in ("scenes", "frames", "agents", "tl_faces")}
    )
    for number, (dataset, given, wanted) in enumerate(
        [(log, None, dataset_digest(log.path)), (log, "", None), (in_memory, None, None)]
    ):
        export_parquet(dataset, tmp_path / str(number), scenes=0, digest=given)
        told = json.loads(pq.read_schema(tmp_path / str(number) / "scenes.parquet").metadata[b"l5kit"])
        assert told["digest"] == wanted


@pytest.mark.parametrize("key", ["scenes", *CHILDREN])
def test_hugging_face_datasets_know_the_tables(folder, tables, key, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    loaded = datasets.load_dataset(str(folder), key, split="train", cache_dir=str(tmp_path))
    assert loaded.column_names == tables[key].column_names
    assert loaded[:] == tables[key].to_pydict()


def test_the_card_tells_every_column(folder, tables):
    card = (folder / "README.md").read_text("utf-8")
    for table in tables.values():
        assert all(f"| `{name}` |" in card for name in table.column_names)
    assert "| `velocity` | `list<float>[2]` | m/s | world |" in card


def test_the_files_are_the_same_for_any_number_of_workers(log, folder, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        for number, workers in enumerate((2, executor)):
            out = tmp_path / str(number)
            export_parquet(log, out, scenes_per_file=2, digest="sha256:0123", workers=workers)
            for file in (path for path in folder.rglob("*") if path.is_file()):
                assert (out / file.relative_to(folder)).read_bytes() == file.read_bytes(), file


def test_some_scenes_are_written_under_their_numbers(log, tmp_path):
    told = []
    export_parquet(
        log, tmp_path / "out", scenes=[4, -4], nested=False, label_names=False, progress=lambda *step: told.append(step)
    )
    found = pq.read_table(tmp_path / "out" / "agents")
    assert found.equals(pa.concat_tables([to_arrow(log, scene, nested=False)["agents"] for scene in (4, 1)]))
    assert pq.read_table(tmp_path / "out" / "scenes.parquet")["scene_index"].to_pylist() == [4, 1]
    assert told[-1] == (2, 2)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"scenes": []}, InvalidArgumentError, "no scenes to write"),
        ({"scenes": [1, 0, 1]}, InvalidArgumentError, "names scene 1 more than once"),
        ({"scenes": 5}, IndexOutOfRangeError, "names scene 5, but the dataset has 5 scenes"),
        ({"scenes_per_file": 0}, InvalidArgumentError, "scenes_per_file must be 1 or more"),
    ],
)
def test_what_cannot_be_written_is_refused(log, tmp_path, options, error, text):
    with pytest.raises(error, match=text):
        export_parquet(log, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_replaced_only_where_it_may_be(log, tmp_path):
    out = tmp_path / "out"
    export_parquet(log, out, scenes=0)
    before = (out / "scenes.parquet").read_bytes()
    with pytest.raises(FileExistsError, match="overwrite"):
        export_parquet(log, out)
    assert (out / "scenes.parquet").read_bytes() == before
    export_parquet(log, out, overwrite=True)
    assert len(pq.read_table(out / "scenes.parquet")) == NUM_SCENES


@pytest.mark.parametrize(
    "place", ["thesis.txt", "deep/of/mine.parquet", "agents/thesis.txt", "agents/deep/mine.parquet"]
)
@pytest.mark.parametrize("is_export", [True, False])
def test_a_folder_with_other_files_is_not_replaced(log, tmp_path, place, is_export):
    out = tmp_path / "out"
    if is_export:
        export_parquet(log, out, scenes=0)
    (out / place).parent.mkdir(parents=True, exist_ok=True)
    (out / place).write_text("years of work")
    with pytest.raises(InvalidArgumentError, match="so nothing in it is replaced"):
        export_parquet(log, out, overwrite=True)
    assert (out / place).read_text() == "years of work"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_scene_that_cannot_be_read_leaves_nothing(log, tmp_path, workers):
    (tmp_path / "log.zarr").mkdir()
    write_with_chunks(log, tmp_path / "log.zarr")
    max((tmp_path / "log.zarr" / "agents").glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    damaged = ChunkedDataset(tmp_path / "log.zarr").open()
    with pytest.raises(CorruptedDataError, match="is missing") as caught:
        export_parquet(damaged, tmp_path / "out", workers=workers)
    assert caught.value.__notes__ == ["in scene 4"]
    assert [path.name for path in tmp_path.iterdir()] == ["log.zarr"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("isnan(yaw)", np.isnan),
        ("yaw > 1 and not isnan(yaw)", lambda yaw: yaw > 1),
        ("yaw <= -1", lambda yaw: yaw <= -1),
        ("isinf(yaw)", np.isinf),
    ],
)
def test_duckdb_finds_what_numpy_finds_among_numbers_that_are_none(log, tmp_path, condition, holds):
    agents = np.array(log.agents)
    agents["yaw"] = np.random.default_rng(4).uniform(-3, 3, len(agents))
    agents["yaw"][::3], agents["yaw"][1::7] = np.nan, np.inf
    changed = ChunkedDataset.in_memory(
        scenes=np.array(log.scenes), frames=np.array(log.frames), agents=agents, tl_faces=np.array(log.tl_faces)
    )
    export_parquet(changed, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "agents")["yaw"].to_numpy()
    query = f"select count(*) from '{tmp_path}/out/agents/*.parquet' where {condition}"
    assert duckdb.sql(query).fetchall() == [(int(holds(rows).sum()),)]
    group = pq.ParquetFile(tmp_path / "out" / "agents" / "part-00000.parquet").metadata.row_group(0)
    told = {group.column(i).path_in_schema for i in range(group.num_columns) if group.column(i).is_stats_set}
    assert {"scene_index", "frame_index", "track_id"} <= told
    assert "yaw" not in told


def test_one_scene_at_a_time_is_in_memory(log, tmp_path, monkeypatch):
    events = []
    read, write = parquet_files.parts_of_scene, pq.ParquetWriter.write_batch
    monkeypatch.setattr(
        parquet_files, "parts_of_scene", lambda dataset, scene: events.append(("read", scene)) or read(dataset, scene)
    )

    def write_batch(self, batch, **options):
        events.append(("write", batch["scene_index"][0].as_py()))
        return write(self, batch, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", write_batch)
    export_parquet(log, tmp_path / "out", scenes=[0, 1])
    assert events == [("read", 0)] + [("write", 0)] * 3 + [("read", 1)] + [("write", 1)] * 3
