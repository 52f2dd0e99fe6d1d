"""The table of scenes: way, turn, length and agents, by hand and for damaged datasets."""

import warnings

import numcodecs
import numpy as np
import pytest

from l5kit.data import ChunkedDataset, scene_table
from l5kit.data.index import log_index
from l5kit.data.scene_table import read_scene_table
from l5kit.errors import CorruptedDataError
from support.logs import intervals, log_of, make_frames, scenes_of, write_with_chunks
from support.random_logs import random_dataset, write_three_arrays
from support.tolerances import FLOAT64_LONG

FRAMES_PER_CHUNK = 5


def drive(yaws_deg, step_m):
    """Positions and headings (radians) of an AV that goes ``step_m`` in its heading from each frame to the next."""
    yaws_rad = np.radians(np.asarray(yaws_deg, dtype=float))
    steps_m = step_m * np.column_stack([np.cos(yaws_rad), np.sin(yaws_rad)])
    return np.concatenate([[[0.0, 0.0]], np.cumsum(steps_m, axis=0)])[: len(yaws_rad)], yaws_rad


def log_of_ways(*ways, agents_per_frame=0, step_ns=100_000_000, host="host"):
    """A dataset of one scene for each (positions, headings)."""
    lengths = [len(yaws) for _, yaws in ways]
    frames, *_ = make_frames(
        sum(lengths),
        positions_m=np.concatenate([np.zeros((0, 2)), *(positions for positions, _ in ways)]),
        yaws_rad=[yaw for _, yaws in ways for yaw in yaws],
        timestamps_ns=10**18 + step_ns * np.arange(sum(lengths)),
    )
    frames["agent_index_interval"] = intervals([agents_per_frame] * len(frames))
    return log_of(scenes_of(lengths, hosts=host), frames)


WAYS = {
    "left": (drive([0, 10, 20, 31], 1.0), "left", 31.0),
    "just not left": (drive([0, 10, 20, 29], 1.0), "straight", 29.0),
    "right": (drive([90, 60, 30, 10], 1.0), "right", -80.0),
    "right across the cut at 180 degrees": (drive([-160, -179, 170, 150], 1.0), "right", -50.0),
    "left across the cut at 180 degrees": (drive([150, 170, -179, -160], 1.0), "left", 50.0),
    "straight": (drive([45, 46, 44, 45], 1.0), "straight", 0.0),
    "to the left and back": (drive([0, 60, 0, 0], 1.0), "straight", 0.0),
    "standing": (drive([0, 0, 0, 0], 0.01), "standing", 0.0),
    "turning on the spot": (drive([0, 40, 80, 120], 0.01), "standing", 120.0),
}


@pytest.mark.parametrize(("way", "turn", "turn_deg"), WAYS.values(), ids=WAYS.keys())
def test_turns_are_those_of_the_heading(way, turn, turn_deg):
    table = read_scene_table(log_of_ways(way))
    assert table.turns == [turn]
    assert table.turns_deg == pytest.approx([turn_deg], abs=FLOAT64_LONG)


@pytest.mark.parametrize(("sign", "turn"), [(1, "left"), (-1, "right")], ids=["left", "right"])
def test_whole_turns_are_counted(sign, turn):
    table = read_scene_table(log_of_ways(drive(sign * np.arange(0, 811, 30), 1.0)))
    assert table.turns_deg == pytest.approx([sign * 810])
    assert table.turns == [turn]


def test_each_scene_has_its_own_way_time_and_agents():
    log = log_of_ways(drive([0] * 5, 1.5), drive([0] * 2, 10.0), drive([0] * 3, 0.5), agents_per_frame=7)
    table = read_scene_table(log)
    assert len(table) == 3
    assert table.num_frames.tolist() == [5, 2, 3]
    assert table.lengths_s == pytest.approx([0.4, 0.1, 0.2])
    assert table.distances_m == pytest.approx([6.0, 10.0, 1.0])
    assert table.speeds_mps == pytest.approx([15.0, 100.0, 5.0])
    assert table.agents_per_frame.tolist() == [7.0, 7.0, 7.0]
    assert table.turns == ["straight", "straight", "standing"]
    assert table.hosts == ("host",) * 3
    assert table.errors == {}


def test_the_way_is_what_was_driven_on_the_ground():
    there_and_back = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    log = log_of_ways((there_and_back, np.zeros(3)))
    log.frames["ego_translation"][:, 2] = [0.0, 100.0, -100.0]
    assert read_scene_table(log).distances_m == pytest.approx([10.0])


