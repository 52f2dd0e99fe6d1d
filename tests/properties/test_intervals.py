"""Interval arithmetic: after joining, splitting, chopping and copying, each frame keeps its own agents and faces."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data import ChunkedDataset, get_agents_slice_from_frames, get_tl_faces_slice_from_frames, split_scenes
from l5kit.data.views import view_of_first_frames, view_of_scenes
from l5kit.data.zarr_utils import zarr_concat, zarr_scenes_chop
from support.random_logs import assert_same_records, random_dataset

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
FILES = settings(max_examples=15, deadline=None, derandomize=True)


@st.composite
def datasets(draw, min_scenes=0):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    made = random_dataset(
        rng,
        draw(st.integers(min_scenes, 6)),
        max_frames=draw(st.sampled_from([1, 2, 9])),
        max_tracks=draw(st.integers(0, 5)),
        max_faces=draw(st.integers(0, 3)),
    )
    if len(made.scenes) and draw(st.booleans()):  # a scene may have lost all its frames
        empty = draw(st.integers(0, len(made.scenes) - 1))
        made = without_frames_of(made, empty)
    return made


def without_frames_of(dataset, scene):
    parts = [dataset.get_scene_dataset(index) for index in range(len(dataset.scenes))]
    empty = ChunkedDataset.in_memory(scenes=parts[scene].scenes, frames=parts[scene].frames[:0])
    empty.scenes["frame_index_interval"] = 0
    return materialize(ChunkedDataset.concatenate([*parts[:scene], empty, *parts[scene + 1 :]]))


def materialize(dataset):
    names = ("scenes", "frames", "agents", "tl_faces")
    return ChunkedDataset.in_memory(**{name: np.array(getattr(dataset, name)) for name in names})


def content(dataset):
    """Content of each frame of each scene, independent of all row indices."""
    scenes = []
    for scene in dataset.scenes:
        frames = [dataset.frames[row] for row in range(*scene["frame_index_interval"])]
        shown = [
            (
                int(frame["timestamp"]),
                frame["ego_translation"].tobytes(),
                np.asarray(dataset.agents[get_agents_slice_from_frames(frame)]).tobytes(),
                np.asarray(dataset.tl_faces[get_tl_faces_slice_from_frames(frame)]).tobytes(),
            )
            for frame in frames
        ]
        scenes.append((str(scene["host"]), int(scene["start_time"]), int(scene["end_time"]), shown))
    return scenes


@given(made=datasets())
@SETTINGS
def test_random_datasets_are_valid(made):
    assert made.validate() == []


@given(parts=st.lists(datasets(), min_size=1, max_size=4))
@SETTINGS
def test_concatenating_keeps_what_every_frame_shows(parts):
    joined = ChunkedDataset.concatenate(parts)
    assert content(joined) == [scene for part in parts for scene in content(part)]
    assert joined.validate() == []


@given(made=datasets(min_scenes=1))
@SETTINGS
def test_scene_datasets_joined_again_are_the_dataset(made):
    scenes = [made.get_scene_dataset(index) for index in range(len(made.scenes))]
    assert [content(scene)[0] for scene in scenes] == content(made)
    assert_same_records(ChunkedDataset.concatenate(scenes), made)


@given(made=datasets(min_scenes=1), data=st.data())
@SETTINGS
def test_views_of_scenes_keep_what_every_frame_shows(made, data):
    indices = data.draw(st.lists(st.integers(0, len(made.scenes) - 1), max_size=8))
    view = view_of_scenes(made, np.array(indices, dtype=np.int64))
    assert content(view) == [content(made)[index] for index in indices]
    assert view.validate() == []
    assert content(view_of_scenes(view, np.arange(len(indices)))) == content(view)


@given(made=datasets(), num_frames=st.integers(1, 10))
@SETTINGS
def test_first_frames_are_the_first_frames(made, num_frames):
    chopped = view_of_first_frames(made, num_frames)
    assert content(chopped) == [(*scene[:3], scene[3][:num_frames]) for scene in content(made)]
    assert chopped.validate() == []


@given(made=datasets(min_scenes=2), share=st.floats(0.3, 0.7), seed=st.integers(0, 99))
@SETTINGS
def test_splits_are_a_partition_of_the_scenes(made, share, seed):
    first, second = split_scenes(made, (share, 1 - share), seed=seed)
    together = content(first) + content(second)
    assert sorted(map(repr, together)) == sorted(map(repr, content(made)))
    assert first.validate() == second.validate() == []


@given(parts=st.lists(datasets(), max_size=3), num_frames=st.integers(1, 3))
@FILES
def test_files_hold_what_the_views_show(tmp_path_factory, parts, num_frames):
    folder = tmp_path_factory.mktemp("files")
    for index, part in enumerate(parts):
        part.save(folder / f"{index}.zarr")
    zarr_concat([str(folder / f"{index}.zarr") for index in range(len(parts))], str(folder / "joined.zarr"))
    joined = ChunkedDataset(str(folder / "joined.zarr")).open()
    expected = [scene for part in parts for scene in content(part)]
    assert content(joined) == expected
    joined.save(folder / "joined.zarr.zip")
    assert content(ChunkedDataset(str(folder / "joined.zarr.zip")).open()) == expected
    if all(len(scene[3]) >= num_frames for scene in expected):
        (folder / "short.zarr").mkdir()
        zarr_scenes_chop(str(folder / "joined.zarr"), str(folder / "short.zarr"), num_frames)
        short = ChunkedDataset(str(folder / "short.zarr")).open()
        assert content(short) == [(*scene[:3], scene[3][:num_frames]) for scene in expected]
