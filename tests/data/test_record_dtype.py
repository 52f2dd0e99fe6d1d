import base64
import json
import pickle
import tempfile
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.dtype import data_type_registry

from l5kit.data import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE, ChunkedDataset, layout
from l5kit.data.record_dtype import DataTypeValidationError, RecordDType
from support.logs import write_with_chunks
from support.random_logs import random_dataset

KEYS = ("scenes", "frames", "agents", "traffic_light_faces")
DTYPES = {"scenes": SCENE_DTYPE, "frames": FRAME_DTYPE, "agents": AGENT_DTYPE, "traffic_light_faces": TL_FACE_DTYPE}
ITEM_SIZES = {"scenes": 96, "frames": 136, "agents": 116, "traffic_light_faces": 140}
CHUNKS = {"scenes": 10_000, "frames": 10_000, "agents": 20_000, "traffic_light_faces": 10_000}
STORED_FIELDS = {
    "scenes": [["frame_index_interval", "<i8", [2]], ["host", "<U16"], ["start_time", "<i8"], ["end_time", "<i8"]],
    "frames": [
        ["timestamp", "<i8"],
        ["agent_index_interval", "<i8", [2]],
        ["traffic_light_faces_index_interval", "<i8", [2]],
        ["ego_translation", "<f8", [3]],
        ["ego_rotation", "<f8", [3, 3]],
    ],
    "agents": [
        ["centroid", "<f8", [2]],
        ["extent", "<f4", [3]],
        ["yaw", "<f4"],
        ["velocity", "<f4", [2]],
        ["track_id", "<u8"],
        ["label_probabilities", "<f4", [17]],
    ],
    "traffic_light_faces": [
        ["face_id", "<U16"],
        ["traffic_light_id", "<U16"],
        ["traffic_light_face_status", "<f4", [3]],
    ],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    dataset = random_dataset(np.random.default_rng(1), 20)
    path = tmp_path_factory.mktemp("written") / "small.zarr"
    dataset.save(path)
    return dataset, path


@pytest.mark.parametrize("key", KEYS)
def test_records_are_packed(key):
    assert np.dtype(DTYPES[key]).itemsize == ITEM_SIZES[key]


@pytest.mark.parametrize("key", KEYS)
def test_a2_zarray_is_what_zarr_2_wrote(written, key):
    dataset, path = written
    metadata = json.loads((path / key / ".zarray").read_text())
    metadata.pop("dimension_separator", None)
    assert metadata == {
        "zarr_format": 2,
        "order": "C",
        "filters": None,
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        "fill_value": base64.standard_b64encode(bytes(ITEM_SIZES[key])).decode(),
        "dtype": STORED_FIELDS[key],
        "chunks": [CHUNKS[key]],
        "shape": [len(getattr(dataset, layout.ARRAYS[key][0]))],
    }


@pytest.mark.parametrize("key", KEYS)
def test_chunks_are_blosc_of_the_records(written, key):
    dataset, path = written
    records = np.asarray(getattr(dataset, layout.ARRAYS[key][0]))
    padded = np.zeros(CHUNKS[key], dtype=records.dtype)
    padded[: len(records)] = records
    assert (path / key / "0").read_bytes() == numcodecs.Blosc("lz4", 5, 1).encode(padded)
    assert sorted(file.name for file in (path / key).iterdir() if file.name[0] != ".") == ["0"]


def test_group_files(written):
    _, path = written
    assert json.loads((path / ".zgroup").read_text()) == {"zarr_format": 2}
    attributes = json.loads((path / ".zattrs").read_text())
    assert attributes["format_version"] == 2
    assert len(attributes["labels"]) == 17
    assert sorted(file.name for file in path.iterdir()) == sorted([".zattrs", ".zgroup", *KEYS])


@pytest.mark.parametrize("key", KEYS)
def test_a_copy_of_the_real_scene_has_its_files(shared_data, tmp_path, key):
    real = shared_data / "single_scene.zarr"
    ChunkedDataset(str(real)).open().save(tmp_path / "copy.zarr")
    mine, theirs = (json.loads((place / key / ".zarray").read_text()) for place in (tmp_path / "copy.zarr", real))
    mine.pop("dimension_separator", None)
    assert mine == theirs
    for chunk in (file for file in (real / key).iterdir() if file.name[0] != "."):
        written, original = (tmp_path / "copy.zarr" / key / chunk.name).read_bytes(), chunk.read_bytes()
        assert written[:12] == original[:12]  # format versions, flags, type size, decoded size, block size
        assert numcodecs.Blosc().decode(written) == numcodecs.Blosc().decode(original)


def test_a2_plain_zarr_reads_it(written):
    dataset, path = written
    group = zarr.open_group(str(path), mode="r")
    assert group["agents"][:].tobytes() == dataset.agents.tobytes()
    assert zarr.open(str(path / "frames"), mode="r")[3]["timestamp"] == dataset.frames[3]["timestamp"]


def test_numcodecs_alone_reads_it(tmp_path):
    dataset = random_dataset(np.random.default_rng(2), 4)
    path = write_with_chunks(dataset, tmp_path / "chunks.zarr")
    chunk = numcodecs.Blosc().decode((tmp_path / "chunks.zarr" / "frames" / "1").read_bytes())
    assert np.frombuffer(chunk, dtype=FRAME_DTYPE).tobytes() == dataset.frames[5:10].tobytes()
    assert ChunkedDataset(path).open().frames[5:10].tobytes() == dataset.frames[5:10].tobytes()


@pytest.mark.parametrize("compressor", [None, numcodecs.Zstd(3), numcodecs.GZip(1), numcodecs.Blosc("zstd", 3, 2)])
def test_any_compressor_is_read(tmp_path, compressor):
    dataset = random_dataset(np.random.default_rng(3), 3)
    group = layout.create_group(zarr.storage.LocalStore(tmp_path / "other.zarr"), "w")
    for key, (attribute, dtype, _) in layout.ARRAYS.items():
        records = getattr(dataset, attribute)
        array = group.create_array(
            key,
            shape=records.shape,
            chunks=(3,),
            dtype=RecordDType.from_numpy(dtype),
            compressors=compressor,
            fill_value=0,
        )
        array[:] = records
    assert ChunkedDataset(str(tmp_path / "other.zarr")).open().agents[:].tobytes() == dataset.agents.tobytes()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=KEYS)