def test_agents_are_a_mean_over_frames():
    log = log_of_ways(drive([0] * 4, 1.0))
    log.frames["agent_index_interval"] = [[0, 3], [3, 3], [3, 4], [4, 6]]
    assert read_scene_table(log).agents_per_frame.tolist() == [1.5]


def test_a_single_frame_has_no_way_and_no_speed():
    table = read_scene_table(log_of_ways(drive([0, 90], 9.0), drive([10], 5.0), agents_per_frame=2))
    assert table.num_frames.tolist() == [2, 1]
    assert table.lengths_s[1] == table.distances_m[1] == table.turns_deg[1] == table.speeds_mps[1] == 0.0
    assert table.agents_per_frame[1] == 2.0
    assert table.turns == ["left", "standing"]
    assert table.errors == {}


def test_scenes_without_a_frame_are_named_and_leave_the_others():
    table = read_scene_table(log_of_ways(drive([], 1.0), drive([0, 0], 3.0), drive([], 1.0)))
    assert table.errors == {0: "scene 0 has no frame", 2: "scene 2 has no frame"}
    assert table.num_frames.tolist() == [0, 2, 0]
    assert table.turns == [None, "straight", None]
    for numbers in (table.lengths_s, table.distances_m, table.speeds_mps, table.agents_per_frame, table.turns_deg):
        assert np.isnan(numbers).tolist() == [True, False, True]


def test_a_dataset_without_scenes_has_an_empty_table():
    table = read_scene_table(log_of_ways())
    assert (len(table), table.turns, table.errors, table.doubts, table.hosts) == (0, [], {}, {}, ())
    assert table.speeds_mps.shape == (0,)


@pytest.mark.parametrize(
    ("interval", "fault"),
    [
        ((-1, 2), "does not lie within the 9 frames"),
        ((2, 1), "ends before it starts"),
        ((2, 100), "does not lie within the 9 frames"),
        ((2**62, -(2**62)), "ends before it starts"),
    ],
    ids=str,
)
def test_a_wrong_interval_is_named_and_leaves_the_others(interval, fault):
    ways = [drive([0] * 3, 4.0)] * 3
    log, sound = log_of_ways(*ways), read_scene_table(log_of_ways(*ways))
    log.scenes["frame_index_interval"][1] = interval
    table = read_scene_table(log)
    assert list(table.errors) == [1]
    assert f"frame_index_interval {list(interval)} of scene 1 {fault}" in table.errors[1]
    assert "l5kit validate" in table.errors[1]
    assert table.num_frames.tolist() == [3, 0, 3]
    assert table.turns == ["straight", None, "straight"]
    assert table.distances_m[[0, 2]].tolist() == sound.distances_m[[0, 2]].tolist()


@pytest.mark.parametrize("interval", [(0, 0), (21, 21), (22, 28), (28, 21), (-7, 28)], ids=str)
def test_agents_of_a_frame_that_are_not_those_between_its_neighbours_are_named(interval):
    log = log_of_ways(*[drive([0] * 3, 4.0)] * 3, agents_per_frame=7)
    log.frames["agent_index_interval"][4] = interval
    table = read_scene_table(log)
    assert list(table.errors) == [1]
    assert "of frame 1 does not start where that of the frame before ends" in table.errors[1]


def test_hosts_that_are_no_text_are_shown_as_what_can_be_shown(folder):
    file = folder / "scenes" / "0"
    content = bytearray(numcodecs.Blosc().decode(file.read_bytes()))
    content[96 + 16 : 96 + 20] = b"\xff\xff\xff\xff"
    content[2 * 96 + 16 : 2 * 96 + 20] = b"\x00\xd8\x00\x00"
    file.write_bytes(numcodecs.Blosc("lz4", 5, 1).encode(bytes(content)))
    table = read_scene_table(ChunkedDataset(str(folder)).open())
    assert table.errors == {}
    assert ["\ufffd" in host for host in table.hosts] == [False, True, True, *[False] * 5]


def test_a_chunk_of_scenes_that_cannot_be_read_leaves_the_others(made, tmp_path):
    path = write_with_chunks(made, tmp_path / "b.zarr")
    (tmp_path / "b.zarr" / "scenes" / "1").write_bytes(b"garbage")
    sound, table = read_scene_table(made), read_scene_table(ChunkedDataset(path).open())
    assert list(table.errors) == [2, 3]
    assert "b.zarr/scenes/1" in table.errors[3]
    assert np.delete(table.distances_m, [2, 3]).tolist() == np.delete(sound.distances_m, [2, 3]).tolist()


