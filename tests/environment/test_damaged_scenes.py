"""Damaged scenes among good ones in environments: left out with a warning and counted, or an error."""

import re
import shutil
import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium.vector import AutoresetMode

from l5kit.data import ChunkedDataset
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.errors import CorruptedDataError, EpisodeEndedError
from support.environments import data_of, write_config
from support.logs import log_of, write_with_chunks

COMPACT = {"observation": "compact", "actions": "bicycle", "reward": "driving", "others": "idm"}
NUM_FRAMES = 4


def make_one(folder, config, **args):
    return L5Env(config, data_of(folder), SimulationConfigGym(num_simulation_steps=NUM_FRAMES), **args)


def make_many(folder, config, **args):
    return L5VectorEnv(3, config, data_of(folder), SimulationConfigGym(num_simulation_steps=NUM_FRAMES), **args)


CHUNKS = {"scenes": 3, "frames": 50, "agents": 500, "traffic_light_faces": 500}


class Damage:
    """Damages scene 1 of a log: its first row of each array, and one in the middle."""

    def __init__(self, log, scene=1):
        self.scene = scene
        self.arrays = {name: np.array(getattr(log, name)) for name in ("scenes", "frames", "agents", "tl_faces")}
        self.first, self.stop = self.arrays["scenes"][FRAME_INTERVAL][scene].tolist()
        self.frame = (self.first + self.stop) // 2
        self.row = int(self.arrays["frames"][AGENT_INTERVAL][self.frame, 0]) + 3

    def set(self, array, field, row, value):
        self.arrays[array][field][row] = value


