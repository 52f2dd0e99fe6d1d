"""The record buffer against lists of lists: after changes in any order, each frame has its own rows."""

from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data import frame_rows
from l5kit.data.index.windows import CurrentFrames, Windows, WindowSteps, cut_windows
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.geometry import yaw_as_rotation33
from support.random_logs import assert_same_records, random_dataset

SETTINGS = settings(max_examples=80, deadline=None, derandomize=True)
INTERVALS = {"agents": "agent_index_interval", "tl_faces": "traffic_light_faces_index_interval"}


@dataclass
class Frame:
    """A frame of the model: its record without intervals, and its rows as lists."""

    record: np.ndarray
    agents: list
    tl_faces: list


def rows_of(scene, frame, name):
    return [row.copy() for row in getattr(scene, name)[slice(*frame[INTERVALS[name]])]]


class Model:
    """Scenes as lists of frames, changed one thing after the other."""

    def __init__(self, scenes):
        self.scenes = [
            [Frame(frame.copy(), *(rows_of(scene, frame, name) for name in INTERVALS)) for frame in scene.frames]
            for scene in scenes
        ]

    def to_arrays(self):
        """Frames, agents and faces as the format has them."""
        frames = [frame for scene in self.scenes for frame in scene]
        records, rows = np.array([frame.record for frame in frames], FRAME_DTYPE), {}
        for name, dtype in (("agents", AGENT_DTYPE), ("tl_faces", TL_FACE_DTYPE)):
            rows[name] = np.array([row for frame in frames for row in getattr(frame, name)], dtype)
            ends = np.cumsum([len(getattr(frame, name)) for frame in frames], dtype=np.int64)
            records[INTERVALS[name]] = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        return {"frames": records, **rows}


def some_agents(rng, track_ids):
    agents = np.zeros(len(track_ids), AGENT_DTYPE)
    agents["track_id"], agents["centroid"] = track_ids, rng.normal(size=(len(track_ids), 2))
    return agents


def some_faces(rng, count):
    faces = np.zeros(count, TL_FACE_DTYPE)
    faces["face_id"] = [f"f{number}" for number in rng.integers(0, 99, count)]
    return faces


def put(buffer, model, rng, scenes, indices):
    """Several agents for each frame, some of whose tracks are there."""
    frames, agents = [], []
    for scene, index in zip(scenes, indices, strict=True):
        new = some_agents(rng, rng.permutation(9)[: rng.integers(0, 6)])
        frames += [(scene, index)] * len(new)
        agents.append(new)
        there = model.scenes[scene][index].agents
        for agent in new:
            places = [place for place, row in enumerate(there) if row["track_id"] == agent["track_id"]]
            if places:
                there[places[0]] = agent
            else:
                there.append(agent)
    rows = buffer.frame_rows(*np.array(frames, np.int64).reshape(-1, 2).T)
    agents = np.concatenate([*agents, np.zeros(0, AGENT_DTYPE)])
    shuffled, order = rng.permutation(len(agents)), np.arange(len(agents))
    for row in np.unique(rows):  # frames are mixed; agents that are new keep their order within a frame
        order[rows[shuffled] == row] = np.flatnonzero(rows == row)
    buffer.put_agents(rows[order], agents[order])


def remove(buffer, model, rng, scenes, indices):
    frames, tracks = [], []
    for scene, index in zip(scenes, indices, strict=True):
        there = model.scenes[scene][index].agents
        gone = {int(row["track_id"]) for row in there if rng.random() < 0.5}
        model.scenes[scene][index].agents = [row for row in there if int(row["track_id"]) not in gone]
        frames += [(scene, index)] * len(gone)
        tracks += sorted(gone)
    order = rng.permutation(len(frames))
    rows = buffer.frame_rows(*np.array(frames, np.int64).reshape(-1, 2).T)
    buffer.remove_agents(rows[order], np.array(tracks, np.uint64)[order])


def replace(buffer, model, rng, scenes, indices):
    agents = [some_agents(rng, rng.permutation(30)[: rng.integers(0, 20)]) for _ in scenes]
    faces = [some_faces(rng, rng.integers(0, 5)) for _ in scenes]
    for scene, index, of_frame, on in zip(scenes, indices, agents, faces, strict=True):
        model.scenes[scene][index].agents, model.scenes[scene][index].tl_faces = list(of_frame), list(on)
    rows = buffer.frame_rows(scenes, indices)
    buffer.replace_agents(rows, np.concatenate(agents), [len(of_frame) for of_frame in agents])
    buffer.replace_tl_faces(rows, np.concatenate(faces), [len(on) for on in faces])


def append(buffer, model, rng, scenes, _):
    frames = np.zeros(len(scenes), FRAME_DTYPE)
    frames["timestamp"] = rng.integers(0, 100, len(scenes))
    agents = [some_agents(rng, rng.permutation(9)[: rng.integers(0, 4)]) for _ in scenes]
    faces = [some_faces(rng, rng.integers(0, 3)) for _ in scenes]
    for place, scene in enumerate(scenes):
        model.scenes[scene].append(Frame(frames[place].copy(), list(agents[place]), list(faces[place])))
    frames["agent_index_interval"] = 77  # of frames that are appended, intervals mean nothing
    has_rows = rng.random() < 0.8
    if not has_rows:
        for scene in scenes:
            model.scenes[scene][-1].agents, model.scenes[scene][-1].tl_faces = [], []
    rows = {
        "agents": np.concatenate(agents),
        "agent_counts": [len(of_frame) for of_frame in agents],
        "tl_faces": np.concatenate(faces),
        "face_counts": [len(on) for on in faces],
    }
    appended = buffer.append_frames(scenes, frames, **rows if has_rows else {})
    assert appended.tolist() == buffer.frame_rows(scenes, [len(model.scenes[scene]) - 1 for scene in scenes]).tolist()


