"""Defect B4: datasets of the older layout, without traffic lights, work everywhere."""

import numpy as np
import pytest

from l5kit.data import (
    FRAME_DTYPE,
    TL_FACE_DTYPE,
    ChunkedDataset,
    filter_tl_faces_by_frames,
    get_tl_faces_slice_from_frames,
    split_scenes,
    validate_path,
    zarr_concat,
)
from l5kit.data.zarr_utils import zarr_scenes_chop, zarr_split
from l5kit.errors import InvalidArgumentError
from support.random_logs import assert_same_records, random_dataset, without_traffic_lights, write_three_arrays

WARNING = "without traffic lights"


@pytest.fixture(scope="module")
def made():
    return random_dataset(np.random.default_rng(31), 6, max_faces=0)


@pytest.fixture
def path(made, tmp_path):
    return write_three_arrays(made, tmp_path / "old.zarr")


@pytest.fixture
def opened(path):
    with pytest.warns(RuntimeWarning, match=WARNING):
        return ChunkedDataset(path).open()


def test_b4_opens_with_a_warning_and_empty_face_intervals(made, opened):
    assert opened.frames.dtype == np.dtype(FRAME_DTYPE)
    assert (len(opened.tl_faces), opened.tl_faces.dtype) == (0, np.dtype(TL_FACE_DTYPE))
    assert not opened.frames["traffic_light_faces_index_interval"].any()
    assert opened.frames[-1]["ego_rotation"].tolist() == made.frames[-1]["ego_rotation"].tolist()
    assert_same_records(opened, made)


def test_b4_the_warning_names_the_line_that_opens(path):
    with pytest.warns(RuntimeWarning, match=WARNING) as warned:
        ChunkedDataset(path).open()
    assert {warning.filename for warning in warned} == {__file__}


def test_b4_faces_of_frames_are_none(opened):
    assert get_tl_faces_slice_from_frames(opened.frames[0], opened.frames[3]) == slice(0, 0)
    assert [len(faces) for faces in filter_tl_faces_by_frames(opened.frames[:3], opened.tl_faces)] == [0, 0, 0]


def test_b4_summary_and_scenes(made, opened):
    assert str(opened) == str(made)
    for index in range(-6, 6):
        assert_same_records(opened.get_scene_dataset(index), made.get_scene_dataset(index))


def test_b4_faces_beside_frames_that_cannot_name_them_are_refused():
    made = random_dataset(np.random.default_rng(31), 2)
    scenes, frames, agents = without_traffic_lights(made)
    assert len(made.tl_faces)
    with pytest.raises(InvalidArgumentError, match=r"frames lacks the field 'traffic_light_faces_index_interval'"):
        ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=made.tl_faces)
    assert len(ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents).tl_faces) == 0


def test_b4_views(made, opened):
    joined = ChunkedDataset.concatenate([opened, made, opened])
    assert_same_records(joined.get_scene_dataset(-1), made.get_scene_dataset(5))
    for part in split_scenes(opened, (0.5, 0.5)):
        assert part.validate() == []
        assert len(part.get_scene_dataset(0).tl_faces) == 0


def test_b4_save_writes_four_arrays(made, opened, tmp_path, recwarn):
    opened.save(tmp_path / "new.zarr")
    again = ChunkedDataset(str(tmp_path / "new.zarr")).open()
    assert_same_records(again, made)
    assert [str(warning.message) for warning in recwarn] == []


def test_b4_concat_split_and_chop(made, path, tmp_path):
    infos = [{"name": "a.zarr", "split_size_GB": 1e-9}, {"name": "b.zarr", "split_size_GB": -1}]
    with pytest.warns(RuntimeWarning, match=WARNING):
        zarr_concat([path, path], str(tmp_path / "joined.zarr"))
    with pytest.warns(RuntimeWarning, match=WARNING):
        zarr_scenes_chop(path, str(tmp_path / "short.zarr"), 1)
    with pytest.warns(RuntimeWarning, match=WARNING), pytest.raises(AssertionError):
        zarr_split(path, str(tmp_path), infos)
    infos[0]["split_size_GB"] = sum(
        file.stat().st_size for file in (tmp_path / "old.zarr").rglob("*") if file.is_file()
    )
    infos[0]["split_size_GB"] /= 2 * 1024**3
    with pytest.warns(RuntimeWarning, match=WARNING):
        assert zarr_split(path, str(tmp_path), infos) == [(0, 3), (3, 6)]
    for name, index in (("joined.zarr", 3), ("b.zarr", 0)):
        scene = ChunkedDataset(str(tmp_path / name)).open().get_scene_dataset(index)
        assert_same_records(scene, made.get_scene_dataset(3))


def test_b4_validation_says_so_and_finds_nothing_else(path, opened):
    for findings in (opened.validate(), validate_path(path)):
        assert [(finding.severity, finding.check) for finding in findings] == [("warning", "format")]
        assert "traffic" in findings[0].message


def test_b4_arrays_in_memory_may_lack_the_interval_too(made):
    scenes, frames, agents = without_traffic_lights(made)
    dataset = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents)
    scene = dataset.get_scene_dataset(2)
    assert scene.agents.tobytes() == made.get_scene_dataset(2).agents.tobytes()
    assert dataset.validate() == []
    assert split_scenes(dataset, (1.0,))[0].get_scene_dataset(2).agents.tobytes() == scene.agents.tobytes()


def test_very_old_record_types_open_and_keep_their_types(made, tmp_path):
    scenes, frames, agents = without_traffic_lights(made)
    narrow = {"ego_translation": "<f4", "ego_rotation": "<f4", "centroid": "<f4", "track_id": "<i4"}

    def narrowed(records):
        return records.astype(
            [
                (name, narrow.get(name, records.dtype[name].base), records.dtype[name].shape)
                for name in records.dtype.names
            ]
        )

    old = ChunkedDataset.in_memory(scenes=scenes, frames=narrowed(frames), agents=narrowed(agents))
    path = write_three_arrays(old, tmp_path / "oldest.zarr")
    with pytest.warns(RuntimeWarning, match=WARNING):
        opened = ChunkedDataset(path).open()
    assert opened.agents.dtype["track_id"] == np.int32
    assert opened.frames.dtype["ego_rotation"].base == np.float32
    assert opened.agents["track_id"].tolist() == made.agents["track_id"].tolist()
    assert [finding.check for finding in opened.validate()] == ["format"]
    assert len(opened.get_scene_dataset(1).frames) == len(made.get_scene_dataset(1).frames)
