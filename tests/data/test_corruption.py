"""Damaged files: an error that names the file and says what to do, and everything else stays readable."""

import json
import shutil
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import pytest

from l5kit.data import ChunkedDataset, validate_path
from l5kit.errors import CorruptedDataError, DatasetFormatError, DatasetNotFoundError, MissingArrayError
from support.logs import write_with_chunks
from support.random_logs import assert_same_records, random_dataset

CHUNK_LENGTHS = {"scenes": 2, "frames": 5, "agents": 6, "traffic_light_faces": 6}
CODEC = numcodecs.Blosc("lz4", 5, 1)


@pytest.fixture
def made():
    return random_dataset(np.random.default_rng(41), 8)


@pytest.fixture
def folder(made, tmp_path):
    write_with_chunks(made, tmp_path / "a.zarr", chunk_lengths=CHUNK_LENGTHS)
    return tmp_path / "a.zarr"


def rows_used(dataset, scene, name):
    """First and end row of what a scene uses of an array."""
    start, stop = dataset.scenes["frame_index_interval"][scene]
    frames = dataset.frames[start:stop]["agent_index_interval"]
    return {"scenes": (scene, scene + 1), "frames": (start, stop), "agents": (frames[0, 0], frames[-1, 1])}[name]


def edit_metadata(folder, key, **changes):
    file = folder / key / ".zarray"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "garbage": lambda content: b"\x00" * 300,
    "too few rows": lambda content: CODEC.encode(bytes(CODEC.decode(content))[: 2 * 116]),
    "half a row": lambda content: CODEC.encode(bytes(CODEC.decode(content))[:-50]),
    "too many rows": lambda content: CODEC.encode(bytes(CODEC.decode(content)) * 2),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
def test_a_chunk_that_does_not_decode_is_named_and_other_scenes_stay_readable(made, folder, damage, cached):
    chunk = folder / "agents" / "1"
    chunk.write_bytes(damage(chunk.read_bytes()))
    opened = ChunkedDataset(str(folder)).open(cached=cached)
    num_failed = 0
    for index in range(len(made.scenes)):
        start, stop = rows_used(made, index, "agents")
        if start < stop and start < 12 and stop > 6:
            num_failed += 1
            with pytest.raises(CorruptedDataError, match=r"a\.zarr/agents/1 cannot be .*restore it"):
                opened.get_scene_dataset(index)
        else:
            assert_same_records(opened.get_scene_dataset(index), made.get_scene_dataset(index))
    assert 0 < num_failed < len(made.scenes)
    assert opened.frames[:].tobytes() == made.frames.tobytes()
    for read in (
        lambda: opened.agents[7],
        lambda: opened.agents[:],
        lambda: opened.agents["yaw"],
        lambda: list(opened.agents),
    ):
        for builtin in (OSError, ValueError):
            with pytest.raises(builtin, match="agents/1"):
                read()


@pytest.mark.parametrize("name", ["scenes", "frames", "agents", "traffic_light_faces"])
def test_a_missing_chunk_reads_as_zeros_and_strict_reads_name_it(made, folder, name):
    (folder / name / "1").unlink()
    array = getattr(ChunkedDataset(str(folder)).open(), name.replace("traffic_light_faces", "tl_faces"))
    first, end = CHUNK_LENGTHS[name], 2 * CHUNK_LENGTHS[name]
    assert array[first:end].tobytes() == bytes((end - first) * array.dtype.itemsize)
    with pytest.raises(CorruptedDataError, match=rf"{name}/1 is missing.*restore it"):
        array.rows(first, first + 1, strict=True)
    assert len(array.rows(0, first, strict=True)) == first
    with pytest.raises(CorruptedDataError, match="missing"):
        array.rows(first - 1, first + 1, strict=True)


@pytest.mark.parametrize("cached", [True, False, "mmap"])
@pytest.mark.parametrize("form", ["folder", "folder with a file", "zip"])
@pytest.mark.parametrize("name", ["scenes", "frames", "agents", "traffic_light_faces"])
def test_a_folder_in_the_place_of_a_chunk_is_an_error_that_names_it(folder, tmp_path, name, form, cached):
    (folder / name / "1").unlink()
    (folder / name / "1").mkdir()
    if form != "folder":
        (folder / name / "1" / "x").write_bytes(b"x")
    if form == "zip":
        folder = Path(shutil.make_archive(str(folder), "zip", folder))
    dataset = ChunkedDataset(str(folder))
    options = {"cache_folder": tmp_path / "cache"} if cached == "mmap" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that decoded files are missing
        dataset.open(cached=cached, **options)
    array = getattr(dataset, name.replace("traffic_light_faces", "tl_faces"))
    with pytest.raises(CorruptedDataError, match=rf"{name}/1 is a folder"):
        array.rows(CHUNK_LENGTHS[name], CHUNK_LENGTHS[name] + 1)
    findings = [finding for finding in validate_path(folder) if "is a folder" in finding.message]
    assert findings


