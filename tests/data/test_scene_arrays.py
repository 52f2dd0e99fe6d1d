"""Scenes as records and as plain arrays: nothing is lost on the way, and what does not fit is refused."""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.scene_arrays import FaceRows, SceneArrays, read_scene_arrays
from l5kit.data.scene_records import SceneRecords, join_scenes
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.random_logs import assert_same_records, random_dataset, without_traffic_lights, write_three_arrays


@pytest.fixture(params=range(4))
def log(request):
    return random_dataset(np.random.default_rng(request.param), 5)


def records_of(log):
    return [SceneRecords.read(log, index) for index in range(len(log.scenes))]


def test_scenes_of_a_log_joined_again_are_the_log(log):
    assert_same_records(join_scenes(records_of(log)).as_dataset(), log)


def test_rows_of_tracks_are_those_of_each_in_the_order_of_time(log):
    agents = [SceneArrays.of_records(scene).agents for scene in records_of(log)]
    for each in agents:
        ids, counts = np.unique(each.track_ids, return_counts=True)
        found = each.rows_of_tracks()
        assert [each.track_ids[rows].tolist() for rows in found] == [[i] * n for i, n in zip(ids, counts, strict=True)]
        assert all((np.diff(rows) > 0).all() for rows in found)
    assert any(len(rows) > 1 for each in agents for rows in each.rows_of_tracks())
    nobody = SceneRecords(log.frames[:0], log.agents[:0], log.tl_faces[:0])
    assert SceneArrays.of_records(nobody).agents.rows_of_tracks() == []


def test_joined_scenes_count_on_where_the_log_ends(log):
    first, second = join_scenes(records_of(log)[:2]), records_of(log)[2:]
    starts = len(first.frames), len(first.agents), len(first.tl_faces)
    rest = join_scenes(second, starts)
    parts = {name: np.concatenate([getattr(first, name), getattr(rest, name)]) for name in vars(first)}
    assert_same_records(ChunkedDataset.in_memory(**parts), log)


def test_plain_arrays_hold_all_of_a_scene(log):
    for index in range(len(log.scenes)):
        scene, arrays = log.get_scene_dataset(index), read_scene_arrays(log, index)
        again = arrays.to_records()
        assert_same_records(join_scenes([again]).as_dataset(), scene)
        assert arrays.host == again.host == scene.scenes[0]["host"]
        for rows, field in ((arrays.agents, "agent_index"), (arrays.tl_faces, "traffic_light_faces_index")):
            assert rows.starts[1:].tolist() == scene.frames[f"{field}_interval"][:, 1].tolist()


def test_plain_arrays_hold_no_memory_of_the_records(log):
    scene = records_of(log)[0]
    arrays = SceneArrays.of_records(scene)
    for holder, records in ((arrays, scene.frames), (arrays.agents, scene.agents), (arrays.tl_faces, scene.tl_faces)):
        columns = [column for column in vars(holder).values() if isinstance(column, np.ndarray)]
        assert len(columns) >= 3
        assert not any(np.shares_memory(column, records) for column in columns)


def test_a_log_in_an_older_layout_has_scenes_without_lights(log, tmp_path):
    path = write_three_arrays(log, tmp_path / "old.zarr")
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        opened = ChunkedDataset(path).open()
    scenes = records_of(opened)
    assert not any(len(scene.tl_faces) for scene in scenes)
    _, frames, agents = without_traffic_lights(log)
    joined = join_scenes(scenes)
    assert joined.agents.tobytes() == agents.tobytes()
    assert joined.frames["ego_rotation"].tobytes() == frames["ego_rotation"].tobytes()


def test_faces_that_frames_name_and_nobody_has_are_left_out(log):
    bare = ChunkedDataset.in_memory(scenes=log.scenes, frames=log.frames, agents=log.agents)
    index = int(np.argmax([len(scene.tl_faces) for scene in records_of(log)]))
    with pytest.warns(RuntimeWarning, match="no traffic light faces"):
        scene = SceneRecords.read(bare, index)
    assert not scene.frames["traffic_light_faces_index_interval"].any()
    assert log.frames["traffic_light_faces_index_interval"].any()


def test_cut_frames_are_a_scene_of_their_own(log):
    for scene in records_of(log):
        for start, stop in ((0, len(scene.frames)), (len(scene.frames) - 1, len(scene.frames))):
            part = scene.cut(start, stop)
            first, end = scene.frames["agent_index_interval"][[start, stop - 1], [0, 1]]
            assert part.agents.tobytes() == scene.agents[first:end].tobytes()
            assert part.times_ns == tuple(scene.frames["timestamp"][[start, stop - 1]].tolist())
        for start, stop in ((-1, 1), (1, 1), (0, len(scene.frames) + 1)):
            with pytest.raises(InvalidArgumentError, match=f"got {start} and {stop}"):
                scene.cut(start, stop)


@pytest.mark.parametrize("field", ["agent_index_interval", "traffic_light_faces_index_interval"])
@pytest.mark.parametrize(("frame", "column"), [(0, 0), (0, 1), (1, 0), (2, 1)])
def test_intervals_that_do_not_name_each_row_once_are_refused(field, frame, column):
    scene = SceneRecords.read(random_dataset(np.random.default_rng(0), 1, min_frames=3, max_frames=3), 0)
    frames = scene.frames.copy()
    frames[field][frame, column] += 1
    with pytest.raises(InvalidArgumentError, match=field):
        replace(scene, frames=frames)


