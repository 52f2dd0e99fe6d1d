"""Record types on disk that differ from the format, and their conversion."""

import json
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, layout, validate_path
from l5kit.dataset import EgoDataset
from l5kit.errors import DatasetFormatError, InvalidArgumentError
from support.logs import write_with_chunks
from support.random_logs import random_dataset
from support.samples import make_cfg

FACES_OF_FRAMES = "traffic_light_faces_index_interval"
OPENERS = {"cached": {}, "uncached": {"cached": False}, "mmap": {"cached": "mmap", "progress": False}}


@pytest.fixture
def made():
    return random_dataset(np.random.default_rng(7), 3, min_frames=3)


@pytest.mark.parametrize("options", OPENERS.values(), ids=OPENERS.keys())
@pytest.mark.parametrize("key", layout.ARRAYS)
def test_big_endian_records_are_refused(made, tmp_path, options, key):
    """All machines write the format in little endian: the metadata is wrong, and would turn all values."""
    path = Path(write_with_chunks(made, tmp_path / "big.zarr"))
    file = path / key / ".zarray"
    file.write_text(file.read_text().replace('"<', '">'))
    with pytest.raises(DatasetFormatError, match=rf"{key}/\.zarray must have little-endian fields"):
        ChunkedDataset(str(path)).open(**options)
    assert next(finding.check for finding in validate_path(path)) == "open"


@pytest.mark.parametrize("field", ["centroid", "track_id", "timestamp", "ego_translation", "agent_index_interval"])
def test_one_big_endian_field_is_refused(made, tmp_path, field):
    def change(name, dtype):
        return dtype.newbyteorder(">") if name == field else dtype

    path = write_with_chunks(made, tmp_path / "big.zarr", type_of=change)
    with pytest.raises(DatasetFormatError, match=f"as field '{field}'"):
        ChunkedDataset(path).open()


def test_records_in_memory_are_of_the_byte_order_of_this_machine(made):
    made.agents = made.agents.astype(made.agents.dtype.newbyteorder(">"))
    with pytest.raises(InvalidArgumentError, match="agents in the byte order of another machine"):
        EgoDataset(make_cfg(), made, None)


def test_types_of_the_first_sets_stay_as_they_are(made, tmp_path):
    narrow = {"ego_translation": np.float32, "ego_rotation": np.float32, "centroid": np.float32, "track_id": np.int32}
    opened = ChunkedDataset(
        write_with_chunks(made, tmp_path / "a.zarr", type_of=lambda name, dtype: narrow.get(name, dtype))
    ).open()
    for name, dtype in narrow.items():
        array = opened.frames if name.startswith("ego") else opened.agents
        assert array.dtype[name].base == dtype


@pytest.mark.parametrize(
    ("field", "stored"),
    [("yaw", np.float16), ("extent", np.float16), ("track_id", np.uint16), ("track_id", np.int8)],
    ids=str,
)
def test_widths_that_no_kernel_knows_are_converted(made, tmp_path, field, stored):
    path = write_with_chunks(made, tmp_path / "a.zarr", type_of=lambda name, dtype: stored if name == field else dtype)
    opened = ChunkedDataset(path).open()
    assert opened.agents.dtype[field] == made.agents.dtype[field]
    np.testing.assert_allclose(opened.agents[field], made.agents[field], rtol=1e-3)


@pytest.mark.parametrize("stored", ["<c16", "|b1", "<M8[ns]", "|V8", "<U2"])
def test_other_kinds_of_types_are_refused(made, tmp_path, stored):
    path = write_with_chunks(made, tmp_path / "a.zarr")
    file = tmp_path / "a.zarr" / "agents" / ".zarray"
    metadata = json.loads(file.read_text())
    metadata["dtype"] = [[name, stored if name == "yaw" else kind, *shape] for name, kind, *shape in metadata["dtype"]]
    metadata["fill_value"] = None
    file.write_text(json.dumps(metadata))
    with pytest.raises(DatasetFormatError, match=r"agents/\.zarray"):
        ChunkedDataset(path).open()


@pytest.mark.parametrize(
    ("key", "field", "stored", "hint"),
    [
        ("frames", FACES_OF_FRAMES, f"{FACES_OF_FRAMES}_", f" \\(it has '{FACES_OF_FRAMES}_', much like it\\)"),
        ("frames", FACES_OF_FRAMES, "else", ""),
        ("agents", "velocity", "Velocities", " \\(it has 'Velocities', much like it\\)"),
    ],
)
def test_a_field_by_another_name_is_refused_and_told(made, tmp_path, key, field, stored, hint):
    """Faces that no frame can name would be lost in silence; a dataset without them can do without the field."""
    path = Path(write_with_chunks(made, tmp_path / "log.zarr"))
    file = path / key / ".zarray"
    file.write_text(file.read_text().replace(f'"{field}"', f'"{stored}"'))
    with pytest.raises(DatasetFormatError, match=rf"{key}/\.zarray lacks the field '{field}'{hint}, got"):
        ChunkedDataset(str(path)).open()
    assert any(finding.severity == "error" and field in finding.message for finding in validate_path(path))