@pytest.mark.parametrize("name", ["scenes", "frames", "agents"])
def test_scenes_with_a_missing_chunk_are_errors_and_saving_refuses_it(made, folder, tmp_path, name):
    (folder / name / "1").unlink()
    opened = ChunkedDataset(str(folder)).open()
    first, end = CHUNK_LENGTHS[name], 2 * CHUNK_LENGTHS[name]
    used = [rows_used(made, index, name) for index in range(len(made.scenes))]
    touched = [start < end and stop > first and start < stop for start, stop in used]
    assert set(touched) == {True, False}
    for index, is_touched in enumerate(touched):
        if is_touched:
            with pytest.raises(CorruptedDataError, match=f"{name}/1 is missing"):
                opened.get_scene_dataset(index)
        else:
            assert_same_records(opened.get_scene_dataset(index), made.get_scene_dataset(index))
    with pytest.raises(CorruptedDataError, match=f"{name}/1"):
        opened.save(tmp_path / "copy.zarr")
    assert not (tmp_path / "copy.zarr").exists()


def test_missing_faces_read_as_zeros_also_in_scenes_and_copies(folder, tmp_path):
    (folder / "traffic_light_faces" / "0").unlink()
    opened = ChunkedDataset(str(folder)).open()
    faces = opened.get_scene_dataset(0).tl_faces["traffic_light_face_status"]
    assert not faces[:6].any()
    assert faces[6:].any()
    opened.save(tmp_path / "copy.zarr")


def test_a_chunk_of_zeros_that_is_there_is_not_missing(tmp_path):
    zeros = ChunkedDataset.in_memory(agents=np.zeros(5, dtype=random_dataset(np.random.default_rng(0)).agents.dtype))
    opened = ChunkedDataset(write_with_chunks(zeros, tmp_path / "zeros.zarr")).open()
    assert not opened.agents.rows(0, 5, strict=True)["track_id"].any()


def test_a_length_that_is_too_short_is_an_error_when_its_rows_are_used(made, folder):
    edit_metadata(folder, "agents", shape=[8])
    opened = ChunkedDataset(str(folder)).open()
    assert_same_records(opened.get_scene_dataset(0), made.get_scene_dataset(0))
    with pytest.raises(CorruptedDataError, match=r"scene 7, frame 0 of it: .* does not lie within the 8 agent rows"):
        opened.get_scene_dataset(-1)