def test_json_round_trip(dtype):
    record_type = RecordDType.from_numpy(dtype)
    again = RecordDType.from_json(record_type.to_json(2), zarr_format=2)
    assert again == record_type == pickle.loads(pickle.dumps(record_type))
    assert again.to_native_dtype() == np.dtype(dtype)
    assert again.item_size == np.dtype(dtype).itemsize


def test_scalars_round_trip():
    record_type = RecordDType.from_numpy(FRAME_DTYPE)
    frame = np.zeros(1, dtype=FRAME_DTYPE)[0]
    frame["ego_rotation"] = np.eye(3)
    text = record_type.to_json_scalar(frame, zarr_format=2)
    assert record_type.from_json_scalar(text, zarr_format=2) == frame
    assert record_type.from_json_scalar(None, zarr_format=2).tobytes() == bytes(136)
    with pytest.raises(TypeError, match=r"1\.5"):
        record_type.cast_scalar(1.5)
    with pytest.raises(TypeError, match="base64"):
        record_type.from_json_scalar([1], zarr_format=2)


def test_only_sub_array_records_are_ours():
    assert data_type_registry.get("l5kit_record") is RecordDType
    assert RecordDType.from_native_dtype(np.dtype(AGENT_DTYPE)).to_native_dtype() == np.dtype(AGENT_DTYPE)
    for other in (np.dtype("<f4"), np.dtype([("x", "<f4"), ("y", "<i8")])):
        with pytest.raises(DataTypeValidationError):
            RecordDType.from_native_dtype(other)
    with pytest.raises(DataTypeValidationError):
        RecordDType.from_json({"name": [["x", "<f4"]], "object_codec_id": None}, zarr_format=2)
    with pytest.raises(DataTypeValidationError, match="fields of"):
        RecordDType.from_json({"name": [["x", "nonsense", [2]]], "object_codec_id": None}, zarr_format=2)
    with pytest.raises(ValueError, match="zarr_format must be 2"):
        RecordDType.from_numpy(AGENT_DTYPE).to_json(3)


FIELDS = st.sampled_from([("u1", (3,)), ("?", ()), ("<f8", (2, 2)), ("<U4", (2,)), ("<i8", ()), ("<f4", (17,))])
WAYS_TO_STORE = [
    lambda path, rows: zarr.open(path, mode="w", shape=rows.shape, dtype=rows.dtype, chunks=(2,), zarr_format=2),
    lambda path, rows: zarr.create_array(path, shape=rows.shape, dtype=rows.dtype, chunks=(2,), zarr_format=2),
    lambda path, rows: zarr.create_array(path, data=rows, zarr_format=2),
    lambda path, rows: zarr.save(path, rows, zarr_format=2),
    lambda path, rows: zarr.open_group(path.parent, mode="w", zarr_format=2).create_array(path.name, data=rows),
    lambda path, rows: zarr.zeros(rows.shape, dtype=rows.dtype, store=path, zarr_format=2),
]


@settings(max_examples=20, deadline=None)
@given(fields=st.lists(FIELDS, min_size=1, max_size=4), store=st.sampled_from(WAYS_TO_STORE), seed=st.integers(0, 99))
def test_plain_zarr_stores_records_of_any_fields(fields, store, seed):
    dtype = np.dtype([(f"field{number}", *field) for number, field in enumerate(fields)])
    rows = np.random.default_rng(seed).integers(0, 2, (3, dtype.itemsize), np.uint8).view(dtype)[:, 0]
    with tempfile.TemporaryDirectory() as folder:
        array = store(Path(folder) / "rows.zarr", rows)
        array = zarr.open_array(Path(folder) / "rows.zarr", mode="r+", zarr_format=2) if array is None else array
        array[:] = rows
        again = zarr.open_array(Path(folder) / "rows.zarr", mode="r", zarr_format=2)[:]
    assert again.dtype == dtype
    assert again.tobytes() == rows.tobytes()


def test_zarr_3_refuses_sub_arrays_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="pass zarr_format=2"):
        zarr.open(tmp_path / "rows.zarr", mode="w", shape=(3,), dtype=np.dtype(AGENT_DTYPE), zarr_format=3)