def test_intervals_may_overlap_or_go_backward():
    log = log_of_ways(drive([0] * 6, 1.0))
    scenes = scenes_of([0] * 3)
    scenes["frame_index_interval"] = [[4, 6], [0, 6], [1, 3]]
    table = read_scene_table(log_of(scenes, log.frames))
    assert table.distances_m == pytest.approx([1.0, 5.0, 1.0])
    assert table.num_frames.tolist() == [2, 6, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1e8, -1e9, 1e150, 1e300, 1.2e307, -1.7e308])
@pytest.mark.parametrize("row", [4, 5, 7], ids=["first frame", "in the middle", "last frame"])
def test_a_damaged_position_hits_only_its_scene(row, value):
    ways = [drive([0] * 4, 4.0), drive([0] * 4, 4.0), drive([0] * 4, 4.0)]
    log, sound = log_of_ways(*ways), read_scene_table(log_of_ways(*ways))
    log.frames["ego_translation"][row, 0] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_scene_table(log)
    assert table.distances_m[[0, 2]].tolist() == sound.distances_m[[0, 2]].tolist()
    assert np.isnan([table.distances_m[1], table.speeds_mps[1]]).all()
    assert table.turns_deg.tolist() == [0.0, 0.0, 0.0]
    assert table.turns == ["straight", None, "straight"]
    assert table.errors == {}
    assert list(table.doubts) == [1]
    assert table.doubts[1].startswith(f"ego_translation of frame {row - 4} is not finite, or more than 100,000,000 m")
    assert "l5kit validate" in table.doubts[1]


def test_positions_as_far_as_the_earth_is_round_are_no_fault():
    log = log_of_ways(drive([0] * 3, 4.0))
    log.frames["ego_translation"][:, :2] += [4e7, -1e8]
    table = read_scene_table(log)
    assert (table.doubts, table.distances_m.tolist()) == ({}, pytest.approx([8.0]))


def test_the_height_of_a_position_is_not_asked():
    log = log_of_ways(drive([0] * 3, 4.0))
    log.frames["ego_translation"][1, 2] = np.nan
    assert read_scene_table(log).doubts == {}


def test_a_damaged_position_of_a_single_frame_is_told():
    log = log_of_ways(drive([0], 4.0), drive([0], 4.0))
    log.frames["ego_translation"][1, 1] = np.inf
    table = read_scene_table(log)
    assert list(table.doubts) == [1]
    assert table.distances_m.tolist() == [0.0, 0.0]


def test_the_first_fault_of_a_scene_is_told_and_those_between_scenes_to_nobody():
    log = log_of_ways(*[drive([0] * 4, 4.0)] * 3)
    log.frames["ego_translation"][[6, 7], 0] = 1e200
    log.frames["ego_rotation"][5, 0, 0] = np.inf
    log.frames["ego_translation"][8] = np.nan
    log.scenes["frame_index_interval"] = [[0, 4], [4, 8], [9, 12]]
    table = read_scene_table(log)
    assert {index: text.split(" is ")[0] for index, text in table.doubts.items()} == {1: "ego_rotation of frame 1"}