def test_a_length_that_is_too_long_is_found_where_its_rows_are_used(made, folder):
    num_chunks = -(-len(made.agents) // CHUNK_LENGTHS["agents"])
    edit_metadata(folder, "agents", shape=[(num_chunks + 3) * CHUNK_LENGTHS["agents"]])
    opened = ChunkedDataset(str(folder)).open()
    for index in range(len(made.scenes)):
        assert_same_records(opened.get_scene_dataset(index), made.get_scene_dataset(index))
    row = num_chunks * CHUNK_LENGTHS["agents"]
    with pytest.raises(CorruptedDataError, match="is missing"):
        opened.agents.rows(row, row + 1, strict=True)


@pytest.mark.parametrize("name", ["scenes", "frames", "agents", "traffic_light_faces"])
@pytest.mark.parametrize("length", [10**4, 10**7, 10**9, 10**12, 2**62, 2**63, 2**70])
def test_a_length_that_the_files_cannot_hold_is_refused_at_once(folder, name, length):
    edit_metadata(folder, name, shape=[length])
    for cached in (True, False, "mmap"):
        with pytest.raises(DatasetFormatError, match=rf"{name}/.zarray says that there are {length} rows"):
            ChunkedDataset(str(folder)).open(cached=cached, progress=False)
    assert next(finding.check for finding in validate_path(folder) if finding.severity == "error") == "open"


def test_a_new_dataset_opens_to_be_filled_and_not_to_be_read(tmp_path):
    ChunkedDataset(str(tmp_path / "new.zarr")).initialize(num_frames=10_000 * 17)
    assert len(ChunkedDataset(str(tmp_path / "new.zarr")).open("r+").frames) == 170_000
    with pytest.raises(DatasetFormatError, match=r"opens with mode='r\+'"):
        ChunkedDataset(str(tmp_path / "new.zarr")).open()
    ChunkedDataset(str(tmp_path / "small.zarr")).initialize(num_frames=10_000 * 16)
    assert len(ChunkedDataset(str(tmp_path / "small.zarr")).open().frames) == 160_000


def test_a_chunk_larger_than_the_format_can_hold_is_refused(folder):
    edit_metadata(folder, "agents", shape=[10**13], chunks=[10**12])
    with pytest.raises(DatasetFormatError, match="more than the 2147483648 bytes that the format can hold"):
        ChunkedDataset(str(folder)).open()


def test_intervals_that_leave_the_arrays_are_errors(made):
    made.frames["agent_index_interval"][-1] = [-3, 4]
    with pytest.raises(CorruptedDataError, match=r"\[-3, 4\] of frame 45 does not lie within the 31 agent rows"):
        made.get_scene_dataset(-1)
    made.scenes["frame_index_interval"][0] = [4, 2]
    with pytest.raises(CorruptedDataError, match=r"\[4, 2\] of scene 0 ends before it starts"):
        made.get_scene_dataset(0)


BAD_METADATA = {
    "no JSON": b'{"chunks": [',
    "no text": b"\xff\xfe\x00",
    "empty": b"",
    "a list": b"[]",
    "no shape": {"shape": None},
    "a negative shape": {"shape": [-5]},
    "two axes": {"shape": [30, 1], "chunks": [6, 1]},
    "an unknown compressor": {"compressor": {"id": "nonsense"}},
    "an unknown type": {"dtype": "nonsense"},
    "another type": {"dtype": "<f4"},
    "plain records": {"dtype": [["centroid", "<f8"], ["yaw", "<f4"]]},
    "a missing field": {"dtype": [["centroid", "<f8", [2]], ["yaw", "<f4"]]},
    "a field of another shape": {
        "dtype": [
            ["centroid", "<f8", [2]],
            ["extent", "<f4", [2]],
            ["yaw", "<f4"],
            ["velocity", "<f4", [2]],
            ["track_id", "<u8"],
            ["label_probabilities", "<f4", [17]],
        ]
    },
}


@pytest.mark.parametrize("content", BAD_METADATA.values(), ids=BAD_METADATA.keys())
def test_damaged_metadata_of_an_array_is_an_error_at_open(folder, content):
    file = folder / "agents" / ".zarray"
    if isinstance(content, dict):
        edit_metadata(folder, "agents", **{"fill_value": None, **content})
    else:
        file.write_bytes(content)
    with pytest.raises(DatasetFormatError, match=r"a\.zarr/agents/\.zarray") as error:
        ChunkedDataset(str(folder)).open()
    assert isinstance(error.value, ValueError)
    assert "restore" in str(error.value) or "damaged" in str(error.value)


@pytest.mark.parametrize(
    ("file", "content"), [(".zgroup", b"{"), (".zgroup", b"[]"), (".zattrs", b"[1]"), (".zattrs", b"{")]
)
def test_damaged_metadata_of_the_group_is_an_error_at_open(folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(DatasetFormatError, match=r"\.zgroup or \.zattrs is damaged"):
        ChunkedDataset(str(folder)).open()


def test_missing_metadata(folder):
    (folder / "frames" / ".zarray").unlink()
    with pytest.raises(MissingArrayError, match=r"'frames' is missing.*frames/\.zarray"):
        ChunkedDataset(str(folder)).open()
    (folder / ".zgroup").unlink()
    with pytest.raises(DatasetNotFoundError, match=r"\.zgroup"):
        ChunkedDataset(str(folder)).open()


def test_a_zip_file_that_is_none(tmp_path):
    (tmp_path / "a.zarr.zip").write_bytes(b"no zip")
    with pytest.raises(DatasetNotFoundError, match="not a readable zip"):
        ChunkedDataset(str(tmp_path / "a.zarr.zip")).open()


def test_a_file_that_is_restored_is_read_again(made, folder):
    chunk = folder / "agents" / "1"
    content = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    opened = ChunkedDataset(str(folder)).open()
    with pytest.raises(CorruptedDataError):
        opened.agents[7]
    chunk.write_bytes(content)
    assert opened.agents[7] == made.agents[7]


def test_chunks_without_rows_are_refused_by_name_or_mended(tmp_path: Path) -> None:
    """zarr up to 3.1 takes such metadata as it is, zarr 3.4 reads it as one chunk of all rows."""
    folder = tmp_path / "log.zarr"
    ChunkedDataset(folder).initialize(num_frames=3)
    metadata = folder / "frames" / ".zarray"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"chunks": [0]}))
    if _is_refused(folder, naming=metadata):
        return
    frames = ChunkedDataset(folder).open().frames
    assert frames.chunks[0] > 0
    assert len(frames[:]) == 3


def _is_refused(folder: Path, *, naming: Path) -> bool:
    try:
        ChunkedDataset(folder).open()
    except DatasetFormatError as error:
        return str(naming) in str(error)
    return False
