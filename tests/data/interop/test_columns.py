"""Exports in columns: plain arrays that TensorStore reads, and a dataset with the same bits."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

pytest.importorskip("tensorstore")

import tensorstore

import l5kit
from l5kit.data import FRAME_DTYPE, PERCEPTION_LABELS, TL_FACE_LABELS, ChunkedDataset, LogFacts, validate_path
from l5kit.data.checks.checksums import compute_checksums
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.interop import columns, export_columns
from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers
from l5kit.data.layout import ARRAYS, create_array, create_group
from l5kit.data.stores.columns_array import ColumnsArray
from l5kit.data.stores.npy_files import MappedArray
from l5kit.errors import (
    CorruptedDataError,
    DatasetFormatError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MissingArrayError,
    ReadOnlyDatasetError,
)
from support.random_logs import assert_same_records, write_three_arrays
from support.web_server import serve


@pytest.fixture
def small_shards(monkeypatch, small_chunks):
    """Let exports have two chunks in a file."""
    monkeypatch.setattr(columns, "CHUNKS_PER_SHARD", 2)


@pytest.fixture
def odd(made):
    """The log with values that are easily lost: nan with a payload, -0, texts of any script that fill their field."""
    made.agents["centroid"][3] = np.array([0x7FF8_0000_0000_0123, 1 << 63], np.uint64).view(np.float64)
    made.agents["track_id"][:2] = 2**64 - 1, 2**63
    made.scenes["host"][:3] = "🚗" * 16, "", "hôst"
    return made


@pytest.fixture
def out(odd, small_shards, tmp_path):
    """Path of its export."""
    export_columns(odd, tmp_path / "out.zarr")
    return tmp_path / "out.zarr"


@pytest.fixture
def opened(out):
    return ChunkedDataset(str(out)).open()


def read_by_tensorstore(folder):
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder)}}
    return tensorstore.open(spec, open=True, read=True).result()


def test_tensorstore_reads_every_field_with_the_same_bits(odd, out):
    seen = set()
    for key, (attribute, _, _) in ARRAYS.items():
        records = getattr(odd, attribute)
        for field in records.dtype.names:
            array = read_by_tensorstore(out / key / field)
            values = array.read().result()
            if records.dtype[field].kind == "U":
                assert (array.shape, str(array.dtype)) == ((len(records), 16), 'dtype("uint32")')
            else:
                assert (array.shape, values.dtype) == (records[field].shape, records[field].dtype)
            assert values.tobytes() == records[field].tobytes(), field
            seen.add(array.domain.labels)
    assert {("agent", "xy"), ("frame", "world_axis", "av_axis"), ("scene", "character"), ("agent", "label")} < seen


def test_tensorstore_reads_a_part_from_its_shard(odd, out):
    """Five chunks in three files; a row in the second chunk of the second file."""
    assert sorted(os.listdir(out / "agents" / "yaw" / "c")) == ["0", "1"]
    assert len(odd.agents) == 34
    part = read_by_tensorstore(out / "agents" / "centroid")[31:33].read().result()
    assert part.tolist() == odd.agents["centroid"][31:33].tolist()


def test_without_shards_each_chunk_is_a_file_that_older_readers_know(odd, small_chunks, tmp_path):
    out = tmp_path / "out.zarr"
    export_columns(odd, out, sharded=False)
    assert sorted(os.listdir(out / "agents" / "yaw" / "c")) == ["0", "1", "2", "3"]
    metadata = json.loads((out / "agents/yaw/zarr.json").read_text())
    assert [codec["name"] for codec in metadata["codecs"]] == ["bytes", "gzip"]
    assert read_by_tensorstore(out / "agents/centroid").read().result().tobytes() == odd.agents["centroid"].tobytes()
    assert_same_records(ChunkedDataset(str(out)).open(), odd)
    file = out / "agents/yaw/c/1"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CorruptedDataError, match=r"agents/yaw/c/1 cannot be read or decoded"):
        ChunkedDataset(str(out)).open().agents[:]


def test_texts_are_code_points(out):
    hosts = read_by_tensorstore(out / "scenes" / "host").read().result()
    assert hosts[2].tolist() == [ord("h"), 0xF4, ord("s"), ord("t"), *[0] * 12]
    assert np.ascontiguousarray(hosts[:3]).view("<U16")[:, 0].tolist() == ["🚗" * 16, "", "hôst"]


def test_no_codec_and_no_type_is_of_one_library_only(out):
    for file in out.rglob("zarr.json"):
        metadata = json.loads(file.read_text())
        if metadata["node_type"] == "group":
            continue
        assert metadata["data_type"] in ("int64", "uint64", "uint32", "float32", "float64")
        (shards,) = metadata["codecs"]
        assert shards["name"] == "sharding_indexed"
        assert [codec["name"] for codec in shards["configuration"]["codecs"]] == ["bytes", "blosc", "crc32c"]


def test_it_opens_as_a_dataset_with_the_same_bits(odd, opened):
    assert_same_records(opened, odd)
    assert str(opened) == str(odd)
    assert isinstance(opened.agents, ColumnsArray)
    assert opened.agents.chunks == (10,)
    for scene in range(10):
        assert_same_records(opened.get_scene_dataset(scene), odd.get_scene_dataset(scene))


@pytest.mark.parametrize("cached", [False, True, "mmap"])
def test_rows_at_random(odd, out, cached):
    log = ChunkedDataset(str(out)).open(cached=cached, progress=False)
    assert isinstance(log.agents, MappedArray if cached == "mmap" else ColumnsArray)
    for rows in np.random.default_rng(0).integers(0, 34, (20, 3)):
        assert log.agents[rows].tobytes() == odd.agents[rows].tobytes()
    assert log.agents[-1].tobytes() == odd.agents[-1].tobytes()
    assert log.frames["timestamp"].tolist() == odd.frames["timestamp"].tolist()


def test_it_is_sent_to_other_processes_and_saved_as_before(odd, opened, tmp_path):
    assert_same_records(pickle.loads(pickle.dumps(opened)), odd)
    opened.save(tmp_path / "again.zarr")
    odd.save(tmp_path / "direct.zarr")
    again, direct = (ChunkedDataset(str(tmp_path / f"{name}.zarr")).open() for name in ("again", "direct"))
    assert {**compute_checksums(again)} == {**compute_checksums(direct)} | {
        ".zattrs": compute_checksums(again)[".zattrs"]
    }


def test_it_is_read_from_a_zip_file_and_from_memory(odd, out, tmp_path):
    shutil.make_archive(str(tmp_path / "out.zarr"), "zip", out)
    assert_same_records(ChunkedDataset(str(tmp_path / "out.zarr.zip")).open(), odd)
    files = {file.relative_to(out).as_posix(): file.read_bytes() for file in out.rglob("*") if file.is_file()}
    content = {name: default_buffer_prototype().buffer.from_bytes(text) for name, text in files.items()}
    assert_same_records(ChunkedDataset(MemoryStore(content)).open(), odd)


def test_nothing_tells_when_an_export_on_a_web_server_changes(out, tmp_path):
    with serve(tmp_path) as web:
        dataset = ChunkedDataset(f"{web.url}/{out.name}").open()
        assert dataset.fingerprint() is None
        with pytest.warns(RuntimeWarning, match="neither times nor checksums"):
            assert not isinstance(dataset.open(cached="mmap").agents, MappedArray)


@pytest.mark.long
def test_it_is_read_and_checked_on_a_web_server_that_lists_nothing(stored, odd, out, tmp_path):
    export_columns(stored, tmp_path / "sound.zarr")
    with serve(tmp_path) as web:
        assert_same_records(ChunkedDataset(f"{web.url}/out.zarr").open(), odd)
        assert validate_path(f"{web.url}/sound.zarr") == []
        os.remove(tmp_path / "sound.zarr/agents/yaw/c/1")
        (finding,) = validate_path(f"{web.url}/sound.zarr")
        assert "agents/yaw/c/1 is missing" in finding.message


def test_attributes_and_other_arrays_come_along(stored, small_chunks, tmp_path):
    root = zarr.open_group(LocalStore(stored.path), mode="r+", zarr_format=2)
    root.attrs.update({"recorded_by": ["a", "b"], "step_time_s": 0.2})
    root["agents"].attrs["sensor"] = "lidar"
    counts = np.arange(68, dtype=np.uint32).reshape(34, 2)
    mask = root.create_group("agents_mask", attributes={"made": 1}).create_array("0.5", data=counts, chunks=(8, 2))
    mask.attrs["extent"] = 1.1
    export_columns(ChunkedDataset(stored.path).open(), tmp_path / "out.zarr")
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert found.metadata.zarr_format == 3
    assert found.attrs["recorded_by"] == ["a", "b"]
    assert found["agents"].attrs["sensor"] == "lidar"
    assert found["agents_mask"].attrs["made"] == 1
    assert found["agents_mask/0.5"].attrs["extent"] == 1.1
    assert found["agents_mask/0.5"][:].tolist() == counts.tolist()
    assert ChunkedDataset(str(tmp_path / "out.zarr")).open().facts == LogFacts(step_time_s=0.2)


def test_attributes_tell_what_arrays_are(out):
    root = zarr.open_group(out, mode="r")
    assert root.attrs["l5kit_layout"] == {"name": "columns", "version": 1}
    assert (root.attrs["format_version"], root.attrs["labels"]) == (2, PERCEPTION_LABELS)
    assert root.attrs["traffic_light_labels"] == TL_FACE_LABELS
    centroid = root["agents/centroid"]
    assert centroid.attrs["units"] == "m"
    assert centroid.attrs["frame_of_reference"] == "world"
    assert centroid.attrs["axes"] == {"xy": ["x", "y"]}
    assert root["agents/label_probabilities"].attrs["axes"] == {"label": PERCEPTION_LABELS}
    assert "rows of agents" in root["frames/agent_index_interval"].attrs["long_name"]


def test_stored_masks_are_found_again(city, tmp_path):
    from l5kit.dataset.select_agents.stored_mask import read_stored_mask, write_mask
    from l5kit.dataset.select_agents.thresholds import MaskThresholds

    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    log.save(tmp_path / "log.zarr")
    log = ChunkedDataset(str(tmp_path / "log.zarr")).open()
    mask = np.arange(2 * len(log.agents), dtype=np.uint32).reshape(-1, 2)
    write_mask(log, MaskThresholds(0.5), mask)
    export_columns(ChunkedDataset(log.path).open(), tmp_path / "out.zarr")
    exported = ChunkedDataset(str(tmp_path / "out.zarr")).open()
    found, problem = read_stored_mask(exported, MaskThresholds(0.5))
    assert problem == ""
    assert found.tolist() == mask.tolist()
    with pytest.raises(InvalidArgumentError, match="export in columns"):
        write_mask(exported, MaskThresholds(0.25), mask)


def test_b4_logs_without_traffic_lights(made, tmp_path):
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        old = ChunkedDataset(write_three_arrays(made, tmp_path / "old.zarr")).open()
    export_columns(old, tmp_path / "out.zarr")
    assert_same_records(ChunkedDataset(str(tmp_path / "out.zarr")).open(), old)


def test_narrow_and_further_fields_keep_their_types(made, tmp_path):
    dtype = np.dtype([*[(name, *kind) for name, *kind in FRAME_DTYPE[:3]], ("ego_translation", "f4", (3,)),
                      ("ego_rotation", "f4", (3, 3)), ("note", "S3", (2,)), ("wipers", "?")])  # fmt: skip
    frames = np.zeros(len(made.frames), dtype)
    for name in FRAME_DTYPE:
        frames[name[0]] = made.frames[name[0]]
    frames["note"], frames["wipers"] = [b"ab", b"abc"], np.arange(len(frames)) % 2
    group = create_group(LocalStore(tmp_path / "old.zarr"), "w")
    for key, (attribute, _, _) in ARRAYS.items():
        records = frames if key == "frames" else getattr(made, attribute)
        create_array(group, key, len(records), dtype=records.dtype)[:] = records
    old = ChunkedDataset(str(tmp_path / "old.zarr")).open()
    export_columns(old, tmp_path / "out.zarr")
    again = ChunkedDataset(str(tmp_path / "out.zarr")).open()
    assert again.frames.dtype == dtype
    assert again.frames[:].tobytes() == frames.tobytes()
    assert read_by_tensorstore(tmp_path / "out.zarr/frames/note").read().result().shape == (48, 2, 3)


def test_views_and_empty_logs(made, tmp_path):
    joined = ChunkedDataset.concatenate([made, made])
    export_columns(joined, tmp_path / "joined.zarr")
    assert_same_records(ChunkedDataset(str(tmp_path / "joined.zarr")).open(), joined)
    export_columns(ChunkedDataset.in_memory(), tmp_path / "empty.zarr")
    empty = ChunkedDataset(str(tmp_path / "empty.zarr")).open()
    assert (len(empty.scenes), len(empty.agents)) == (0, 0)
    assert read_by_tensorstore(tmp_path / "empty.zarr/agents/centroid").shape == (0, 2)


def test_an_export_can_be_exported(odd, opened, tmp_path):
    export_columns(opened, tmp_path / "second.zarr")
    assert_same_records(ChunkedDataset(str(tmp_path / "second.zarr")).open(), odd)


def test_one_shard_of_rows_is_in_memory_at_a_time(made, small_shards, tmp_path, monkeypatch):
    sizes = []
    read = columns.rows_of
    monkeypatch.setattr(columns, "rows_of", lambda *args, **kwargs: sizes.append(args[1]) or read(*args, **kwargs))
    steps = []
    export_columns(made, tmp_path / "out.zarr", progress=lambda *step: steps.append(step))
    assert [rows for rows in sizes if rows.stop == 34] == [slice(20, 34)]
    assert max(rows.stop - rows.start for rows in sizes) == 64
    total = 4 * 10 + 5 * 48 + 6 * 34 + 3 * 76
    assert steps[-1] == (total, total)
    assert steps == sorted(steps)


def test_files_are_the_same_for_any_number_of_workers(odd, out, tmp_path):
    steps = []
    export_columns(odd, tmp_path / "many.zarr", workers=3, progress=lambda *step: steps.append(step))
    files = [file.relative_to(out) for file in out.rglob("*") if file.is_file()]
    assert len(files) > 40
    for file in files:
        assert (tmp_path / "many.zarr" / file).read_bytes() == (out / file).read_bytes(), file
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]


@pytest.mark.parametrize("sharded", [True, False])
def test_an_export_that_was_killed_goes_on_with_the_shards_that_it_has(
    odd, small_shards, tmp_path, monkeypatch, sharded
):
    def exported(name, workers):
        export_columns(odd, tmp_path / name, sharded=sharded, workers=workers)
        return {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }

    read, firsts = columns.rows_of, []

    def read_until_killed(array, rows, **how):
        firsts.append(rows.start)
        if len(firsts) == 4:
            raise KeyboardInterrupt
        return read(array, rows, **how)

    with open_job(tmp_path / "job", {}) as job, monkeypatch.context() as patch:
        patch.setattr(columns, "rows_of", read_until_killed)
        with pytest.raises(KeyboardInterrupt):
            exported("killed", KeptWorkers(1, job))
    assert not (tmp_path / "killed").exists()
    num_begun = len(firsts) - 1
    with open_job(tmp_path / "job", {}) as job, monkeypatch.context() as patch:
        patch.setattr(columns, "rows_of", lambda *args, **how: firsts.append(args[1].start) or read(*args, **how))
        whole = exported("whole", KeptWorkers(1, job))
    assert whole == exported("plain", 1)
    shards = len(list((tmp_path / "job" / "0-shard").glob("[0-9]*")))
    assert len(firsts) - 1 - num_begun == shards - num_begun > 0
    with (
        open_job(tmp_path / "job", {}) as job,
        pytest.raises(InvalidArgumentError, match=r"started with another export: .*sharded"),
    ):
        export_columns(odd, tmp_path / "other", sharded=not sharded, workers=KeptWorkers(1, job))


def test_files_are_the_same_at_any_time(stored, tmp_path, monkeypatch):
    """Including gzip output, which contains the time."""
    zarr.open_group(stored.path, mode="a", zarr_format=2).create_array("agents_mask/0.5", data=np.arange(6))
    for name, now_s in (("a", 1e9), ("b", 1.5e9)):
        monkeypatch.setattr("time.time", lambda now_s=now_s: now_s)
        export_columns(ChunkedDataset(stored.path).open(), tmp_path / name, sharded=False, digest="")
    files = {path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert Path("agents_mask/0.5/c/0") in files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a", mode="r")["agents_mask/0.5"][:], np.arange(6))


def test_the_digest_of_the_source_is_told(stored, tmp_path):
    def told_by(dataset, name, **how):
        export_columns(dataset, tmp_path / name, **how)
        return zarr.open_group(tmp_path / name, mode="r").attrs["l5kit_source"]

    wanted = dataset_digest(stored.path)
    told = told_by(stored, "a.zarr")
    assert told == {"digest": wanted, "num_scenes": len(stored.scenes), "l5kit_version": l5kit.__version__}
    assert told_by(stored, "b.zarr", digest="0123")["digest"] == "0123"
    assert told_by(stored, "c.zarr", digest="")["digest"] is None
    in_memory = ChunkedDataset.in_memory(scenes=stored.scenes[:])
    assert told_by(in_memory, "d.zarr")["digest"] is None
    again = told_by(ChunkedDataset(str(tmp_path / "a.zarr")).open(), "e.zarr")
    assert again["digest"] == dataset_digest(tmp_path / "a.zarr")


# --- places ---


def test_what_fails_leaves_nothing(made, tmp_path):
    def fail(done, total):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        export_columns(made, tmp_path / "out.zarr", progress=fail)
    assert os.listdir(tmp_path) == []


def test_what_is_there_stays_unless_it_is_told_otherwise(made, out):
    before = (out / "zarr.json").stat().st_ino
    with pytest.raises(FileExistsError, match="overwrite=True"):
        export_columns(made, out)
    assert (out / "zarr.json").stat().st_ino == before
    export_columns(ChunkedDataset.in_memory(scenes=made.scenes[:2]), out, overwrite=True)
    assert len(ChunkedDataset(str(out)).open().scenes) == 2


def test_other_folders_are_not_replaced(made, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("all of it")
    with pytest.raises(InvalidArgumentError, match="but no export, so nothing in it is replaced"):
        export_columns(made, tmp_path / "thesis", overwrite=True)
    with pytest.raises(InvalidArgumentError, match="URL"):
        export_columns(made, "memory://out.zarr")
    with pytest.raises(InvalidArgumentError, match="dataset must be an opened dataset"):
        export_columns(made.agents, tmp_path / "out.zarr")


def test_it_is_not_written_to(out, opened):
    with pytest.raises(ReadOnlyDatasetError, match="export in columns"):
        ChunkedDataset(str(out)).open("r+")
    with pytest.raises(ReadOnlyDatasetError, match="export in columns"):
        opened.agents[0] = opened.agents[1]


# --- damage ---


def test_a_sound_export_has_no_findings(stored, tmp_path):
    export_columns(stored, tmp_path / "out.zarr")
    assert validate_path(tmp_path / "out.zarr") == []


def test_a_lost_file_is_told(odd, out):
    os.remove(out / "agents" / "extent" / "c" / "1" / "0")
    log = ChunkedDataset(str(out)).open()
    assert log.agents.rows(0, 20, strict=True).tobytes() == odd.agents[:20].tobytes()
    with pytest.raises(CorruptedDataError, match=r"agents/extent/c/1/0 is missing"):
        log.agents.rows(15, 25, strict=True)
    with pytest.raises(CorruptedDataError, match=r"agents/extent/c/1/0 is missing"):
        log.agents.passing_rows(15, 25)
    (finding,) = [found for found in validate_path(out) if "missing" in found.check]
    assert "agents/extent/c/1/0" in finding.message


@pytest.mark.parametrize("place", [0.2, 0.5, 0.999])
def test_a_flipped_bit_is_told(out, place):
    """Other than in the format itself, which has no checksums."""
    file = out / "agents" / "centroid" / "c" / "0" / "0"
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 4
    file.write_bytes(content)
    with pytest.raises(CorruptedDataError, match=r"agents/centroid/c/0/0 cannot be read or decoded"):
        ChunkedDataset(str(out)).open().agents[:]
    assert any("decode" in found.check and "centroid" in found.message for found in validate_path(out))


def edited(out, name, **changes):
    file = Path(out, name)
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda out: edited(out, "zarr.json", attributes={}), DatasetFormatError, "not a dataset: datasets use zarr 2"),
        (
            lambda out: edited(out, "zarr.json", attributes={"l5kit_layout": {"name": "columns", "version": 9}}),
            DatasetFormatError,
            "has version 9 of the columns layout",
        ),
        (lambda out: (out / "zarr.json").write_text("{"), DatasetFormatError, "is damaged"),
        (lambda out: (out / "zarr.json").unlink(), DatasetNotFoundError, "no zarr group"),
        (lambda out: (out / "agents/zarr.json").unlink(), MissingArrayError, "array 'agents' is missing"),
        (lambda out: (out / "traffic_light_faces/zarr.json").unlink(), MissingArrayError, "'traffic_light_faces' is"),
        (lambda out: edited(out, "agents/zarr.json", attributes={}), DatasetFormatError, "must list name, type"),
        (lambda out: (out / "agents/yaw/zarr.json").unlink(), DatasetFormatError, "field 'yaw' is missing"),
        (lambda out: (out / "agents/yaw/zarr.json").write_text("{"), DatasetFormatError, "yaw/zarr.json cannot be"),
        (lambda out: edited(out, "agents/yaw/zarr.json", shape=[33]), DatasetFormatError, "33 rows"),
        (lambda out: edited(out, "agents/yaw/zarr.json", data_type="int32"), DatasetFormatError, "float32|Invalid"),
    ],
)  # fmt: skip
def test_damaged_metadata(out, damage, error, message):
    damage(out)
    with pytest.raises(error, match=message):
        ChunkedDataset(str(out)).open()
    assert validate_path(out)


def test_a_length_without_files_is_refused(out):
    for file in (out / "agents").glob("*/zarr.json"):
        metadata = json.loads(file.read_text())
        metadata["shape"][0] = 10**9
        file.write_text(json.dumps(metadata))
    with pytest.raises(DatasetFormatError, match="1000000000 rows"):
        ChunkedDataset(str(out)).open()
