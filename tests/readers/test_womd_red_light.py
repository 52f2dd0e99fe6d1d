"""A red light of a source without junctions stops everyone: drivers, traffic, rewards, observations and tags."""

import numpy as np
import pytest

from l5kit.closedloop.planners import open_planner, open_traffic
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.scene_tags import tag_scenes
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from support import womd

LINE_M = 0.0
CAR = 2


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    return womd.import_red_light(tmp_path_factory.mktemp("red"))


@pytest.fixture(scope="module")
def log(imported):
    return ChunkedDataset(find_dataset_files(imported).dataset).open()


@pytest.fixture(scope="module")
def road(imported):
    return RoadMap(open_map(find_dataset_files(imported)))


def test_lanes_that_part_merge_or_cross_are_in_junctions(road):
    network = road.api.network
    names = [name.partition("/")[2] for name in road.api.arrays.lane_ids.to_list()]
    found = {name for row, name in enumerate(names) if network.is_in_junction[row]}
    # 11 and 13 part, and 11 and 12 are crossed by 30; 40 is a bridge above them; 51 widens to 52 and 53
    assert found == {"11", "12", "13", "30"}


def test_the_log_waits_before_the_line_and_is_tagged(log, road):
    x_m = log.frames["ego_translation"][:, 0]
    assert x_m[-1] + 2.5 == pytest.approx(LINE_M - 1.0)
    tags = tag_scenes(log, road.api)
    ((begin, end),) = tags.frames_of(0, "stop_at_red")
    assert begin > 70
    assert end == len(log.frames)


@pytest.fixture(scope="module")
def batch(log, road):
    return SceneBatch.of_scenes([SceneRecords.read(log, 0)], road=road)


@pytest.mark.parametrize("planner", ["idm", "rules"])
def test_planners_stop_before_the_line(batch, planner):
    driven = SceneSimulation(batch, ego=open_planner(planner).seat, strict=True).run()
    x_m = driven.records(0).frames["ego_translation"][:, 0]
    assert -10.0 < x_m[-1] + 2.5 <= LINE_M + 0.1


def test_traffic_stops_where_the_log_drives_through(batch, log):
    driven = SceneSimulation(batch, agents=open_traffic("idm").seat, strict=True).run()
    of_log, of_driven = (agents[agents["track_id"] == CAR] for agents in (log.agents[:], driven.records(0).agents))
    assert of_log["centroid"][-1, 0] > 40.0
    assert of_driven["centroid"][-1, 0] + of_driven["extent"][-1, 0] / 2 <= LINE_M + 0.1


def test_environments_see_the_light_charge_who_drives_over_it_and_hold_traffic(imported, tmp_path):
    pytest.importorskip("gymnasium")
    from l5kit.environment.envs.l5_env import SimulationConfigGym
    from l5kit.environment.envs.vector_env import L5VectorEnv
    from l5kit.environment.observations.compact_layout import EGO_COLUMNS, CompactLayout
    from support.environments import data_of, write_config

    params = {"observation": "compact", "reward": "driving", "actions": "bicycle", "others": "idm", "ends_at": []}
    args = {"env_config_path": write_config(tmp_path, **params), "dmg": data_of(imported), "randomize_start": False}
    args |= {"sim_cfg": SimulationConfigGym(num_simulation_steps=100)}
    env = L5VectorEnv(2, **args)
    layout, columns = CompactLayout(), [EGO_COLUMNS.index(name) for name in ("line_is_red", "line_distance")]

    # the first AV keeps its 8 m/s, the second one stops 29 m before the line
    seen, charged = env.reset(seed=1)[0], np.zeros(2)
    for step in range(90):
        assert seen[1, columns[0]] == 1.0
        actions = np.array([[0.0, 0.0], [-1.0 if step < 20 else 0.0, 0.0]], np.float32)
        seen, _, _, _, infos = env.step(actions)
        charged += infos["reward_red_light"]
    assert charged.tolist() == [-5.0, 0.0]
    to_line_m = layout.reach_m * seen[1, columns[1]] + 2.5
    assert 28.0 < to_line_m < 35.0
    to_car_m = layout.reach_m * seen[1, len(EGO_COLUMNS) + 4 * layout.num_route_points]
    assert to_line_m - 10.0 < to_car_m + 4.5 / 2 <= to_line_m + 0.1