def test_numbers_stay_finite_or_unknown_whatever_the_poses_are():
    generator = np.random.default_rng(8)
    log = log_of_ways(*[drive([0] * 6, 4.0)] * 40)
    values = np.array([np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e300, 1e100, 1e9, 1e-320, 5.0])
    for name in ("ego_translation", "ego_rotation"):
        cells = log.frames[name].reshape(len(log.frames), -1)
        is_hit = generator.random(cells.shape) < 0.05
        cells[is_hit] = generator.choice(values, np.count_nonzero(is_hit))
        log.frames[name] = cells.reshape(log.frames[name].shape)
    log.frames["timestamp"][generator.random(len(log.frames)) < 0.05] = np.iinfo(np.int64).max
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_scene_table(log)
        numbers = [table.distances_m, table.turns_deg, table.lengths_s, table.speeds_mps, table.agents_per_frame]
    assert not np.isinf(numbers).any()
    is_doubtful = np.isin(np.arange(len(table)), list(table.doubts))
    assert 0 < np.count_nonzero(is_doubtful) < len(table)
    assert np.isfinite(np.array(numbers)[:, ~is_doubtful]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_damaged_rotation_hits_only_the_turn_of_its_scene(value):
    ways = [drive([0, 20, 40], 4.0)] * 2
    log = log_of_ways(*ways)
    log.frames["ego_rotation"][1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_scene_table(log)
    assert table.turns == [None, "left"]
    assert table.distances_m == pytest.approx([8.0, 8.0])
    assert list(table.doubts) == [0]
    assert table.doubts[0].startswith("ego_rotation of frame 1 is not finite; ")


def test_blocks_do_not_change_the_table(monkeypatch):
    made = random_dataset(np.random.default_rng(5), 9)
    whole = read_scene_table(made)
    monkeypatch.setattr(scene_table, "ROWS_PER_BLOCK", 4)
    assert len(made.frames) > 12
    blocks = read_scene_table(made)
    for name in ("num_frames", "lengths_s", "agents_per_frame", "distances_m", "turns_deg"):
        assert getattr(blocks, name).tolist() == getattr(whole, name).tolist(), name


def test_numbers_agree_with_a_loop_over_scenes():
    made = random_dataset(np.random.default_rng(6), 30)
    table = read_scene_table(made)
    for index in range(len(made.scenes)):
        scene = made.get_scene_dataset(index)
        steps_m = np.diff(scene.frames["ego_translation"][:, :2], axis=0)
        yaws_rad = np.arctan2(scene.frames["ego_rotation"][:, 1, 0], scene.frames["ego_rotation"][:, 0, 0])
        assert table.num_frames[index] == len(scene.frames)
        assert table.agents_per_frame[index] == pytest.approx(len(scene.agents) / len(scene.frames))
        assert table.distances_m[index] == pytest.approx(np.hypot(*steps_m.T).sum())
        assert table.turns_deg[index] == pytest.approx(
            np.degrees(np.unwrap(yaws_rad)[-1] - yaws_rad[0]), abs=FLOAT64_LONG
        )
        assert table.hosts[index] == scene.scenes[0]["host"]


@pytest.fixture
def made():
    return random_dataset(np.random.default_rng(41), 8, min_frames=2)


@pytest.fixture
def folder(made, tmp_path):
    lengths = {"scenes": 20, "frames": FRAMES_PER_CHUNK, "agents": 6, "traffic_light_faces": 6}
    write_with_chunks(made, tmp_path / "a.zarr", chunk_lengths=lengths)
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("rows_per_block", [65_536, 3], ids=["one block", "many blocks"])
@pytest.mark.parametrize(
    "damage", [lambda file: file.write_bytes(b"\0" * 300), lambda file: file.unlink()], ids=["damaged", "missing"]
)
def test_a_damaged_or_missing_chunk_hits_only_its_scenes(made, folder, damage, rows_per_block, monkeypatch):
    monkeypatch.setattr(scene_table, "ROWS_PER_BLOCK", rows_per_block)
    damage(folder / "frames" / "1")
    sound, table = read_scene_table(made), read_scene_table(ChunkedDataset(str(folder)).open())
    starts, stops = made.scenes["frame_index_interval"].T
    is_hit = (starts < 2 * FRAMES_PER_CHUNK) & (stops > FRAMES_PER_CHUNK)
    assert set(is_hit.tolist()) == {True, False}
    assert sorted(table.errors) == np.flatnonzero(is_hit).tolist()
    for text in table.errors.values():
        assert "a.zarr/frames/1" in text
    for name in ("lengths_s", "agents_per_frame", "distances_m", "turns_deg"):
        assert np.isnan(getattr(table, name)[is_hit]).all()
        assert getattr(table, name)[~is_hit].tolist() == getattr(sound, name)[~is_hit].tolist()
    assert table.num_frames.tolist() == sound.num_frames.tolist()
    assert [turn is None for turn in table.turns] == is_hit.tolist()
    assert table.hosts == sound.hosts


def test_scenes_that_cannot_be_read_are_an_error(folder):
    (folder / "scenes" / "0").write_bytes(b"\0" * 300)
    with pytest.raises(CorruptedDataError, match=r"a\.zarr/scenes/0"):
        read_scene_table(ChunkedDataset(str(folder)).open())


@pytest.mark.parametrize("name", ["agents", "traffic_light_faces"])
def test_agents_and_faces_are_not_read(made, folder, name):
    for chunk in (folder / name).glob("[0-9]*"):
        chunk.write_bytes(b"\0")
    table = read_scene_table(ChunkedDataset(str(folder)).open())
    assert table.errors == {}
    assert table.agents_per_frame.tolist() == read_scene_table(made).agents_per_frame.tolist()


def test_scenes_are_read_once(made, monkeypatch):
    read = []

    def passing_rows(array, start, stop):
        read.append(array)
        return array[start:stop]

    monkeypatch.setattr(log_index, "passing_rows", passing_rows)
    read_scene_table(made)
    assert sum(array is made.scenes for array in read) == 1


def test_a_dataset_of_three_arrays_has_the_same_table(made, tmp_path):
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        opened = ChunkedDataset(write_three_arrays(made, tmp_path / "old.zarr")).open()
    old, new = read_scene_table(opened), read_scene_table(made)
    assert old.distances_m.tolist() == new.distances_m.tolist()
    assert old.turns == new.turns
    assert old.agents_per_frame.tolist() == new.agents_per_frame.tolist()