IN_RECORDS = {
    "scene ends before it starts": lambda d: d.set("scenes", FRAME_INTERVAL, d.scene, (d.stop, d.first)),
    "scene of a million million frames": lambda d: d.set("scenes", FRAME_INTERVAL, d.scene, (d.first, 10**12)),
    "scene starts below 0": lambda d: d.set("scenes", FRAME_INTERVAL, d.scene, (-5, d.stop)),
    "scene without frames": lambda d: d.set("scenes", FRAME_INTERVAL, d.scene, (d.first, d.first)),
    "agents beyond the end": lambda d: d.set("frames", AGENT_INTERVAL, d.frame, (d.row, 10**12)),
    "agents end before they start": lambda d: d.set("frames", AGENT_INTERVAL, d.frame, (d.row + 9, d.row)),
    "lights beyond the end": lambda d: d.set("frames", FACE_INTERVAL, d.frame, (5, 10**12)),
    "AV not finite": lambda d: d.set("frames", "ego_translation", d.frame, np.nan),
    "AV far away": lambda d: d.set("frames", "ego_translation", d.frame, 1e155),
}
ON_ROADS = {
    "agent not finite": lambda d: d.set("agents", "centroid", d.row, np.nan),
    "agent far away": lambda d: d.set("agents", "centroid", d.row, 1e300),
    "agent twice": lambda d: d.set("agents", "track_id", d.row, d.arrays["agents"]["track_id"][d.row - 1]),
    "time stands still": lambda d: d.set("frames", "timestamp", d.frame, d.arrays["frames"]["timestamp"][d.frame - 1]),
}
IN_FILES = {
    "chunk of agents": lambda d, path: (path / "agents" / str(d.row // CHUNKS["agents"])).write_bytes(b"no chunk"),
    "chunk of frames": lambda d, path: (path / "frames" / str(d.frame // CHUNKS["frames"])).write_bytes(b"no chunk"),
    "chunk is missing": lambda d, path: (path / "agents" / str(d.row // CHUNKS["agents"])).unlink(),
}
SEEN = {
    "raster": {"actions": "poses"},
    "vectors": {"observation": "vectors", "actions": "kinematic", "reward": "driving"},
    "compact": COMPACT,
}


def damaged_city(city, folder, names, scenes=(1,)):
    """A copy of a city some scenes of which are damaged."""
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    damages = []
    for name, scene in zip(names, scenes, strict=True):
        damages.append(Damage(log, scene))
        (IN_RECORDS | ON_ROADS).get(name, lambda d: None)(damages[-1])
        log = log_of(*damages[-1].arrays.values())
    path = folder / "scenes" / "sample.zarr"
    write_with_chunks(log, path, chunk_lengths=CHUNKS)
    for name, damage in zip(names, damages, strict=True):
        IN_FILES.get(name, lambda d, path: None)(damage, path)
    return folder


def drive_through(env, num_steps):
    """Step and reset an environment, and return the scenes of its episodes."""
    env.action_space.seed(0)
    env.reset(seed=0)
    scenes = set()
    for _ in range(num_steps):
        step = env.step(env.action_space.sample())
        assert env.observation_space.contains(step[0])
        assert np.isfinite(step[1]).all()
        scenes |= set(np.ravel(getattr(env, "scene_indices", getattr(env, "scene_index", None))).tolist())
        if isinstance(env, L5Env) and step.done:
            env.reset()
    return scenes


CASES = [
    *((name, "compact") for name in IN_RECORDS | ON_ROADS | IN_FILES),
    *((name, "raster") for name in IN_RECORDS | IN_FILES),  # those of ON_ROADS are rasters in 1.5 as well
    *((name, "vectors") for name in ("scene without frames", "AV not finite", "agent twice", "chunk of frames")),
]


@pytest.mark.parametrize(("name", "seen"), CASES)
def test_a_damaged_scene_among_good_ones_is_left_out(city, tmp_path, name, seen):
    folder, config, args = damaged_city(city, tmp_path / "city", [name]), write_config(tmp_path), SEEN[seen]
    for made in (make_one, lambda *a, **k: make_many(*a, autoreset_mode="SameStep", **k)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            env = made(folder, config, **args)
            assert drive_through(env, 15) == {0, 2}
        assert env.damaged_scenes == {1}
        left_out = [str(each.message) for each in caught if "is left out" in str(each.message)]
        assert len(left_out) == 1
        assert left_out[0].startswith("scene 1 is left out: ")
        with pytest.raises(CorruptedDataError, match="scene 1 is damaged: "):
            env.reset(options={"scene_id": 1})
        env.reset(options={"scene_id": 2})
        env.step(env.action_space.sample())


@pytest.mark.filterwarnings("ignore:.*is damaged, samples that:RuntimeWarning")
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=[mode.value for mode in AutoresetMode])
def test_who_is_strict_hears_of_a_damaged_scene_and_may_go_on(city, tmp_path, mode):
    folder, config = damaged_city(city, tmp_path / "city", ["AV not finite"]), write_config(tmp_path)
    env = make_many(folder, config, strict=True, autoreset_mode=mode, **COMPACT)
    env.reset(seed=0, options={"scene_id": 0})
    env.action_space.seed(0)
    num_errors = num_steps = 0
    while num_errors < 2:
        frames, is_next = env.frame_indices.copy(), env._is_over.copy()
        try:
            env.step(env.action_space.sample())
        except EpisodeEndedError:
            env.reset(options={"reset_mask": is_next, "scene_id": 2})
            num_errors += 1
        except CorruptedDataError as error:
            num_errors += re.match("scene 1 is damaged: frame 50 of it", str(error)) is not None
        num_steps += 1
        assert (env.frame_indices < env.episodes.lengths).all()
        assert ((env.frame_indices == frames) | (env.frame_indices == frames + 1) | (env.frame_indices == 1)).all()
        assert num_steps < 200
    observation, _ = env.reset(seed=0, options={"scene_id": 2})
    assert env.observation_space.contains(observation)


@pytest.mark.filterwarnings("error")
def test_scenes_that_come_in_their_order_skip_a_damaged_one_or_end_there(city, tmp_path):
    folder, config = damaged_city(city, tmp_path / "city", ["AV not finite"]), write_config(tmp_path)
    env = make_one(folder, config, reset_scene_id=1, **COMPACT)
    with pytest.warns(RuntimeWarning, match="scene 1 is left out: frame 50 of it") as caught:
        env.reset()
    assert [warning.filename for warning in caught] == [__file__]
    assert (env.scene_index, env.damaged_scenes) == (2, {1})
    strict = make_one(folder, config, reset_scene_id=0, strict=True, **COMPACT)
    strict.reset()
    for _ in range(2):
        with pytest.raises(CorruptedDataError, match="scene 1 is damaged: frame 50 of it"):
            strict.reset()
    with pytest.raises(EpisodeEndedError, match="no episode"):
        strict.step(strict.action_space.sample())
    strict.reset(options={"scene_id": 0})
    strict.step(strict.action_space.sample())


@pytest.mark.filterwarnings("ignore:scene . is left out:RuntimeWarning", "ignore:.*is damaged:RuntimeWarning")
@pytest.mark.parametrize("seen", SEEN)
def test_where_all_scenes_are_damaged_nothing_is_left(city, tmp_path, seen):
    names = ["AV not finite", "chunk of agents", "agents beyond the end"]
    folder = damaged_city(city, tmp_path / "city", names, (0, 1, 2))
    for made in (make_one, make_many):
        with pytest.raises(CorruptedDataError, match="no scene is left: 3 of 3 are damaged, and 0 too short; run"):
            made(folder, write_config(tmp_path), **SEEN[seen]).reset()