def drive(buffer, model, rng, scenes, indices):
    positions_m, yaws_rad = rng.normal(size=(len(scenes), int(rng.integers(2, 4)))), rng.normal(size=len(scenes))
    for scene, index, position_m, yaw_rad in zip(scenes, indices, positions_m, yaws_rad, strict=True):
        model.scenes[scene][index].record["ego_translation"][: len(position_m)] = position_m
        model.scenes[scene][index].record["ego_rotation"] = yaw_as_rotation33(yaw_rad)
    buffer.set_ego(buffer.frame_rows(scenes, indices), positions_m, yaws_rad)


def write(buffer, model, rng, scenes, indices):
    """Values into the array itself, at rows that are looked up."""
    for scene, index in zip(scenes, indices, strict=True):
        there = model.scenes[scene][index].agents
        if there:
            place, yaw_rad = int(rng.integers(len(there))), rng.normal()
            there[place]["yaw"] = yaw_rad
            rows = buffer.find_agents(buffer.frame_rows([scene], index), [there[place]["track_id"]])
            buffer.agents["yaw"][rows] = yaw_rad


CHANGES = [put, remove, replace, append, drive, write]


@st.composite
def changed(draw):
    """A buffer and a model after the same changes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    log = random_dataset(rng, draw(st.integers(1, 5)), max_frames=draw(st.sampled_from([1, 6])), max_tracks=6)
    scenes = [SceneRecords.read(log, index) for index in rng.integers(0, len(log.scenes), draw(st.integers(1, 6)))]
    spare = {"spare_frames": draw(st.sampled_from([0, 0, 2])), "spare_agents": draw(st.sampled_from([0, 3, 50]))}
    buffer, model = RecordBuffer(scenes, **spare), Model(scenes)
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=25)):
        chosen = rng.permutation(len(scenes))[: rng.integers(1, len(scenes) + 1)]
        indices = np.array([rng.integers(len(model.scenes[scene])) for scene in chosen])
        with mock.patch.object(frame_rows, "_LEAST_ROOM", 1):  # so that arrays are full now and then
            change(buffer, model, rng, chosen, indices)
    return buffer, model, rng


@SETTINGS
@given(case=changed())
def test_a_changed_buffer_holds_what_lists_hold(case):
    buffer, model, _ = case
    log = buffer.to_log()
    assert_same_records(log, as_log(model), arrays=("frames", "agents", "tl_faces"))
    assert np.diff(log.scenes["frame_index_interval"])[:, 0].tolist() == [len(scene) for scene in model.scenes]
    for index, scene in enumerate(model.scenes):
        alone = Model([])
        alone.scenes = [scene]
        assert_same_records(buffer.scene(index), as_log(alone), arrays=("frames", "agents", "tl_faces"))


def as_log(model):
    class Log:
        pass

    log = Log()
    vars(log).update(model.to_arrays())
    return log


@SETTINGS
@given(case=changed(), steps=st.sampled_from([(0, 0, 1, 1), (3, 2, 1, 1), (2, 2, 2, 3)]))
def test_windows_of_a_changed_buffer_are_those_of_the_dataset_written_from_it(case, steps):
    buffer, model, rng = case
    steps = WindowSteps(*steps)
    scenes = rng.integers(0, buffer.num_scenes, 7)
    indices = np.array([rng.integers(len(model.scenes[scene])) for scene in scenes])
    log = buffer.to_log()
    bounds = log.scenes["frame_index_interval"][scenes]
    cut = [
        buffer.windows(buffer.frame_rows(scenes, indices), steps),
        cut_windows(
            CurrentFrames(log.frames, bounds[:, 0] + indices, *bounds.T.copy()), log.agents, log.tl_faces, steps
        ),
    ]
    assert cut[0].counts.tolist() == cut[1].counts.tolist()
    for window in range(len(scenes)):
        for part in (Windows.history, Windows.future):
            of_buffer, of_log = (part(windows, window) for windows in cut)
            for field in ("timestamp", "ego_translation", "ego_rotation"):
                np.testing.assert_array_equal(of_buffer[field], of_log[field])
        for rows in ("agents", "tl_faces"):
            for frame in range(cut[0].agents.starts.shape[1]):
                of_buffer, of_log = (getattr(windows, rows).rows_of_frame(window, frame) for windows in cut)
                assert of_buffer.tobytes() == of_log.tobytes()


@pytest.mark.parametrize("num_frames", [300])
def test_frames_appended_one_by_one_take_room_ahead(num_frames):
    """Many frames do not mean as many copies of all that is there."""
    scene = SceneRecords.read(random_dataset(np.random.default_rng(0), 1), 0)
    buffer, arrays = RecordBuffer([scene] * 3), set()
    for step in range(num_frames):
        buffer.append_frames(
            [0, 2],
            np.zeros(2, FRAME_DTYPE),
            agents=some_agents(np.random.default_rng(step), [1, 2, 3]),
            agent_counts=[1, 2],
        )
        arrays |= {id(buffer.frames), id(buffer.agents)}
    assert (buffer.scene_stops - buffer.scene_starts).tolist() == [len(scene.frames) + n for n in (300, 0, 300)]
    assert len(arrays) < 40
