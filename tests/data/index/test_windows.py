"""Windows: checks of shapes, subsets, and construction from arrays."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.index.windows import (
    CurrentFrames,
    RelativePoses,
    SeenTargets,
    StepSizeError,
    Targets,
    WindowRows,
    Windows,
    WindowSteps,
    cut_windows,
)
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import compute_agent_pose
from support.logs import make_several_scenes_log
from support.tolerances import FLOAT64

STEPS = WindowSteps(3, 4)


def cut(rows: list[int]) -> Windows:
    log = make_several_scenes_log()
    bounds = np.array([[0, 20]] * len(rows)).T
    current = CurrentFrames(
        log.frames, np.array(rows), np.ascontiguousarray(bounds[0]), np.ascontiguousarray(bounds[1])
    )
    return cut_windows(current, log.agents, log.tl_faces, STEPS)


def make_targets(num_targets: int) -> Targets:
    rng = np.random.default_rng(3)
    return Targets(
        track_ids=np.arange(num_targets, dtype=np.uint64),
        rows=np.arange(num_targets) - 1,
        centroids_m=rng.normal(0, 100, (num_targets, 2)),
        yaws_rad=rng.uniform(-4, 4, num_targets).astype(np.float32),
        extents_m=rng.uniform(1, 5, (num_targets, 3)).astype(np.float32),
    )


def test_windows_hold_history_and_future_of_their_frames():
    windows = cut([0, 10, 19])
    times = windows.frames["timestamp"] // 100_000_000
    assert (len(windows), windows.num_history, windows.num_future) == (3, 4, 4)
    assert_array_equal(windows.counts, [[1, 4, 4], [4, 4, 0]])
    assert times[1].tolist() == [10, 9, 8, 7, 11, 12, 13, 14]
    assert_array_equal(windows.current_frames["timestamp"] // 100_000_000, [0, 10, 19])
    for window, (history, future) in enumerate([([0], [1, 2, 3, 4]), ([10, 9, 8, 7], [11, 12, 13, 14])]):
        assert (windows.history(window)["timestamp"] // 100_000_000).tolist() == history
        assert (windows.future(window)["timestamp"] // 100_000_000).tolist() == future
    assert len(windows.future(2)) == 0


@pytest.mark.parametrize("chosen", [[2, 0], [], [True, False, True], [False] * 3], ids=str)
@pytest.mark.parametrize("one_array", [True, False])
def test_some_windows_are_those_windows(chosen, one_array):
    windows = cut([4, 10, 19])
    if not one_array:
        arrays = [windows.agents.arrays[0].copy() for _ in range(3)]
        windows = dataclasses.replace(windows, agents=dataclasses.replace(windows.agents, arrays=arrays))
    index = np.array(chosen, dtype=None if chosen else np.int64)
    taken = windows.taken(index)
    numbers = np.arange(3)[index].tolist()
    assert (len(taken), taken.num_history) == (len(numbers), 4)
    for row, window in enumerate(numbers):
        assert taken.history(row).tobytes() == windows.history(window).tobytes()
        assert taken.future(row).tobytes() == windows.future(window).tobytes()
        for frame in range(8):
            for rows, expected in ((taken.agents, windows.agents), (taken.tl_faces, windows.tl_faces)):
                assert rows.rows_of_frame(row, frame).tobytes() == expected.rows_of_frame(window, frame).tobytes()


def test_one_window_of_arrays_at_hand():
    log = make_several_scenes_log()
    frames = log.frames[[5, 4]]
    agents = [log.agents[slice(*frame["agent_index_interval"])] for frame in frames]
    windows = Windows.of_frames(frames, agents, [log.tl_faces[5:6]])
    assert (len(windows), windows.num_history, windows.num_future, windows.tl_faces.num_frames) == (1, 2, 0, 1)
    assert_array_equal(windows.counts, [[2], [0]])
    for frame in range(2):
        assert windows.agents.rows_of_frame(0, frame).tobytes() == agents[frame].tobytes()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"counts": np.ones((3, 2), np.int64)}, id="counts"),
        pytest.param({"frames": np.zeros((3, 7), FRAME_DTYPE)}, id="frames"),
        pytest.param({"frames": np.zeros((2, 8), FRAME_DTYPE)}, id="windows"),
        pytest.param({"num_history": 9}, id="history"),
        pytest.param({"tl_faces": WindowRows.from_frames([], np.dtype(TL_FACE_DTYPE))}, id="faces"),
    ],
)
def test_windows_that_do_not_fit_are_refused(change):
    with pytest.raises(InvalidArgumentError, match=r"Windows: .*fit"):
        dataclasses.replace(cut([0, 10, 19]), **change)


@pytest.mark.parametrize(
    ("starts", "num_arrays"), [((3, 4), 2), ((3, 5), 1), ((12,), 1)], ids=["arrays", "starts", "axes"]
)
def test_rows_that_do_not_fit_are_refused(starts, num_arrays):
    arrays = [np.empty(0, AGENT_DTYPE)] * num_arrays
    with pytest.raises(InvalidArgumentError, match="WindowRows: starts"):
        WindowRows(arrays, np.zeros(starts, np.int64), np.zeros((3, 4), np.int64))


@pytest.mark.parametrize("name", ["track_ids", "rows", "centroids_m", "yaws_rad", "extents_m"])
def test_targets_that_do_not_fit_are_refused(name):
    targets = make_targets(3)
    with pytest.raises(InvalidArgumentError, match="Targets: shapes do not fit"):
        dataclasses.replace(targets, **{name: getattr(targets, name)[:2]})


def test_targets_have_the_frames_of_their_poses():
    targets = make_targets(4)
    np.testing.assert_allclose(targets.agent_from_world @ targets.world_from_agent, [np.eye(3)] * 4, atol=FLOAT64)
    assert_array_equal(targets.world_from_agent[:, :2, 2], targets.centroids_m)
    states = zip(targets.centroids_m, targets.yaws_rad.astype(float), strict=True)
    assert_array_equal(targets.world_from_agent, [compute_agent_pose(*state) for state in states])
    assert targets.is_present.tolist() == [False, True, True, True]
    assert dataclasses.replace(targets, rows=None).is_present.all()


def test_frames_that_are_given_stand_in_for_those_of_the_pose():
    given = np.arange(18.0).reshape(2, 3, 3)
    targets = SeenTargets(**{name: getattr(make_targets(2), name) for name in vars(make_targets(2))}, seen_from=given)
    assert targets.agent_from_world is given
    assert_array_equal(targets.world_from_agent, make_targets(2).world_from_agent)


@pytest.mark.parametrize("name", ["positions_m", "yaws_rad", "extents_m", "availabilities"])
def test_poses_that_do_not_fit_are_refused(name):
    poses = RelativePoses.new(np.zeros, 2, 3, 4, availabilities=np.bool_)
    with pytest.raises(InvalidArgumentError, match="RelativePoses: shapes do not fit"):
        dataclasses.replace(poses, **{name: getattr(poses, name)[:1]})


@pytest.mark.parametrize(
    ("starts", "stops"),
    [([[0, 9]], [[1, 11]]), ([[0, -1]], [[1, 0]]), ([[0, 5]], [[1, 4]])],
    ids=["behind", "before", "backwards"],
)
def test_rows_outside_of_their_array_are_refused(starts, stops):
    bounds = np.array(starts), np.array(stops)
    with pytest.raises(InvalidArgumentError, match=r"frame 1 of window 0 has rows .* within the 10 rows"):
        WindowRows([np.empty(10, AGENT_DTYPE)], *bounds)
    with pytest.raises(InvalidArgumentError, match="starts and stops must be signed integers, got float64 and int64"):
        WindowRows([np.empty(10, AGENT_DTYPE)], bounds[0] * 0.5, bounds[1])


def test_rows_of_several_arrays_are_counted_in_their_own():
    arrays = [np.empty(length, AGENT_DTYPE) for length in (3, 1)]
    starts, stops = np.array([[0, 7], [0, 1]]), np.array([[3, 7], [1, 1]])
    assert WindowRows(arrays, starts, stops).counts.tolist() == [[3, 0], [1, 0]]
    with pytest.raises(InvalidArgumentError, match="frame 0 of window 1 has rows 0 to 3"):
        WindowRows(arrays, starts, stops[[0, 0]])


def test_rows_of_all_windows_are_joined_without_those_that_no_frame_has():
    arrays = [np.zeros(length, AGENT_DTYPE) for length in (9, 4)]
    for number, array in enumerate(arrays):
        array["track_id"] = 10 * number + np.arange(len(array))
    rows = WindowRows(arrays, np.array([[5, 99, 2], [0, 4, 0]]), np.array([[7, 99, 5], [0, 4, 0]]))
    joined, starts, stops = rows.joined()
    assert joined["track_id"].tolist() == [2, 3, 4, 5, 6]
    frames = zip(starts.ravel(), stops.ravel(), strict=True)
    ids = [joined["track_id"][start:stop].tolist() for start, stop in frames]
    assert ids == [[5, 6], [], [2, 3, 4], [], [], []]
    assert (rows.starts[0].tolist(), len(rows.taken(np.zeros(0, np.int64)).joined()[0])) == ([5, 99, 2], 0)


@pytest.mark.parametrize("number", [-1, 1.5, "1", 10**12, np.nan, None], ids=str)
def test_numbers_of_steps_that_there_are_not_are_refused(number):
    for name in ("history_num_frames", "future_num_frames"):
        with pytest.raises(
            InvalidArgumentError, match=f"{name} must be a whole number from 0 to 100000, got {number!r}"
        ):
            WindowSteps(**{"history_num_frames": 0, "future_num_frames": 0, name: number})
    for name in ("history_step_size", "future_step_size"):
        with pytest.raises(StepSizeError, match=f"{name} must be"):
            WindowSteps(1, 1, **{name: number})


def test_small_integers_of_steps_do_not_overflow():
    steps = WindowSteps(np.int8(127), np.int8(127), np.int8(100), np.int8(100))
    assert {type(value) for value in vars(steps).values()} == {int}
    log = make_several_scenes_log()
    windows = cut_windows(CurrentFrames.of_scene(log.frames[:20], 10), log.agents, log.tl_faces, steps)
    assert windows.frames.shape == (1, 255)
    assert windows.counts.tolist() == [[1], [0]]


OUTSIDE = {
    "behind the frames": (10**9, 10**9 - 1, 10**9 + 5),
    "before the frames": (-(10**8), -(10**8), 5),
    "a scene that is too long": (5, 0, 10**9),
    "before its scene": (5, 6, 9),
    "behind its scene": (5, 0, 5),
}


@pytest.mark.parametrize(("row", "start", "stop"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_current_frames_outside_of_scenes_and_frames_are_refused(row, start, stop):
    log = make_several_scenes_log()
    current = CurrentFrames(log.frames, *np.array([[3, row], [0, start], [20, stop]]))
    with pytest.raises(InvalidArgumentError, match=f"window 1 has row {row} in the scene from {start} to {stop}"):
        cut_windows(current, log.agents, log.tl_faces, STEPS)


def test_current_frames_of_other_types_are_named():
    log = make_several_scenes_log()
    row, start, stop = np.array([[5], [0], [20]])
    with pytest.raises(InvalidArgumentError, match="rows of CurrentFrames must be integers, got float64"):
        CurrentFrames(log.frames, row + 0.5, start, stop)
    with pytest.raises(InvalidArgumentError, match="scene_stops of CurrentFrames must be integers, got bool"):
        CurrentFrames(log.frames, row, start, stop > 0)
    foreign = log.frames.astype(log.frames.dtype.newbyteorder("S"))
    for name, current in {
        "frames": CurrentFrames(foreign, row, start, stop),
        "rows": CurrentFrames(log.frames, row.astype(row.dtype.newbyteorder("S")), start, stop),
    }.items():
        with pytest.raises(InvalidArgumentError, match=f"{name} of CurrentFrames must have .* the byte order"):
            cut_windows(current, log.agents, log.tl_faces, STEPS)
