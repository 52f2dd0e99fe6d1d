"""Agents that a driver moves: rasters and vectors show them where they are, in single environments as in many."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.evaluation.driving.road_users import classify_rows  # noqa: E402
from support.environments import data_of, write_config  # noqa: E402

NUM_ENVS = 3
NUM_STEPS = 45
LANES = {"max_num_lanes": 8, "max_points_per_lane": 10, "max_points_per_crosswalk": 10, "max_retrieval_distance_m": 35}
VECTORS = {
    "other_agents_num": 12,
    "max_agents_distance": 50,
    "lane_params": LANES | {"max_num_crosswalks": 4},
}


@pytest.fixture(scope="module")
def arguments(city, tmp_path_factory):
    """Function that returns arguments of environments whose agents a driver moves."""

    def make(observation, **args):
        config = write_config(tmp_path_factory.mktemp("gym"), data_generation_params=VECTORS)
        sim_cfg = SimulationConfigGym(num_simulation_steps=NUM_STEPS)
        given = {"env_config_path": config, "dmg": data_of(city), "sim_cfg": sim_cfg, "observation": observation}
        return given | {"actions": "curvature", "others": "idm"} | args

    return make


def as_dict(seen):
    return seen if isinstance(seen, dict) else {"state": seen}


def drive_off(env, count, see):
    """Brake hard, so that the log and what becomes of it part, and let something see each step."""
    for _ in range(count):
        see(*env.step(np.tile(np.array([-1.0, 0.0], np.float32), (NUM_ENVS, 1))))


def test_records_have_agents_where_traffic_has_them(arguments):
    env = L5VectorEnv(NUM_ENVS, **arguments("raster"))
    env.reset(seed=5)
    parts, slots = env.episodes.parts, np.arange(NUM_ENVS)
    num_driven = 0

    def see(*_):
        nonlocal num_driven
        rows = parts.roads.rows(slots)
        for slot in range(NUM_ENVS):
            part = slice(rows.starts[slot], rows.starts[slot + 1])
            ids = parts.roads.bank.track_ids[rows.track_rows[part]]
            agents = parts.log.agents_of_frame(slot, int(env.frame_indices[slot]))
            is_user = classify_rows(agents["label_probabilities"], agents["extent"]) >= 0
            agents = agents[np.isin(agents["track_id"], ids) | is_user]
            order, expected = np.argsort(agents["track_id"]), np.argsort(ids)
            np.testing.assert_array_equal(agents["track_id"][order], ids[expected])
            np.testing.assert_allclose(agents["centroid"][order], rows.boxes[part][expected, :2], atol=1e-9)
            np.testing.assert_allclose(agents["yaw"][order], rows.boxes[part][expected, 2], atol=1e-6)
        num_driven += int(parts.roads.traffic.num_driven(slots).sum())

    drive_off(env, NUM_STEPS - 2, see)
    assert num_driven > NUM_STEPS


@pytest.mark.parametrize("observation", ["raster", "vectors", "compact"])
def test_single_environments_show_the_same(observation, arguments):
    many = L5VectorEnv(NUM_ENVS, **arguments(observation))
    ones = [L5Env(**arguments(observation)) for _ in range(NUM_ENVS)]
    many.reset(seed=5)
    for place, one in enumerate(ones):
        one.reset(seed=5 + place)
    if observation == "raster":
        _ = ones[1].sim_dataset  # whoever asks for it sees the same
    replayed = L5VectorEnv(NUM_ENVS, **arguments(observation, others="log"))
    replayed.reset(seed=5)
    differs = False
    for count in range(NUM_STEPS - 2):
        action = np.array([-1.0, 0.0], np.float32)
        seen = as_dict(many.step(np.tile(action, (NUM_ENVS, 1)))[0])
        logged = as_dict(replayed.step(np.tile(action, (NUM_ENVS, 1)))[0])
        differs = differs or any(not np.array_equal(seen[key], logged[key]) for key in seen)
        if observation == "raster" and count == NUM_STEPS // 2:
            _ = ones[2].sim_dataset
        for place, one in enumerate(ones):
            alone = as_dict(one.step(action)[0])
            for key, value in alone.items():
                np.testing.assert_array_equal(seen[key][place], value, err_msg=f"{key} of {place} after {count}")
    assert differs, "others that do what the log does show nothing"


def test_episodes_end_with_outputs_of_driven_agents(arguments):
    env = L5Env(**arguments("raster", return_info=True))
    env.reset(seed=5)
    for _ in range(NUM_STEPS - 2):
        *_, info = env.step(np.array([-1.0, 0.0], np.float32))
    (output,) = info["sim_outs"]
    assert not np.array_equal(output.simulated_agents["centroid"], output.recorded_agents["centroid"])