def test_records_of_another_type_are_refused(log):
    scene = SceneRecords.read(log, 0)
    with pytest.raises(InvalidArgumentError, match="tl_faces must be records of TL_FACE_DTYPE"):
        replace(scene, tl_faces=scene.agents)
    with pytest.raises(
        InvalidArgumentError, match=r"agents must be records of AGENT_DTYPE along one axis, got .*\(1, "
    ):
        replace(scene, agents=scene.agents[None])


def test_arrays_of_other_lengths_are_refused(log):
    arrays = read_scene_arrays(log, 0)
    with pytest.raises(CorruptedDataError, match="ego_rotations"):
        replace(arrays, ego_rotations=arrays.ego_rotations[1:])
    with pytest.raises(CorruptedDataError, match="starts of FaceRows must have"):
        replace(arrays, tl_faces=FaceRows.none(arrays.num_frames + 1))


def test_a_scene_may_have_no_frames():
    empty = SceneArrays.of_records(SceneRecords(*(np.zeros(0, dtype) for dtype in dtypes_of_a_scene())))
    assert (empty.num_frames, len(empty.ego_speeds_mps), len(empty.times_s)) == (0, 0, 0)
    assert empty.to_records().times_ns == (0, 0)


def dtypes_of_a_scene():
    log = ChunkedDataset("")
    return log.frames.dtype, log.agents.dtype, log.tl_faces.dtype


@pytest.mark.parametrize("host", [None, 12, "h" * 17, "half \ud800"], ids=["none", "number", "long", "half"])
def test_hosts_that_a_record_cannot_hold_are_refused(log, host):
    with pytest.raises(InvalidArgumentError, match="host must be text of at most 16 characters"):
        replace(SceneRecords.read(log, 0), host=host)
    with pytest.raises(InvalidArgumentError, match="host must be text of at most 16 characters"):
        replace(read_scene_arrays(log, 0), host=host).to_records()
    assert replace(SceneRecords.read(log, 0), host="ü" * 16).host == "ü" * 16


@pytest.mark.parametrize("span_ns", [5, (1,), (0, 2**63), (0.5, 1), (0, np.nan), ("0", "1")], ids=str)
def test_times_that_a_record_cannot_hold_are_refused(log, span_ns):
    with pytest.raises(InvalidArgumentError, match="time_span_ns must be start and end"):
        replace(SceneRecords.read(log, 0), time_span_ns=span_ns)
    assert replace(SceneRecords.read(log, 0), time_span_ns=np.array([3, 2**63 - 1])).times_ns == (3, 2**63 - 1)


OTHER_SHAPES = {
    "agents": {
        "track_ids": (1,),
        "centroids_m": (1,),
        "yaws_rad": (1,),
        "extents_m": (1,),
        "velocities_mps": (3,),
        "label_probabilities": (1,),
    },
    "tl_faces": {"face_ids": (1,), "light_ids": (1,), "statuses": (1,)},
    "": {"timestamps_ns": (1,), "ego_positions_m": (2,), "ego_rotations": (1, 3)},
}


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, names in OTHER_SHAPES.items() for name in names])
def test_arrays_that_would_be_repeated_to_fit_are_refused(part, name):
    arrays = read_scene_arrays(random_dataset(np.random.default_rng(0), 1, min_frames=3), 0)
    holder = getattr(arrays, part) if part else arrays
    array = getattr(holder, name)
    other = np.zeros((len(array), *OTHER_SHAPES[part][name]), array.dtype)
    with pytest.raises(CorruptedDataError, match=rf"{type(holder).__name__}: {name} must be an array of shape \("):
        replace(holder, **{name: other})


def test_numbers_that_are_none_of_rows_times_or_tracks_are_refused():
    arrays = read_scene_arrays(random_dataset(np.random.default_rng(0), 1, min_frames=3), 0)
    agents = arrays.agents
    with pytest.raises(InvalidArgumentError, match="timestamps_ns must be integers, got float64"):
        replace(arrays, timestamps_ns=arrays.timestamps_ns * 1e-9)
    with pytest.raises(InvalidArgumentError, match="starts must be integers, got float64"):
        replace(agents, starts=agents.starts + 0.4)
    with pytest.raises(InvalidArgumentError, match="track_ids must be integers, got float64"):
        replace(agents, track_ids=np.full(len(agents.track_ids), np.nan))
    with pytest.raises(InvalidArgumentError, match=r"track_ids has .*-1.*a whole one from 0"):
        replace(agents, track_ids=np.full(len(agents.track_ids), -1))
    for starts in (np.zeros(0, np.int32), np.zeros((1, 2), np.int32), [0]):
        with pytest.raises(CorruptedDataError, match=r"starts must have shape \(F \+ 1,\)"):
            replace(FaceRows.none(0), starts=starts)


def test_ids_of_faces_that_a_record_cannot_hold_are_refused():
    texts, statuses = np.array(["a" * 16]), np.zeros((1, 3), np.float32)
    starts = np.array([0, 1], np.int32)
    FaceRows(starts, texts.astype("<U40"), texts, statuses)
    with pytest.raises(InvalidArgumentError, match=r"light_ids has 'a{17}'; the format has room for 16"):
        FaceRows(starts, texts, np.array(["a" * 17]), statuses)
    with pytest.raises(InvalidArgumentError, match="face_ids must be text, got int64"):
        FaceRows(starts, np.array([7]), texts, statuses)
