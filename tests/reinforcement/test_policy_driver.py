"""A policy drives in simulations as in environments, and what its file must be for that."""

import base64
import io
import json
import math
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from l5kit.closedloop.planners import open_planner
from l5kit.configs.config import save_config_data
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.data import ChunkedDataset
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_records import SceneRecords
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.policy_driver import PolicyDriver, RoutePolicyPlanner
from l5kit.environment.policy_options import POLICY_OPTIONS, PolicyOptions
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.planning.weights_file import is_policy
from l5kit.reinforcement import train_driver
from l5kit.reinforcement.environments import make_environments
from l5kit.reinforcement.folder import save_model
from l5kit.reinforcement.policy import make_algorithm
from l5kit.simulation.engine.actions import TrackedPlans
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, SceneSimulation, SimulationError
from l5kit.simulation.vehicle_models import VehicleStates
from support.driver_trainings import compact_config
from support.environments import data_of

KINDS = ("curvature", "bicycle", "pose_change", "grid", "route")
NUM_SCENES, NUM_FRAMES = 3, 100


def write_policy(folder, city, *, actions="curvature", gain=30.0, network="layers", compact=None):
    """Write a policy that does much, by what it sees, and return its file and environments of whole scenes."""
    cfg = compact_config(folder, actions=actions, num_simulation_steps=None)
    cfg["gym_params"]["compact"] = compact or {}
    cfg["rl_params"]["network"] = network
    config = folder / "config.yaml"
    save_config_data(cfg, str(config))
    envs = make_environments(cfg, config, data_of(city), num_envs=NUM_SCENES, train=False)
    options = PolicyOptions.of_cfg(cfg)
    model = make_algorithm(ReinforcementParams.from_cfg(cfg), envs, layout=options.layout)
    model.policy.action_net.weight.data *= gain
    options.keep_in(model)
    save_model(model, folder / "driver.zip")
    return folder / "driver.zip", envs


@pytest.fixture(scope="module")
def policy(city, tmp_path_factory):
    """File of a policy without its other files, never written to."""
    folder = tmp_path_factory.mktemp("policy")
    file, envs = write_policy(folder, city)
    envs.close()
    (folder / "config.yaml").unlink()
    return file


@pytest.fixture(scope="module")
def recorded(city):
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    return [SceneRecords.read(log, scene) for scene in range(NUM_SCENES)], log.facts


@pytest.fixture(scope="module")
def road(city, tmp_path_factory):
    cfg = compact_config(tmp_path_factory.mktemp("cfg"))
    return RoadMap(MapAPI.from_cfg(data_of(city), cfg))


@pytest.fixture
def make_batch(recorded, road):
    def make(*scenes, start=1, with_map=True):
        chosen = [recorded[0][scene] for scene in scenes or range(NUM_SCENES)]
        return SceneBatch.of_scenes(chosen, start=start, facts=recorded[1], road=road if with_map else None)

    return make


def drive(batch, driver, **args):
    """Poses of the AVs of all scenes, (S, F, 3), from the first frame that is simulated on."""
    driven = SceneSimulation(batch, ego=driver.seat, strict=True, **args).run()
    states = driven.ego_states(driven.finished)
    return np.concatenate([states.positions_m, states.yaws_rad[..., None]], axis=-1)


@pytest.mark.parametrize(
    ("actions", "asked", "tolerance_m"),
    [
        *(pytest.param(actions, "driver", 1e-9, id=actions) for actions in KINDS),
        pytest.param("curvature", "stable-baselines3", 1e-5, id="float32 of torch"),
    ],
)
def test_whole_scenes_are_driven_as_in_environments(
    city, tmp_path, make_batch, monkeypatch, actions, asked, tolerance_m
):
    file, envs = write_policy(tmp_path, city, actions=actions)
    model, driver, env = PPO.load(file), PolicyDriver.load(file), envs.env.unwrapped
    seen = envs.reset()
    for place in range(NUM_SCENES):
        mask = np.arange(NUM_SCENES) == place
        seen, _ = env.reset(options={"scene_id": place, "start_frame_index": 0, "reset_mask": mask})
    start = VehicleStates(*(np.array(column) for column in vars(env.episodes.avs.states_of(slice(None))).values()))
    monkeypatch.setattr(
        "l5kit.simulation.engine.scene_simulation.start_of_ego", lambda _: (start, np.zeros(NUM_SCENES))
    )
    poses, told = [], []
    for _ in range(1, NUM_FRAMES - 1):
        states = env.episodes.avs.states_of(slice(None))
        poses.append(np.column_stack([states.positions_m, states.yaws_rad]))
        if asked == "driver":
            values = driver.network.act(seen)
            told.append(values.argmax(axis=1) if actions == "grid" else values)
        else:
            told.append(model.predict(seen, deterministic=True)[0])
        seen, *_ = envs.step(told[-1])
    ways = drive(make_batch(), driver)[:, : len(poses)] - np.stack(poses, axis=1)
    ways[..., 2] = np.sin(ways[..., 2] / 2)  # headings may differ by whole turns
    np.testing.assert_allclose(ways, 0.0, atol=tolerance_m)
    assert np.ptp(np.array(told, float), axis=0).min() > 0.05  # what it does hangs on what it sees


def test_the_network_gives_what_that_of_stable_baselines3_does(policy):
    driver, seen = PolicyDriver.load(policy), np.random.default_rng(3).normal(size=(5, 390)).astype(np.float32)
    told = driver.network.act(seen)
    expected, _ = PPO.load(policy).predict(seen, deterministic=True)
    np.testing.assert_allclose(np.clip(told, -1, 1), expected, atol=1e-6)
    for row in range(5):
        np.testing.assert_array_equal(driver.network.act(seen[row : row + 1])[0], told[row])


ALONG = {"frame": "route", "num_lane_points": 0, "num_agents": 6}
"""A layout in the frame of the route."""


LANES = ALONG | {"forecast": "lanes"}


@pytest.mark.parametrize(
    "compact", [{}, ALONG, LANES, {"num_agents": 0}], ids=["usual", "route", "lanes", "no road users"]
)
@pytest.mark.parametrize("network", ["agents", "attention"])
def test_a_network_of_road_users_gives_what_torch_does(city, tmp_path, network, compact):
    file, envs = write_policy(tmp_path, city, network=network, compact=compact)
    driver, model = PolicyDriver.load(file), PPO.load(file)
    seen = envs.reset()
    seen[0, driver.options.layout.parts["agents"][0]] = 0.0  # no actors
    told = driver.network.act(seen)
    expected, _ = model.predict(seen, deterministic=True)
    assert np.isfinite(told).all()
    np.testing.assert_allclose(np.clip(told, -1, 1), expected, atol=2e-6)
    assert np.ptp(told, axis=0).max() > 0.01
    assert all(
        (layers.query is not None) == (network == "attention") for layers in driver.network.encoder.sets.values()
    )
    for row in range(NUM_SCENES):
        np.testing.assert_array_equal(driver.network.act(seen[row : row + 1])[0], told[row])


@pytest.mark.parametrize("network", ["agents", "attention"])
def test_the_order_of_road_users_does_not_matter_to_a_network_of_them(city, tmp_path, network):
    file, envs = write_policy(tmp_path, city, network=network, compact=ALONG)
    driver, seen = PolicyDriver.load(file), envs.reset()
    columns, shape = driver.options.layout.parts["agents"]
    other = seen.copy()
    other[:, columns] = seen[:, columns].reshape(-1, *shape)[:, ::-1].reshape(NUM_SCENES, -1)
    assert (other != seen).any()
    np.testing.assert_allclose(driver.network.act(other), driver.network.act(seen), atol=1e-6)


def test_the_first_scales_are_those_of_what_is_seen(city, tmp_path):
    file, _ = write_policy(tmp_path, city, network="agents", compact=ALONG)
    encoder = PolicyDriver.load(file).network.encoder
    columns, (count, width) = encoder.layout.parts["agents"]
    means, deviations = (scale[columns].reshape(count, width) for scale in encoder.scales)
    assert (np.ptp(means, axis=0) == 0).all()  # the same for all road users
    flags = slice(8, None)
    assert (means[0, flags] == 0).all()
    assert (deviations[0, flags] == 1).all()
    assert deviations.min() >= np.float32(0.05)
    assert means[0, 0] != 0


@pytest.mark.parametrize("with_map", [True, False], ids=["map", "no map"])
def test_a_scene_is_driven_alike_alone_and_with_others(policy, make_batch, with_map):
    driver = PolicyDriver.load(policy)
    together = drive(make_batch(with_map=with_map), driver)
    for scene in range(NUM_SCENES):
        np.testing.assert_array_equal(drive(make_batch(scene, with_map=with_map), driver)[0], together[scene])


def test_asked_again_it_says_the_same(policy, make_batch):
    driver = PolicyDriver.load(policy)
    simulation = SceneSimulation(make_batch(), ego=driver.seat)
    for _ in range(3):
        simulation.step()
    state = simulation.state()
    first, again, alone = driver.drive(state), driver.drive(state), driver.drive(state.only(1))
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.values[1:2], alone.values)


def test_the_route_is_that_of_the_whole_scene(policy, make_batch):
    driver = PolicyDriver.load(policy)
    for start in (1, 60):
        simulation = SceneSimulation(make_batch(start=start), ego=driver.seat)
        batch = simulation.batch
        sight = CompactSight(batch, CompactLayout(), threshold=0.5)
        whole = CompactSight(make_batch(start=0), CompactLayout(), threshold=0.5)
        state = simulation.state()
        np.testing.assert_array_equal(sight.look(state)[0], whole.look(state)[0])


def test_labels_count_as_in_the_training(make_batch):
    state = SceneSimulation(make_batch()).state()
    layout = CompactLayout()
    known, none = (
        layout.split(CompactSight(state.batch, layout, threshold=threshold).look(state)[0]) for threshold in (0.5, 1.5)
    )
    assert known["agents"][..., -1].sum() > 0
    assert none["agents"][..., 8:10].sum() == 0  # neither vehicles nor people
    np.testing.assert_array_equal(known["lanes"], none["lanes"])


def test_trainings_write_what_simulations_ask_for(city, tmp_path, make_batch):
    cfg = compact_config(tmp_path)
    told = []
    done = train_driver(cfg, tmp_path / "out", data_folder=city, tell=told.append)
    names = [word.split()[0] for word in told[0].partition(": ")[2].split(", ")]
    assert names == ["reward", "share_to_the_end", "share_without_collision", "share_without_off_road", "progress"]
    drivers = {path.stem: PolicyDriver.load(path) for path in done.folder.glob("*.zip")}
    assert drivers.keys() == {"first", "best", "driver"}
    assert PolicyDriver.load(done.folder).digest == drivers["driver"].digest != drivers["first"].digest
    options = PolicyOptions("compact", "curvature", 0.1, 0.5)
    assert {each.options for each in drivers.values()} == {options}
    assert PPO.load(done.folder / "first.zip").num_timesteps == 0
    assert np.isfinite(drive(make_batch(), drivers["first"])).all()
    longer = train_driver(cfg | {"rl_params": cfg["rl_params"] | {"total_steps": 96}}, done.folder, data_folder=city,
                          resume=True, tell=told.append)  # fmt: skip
    assert PolicyDriver.load(longer.driver).options == options
    assert PolicyDriver.load(done.folder / "first.zip").digest == drivers["first"].digest


def changed(policy, out, change):
    """Write a policy whose entry ``data`` is changed, and return its path."""
    with zipfile.ZipFile(policy) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                said = json.loads(content)
                change(said)
                content = json.dumps(said).encode()
            new.writestr(name, content)
    return out


def test_without_options_in_it_the_configuration_beside_it_counts(policy, tmp_path):
    file = changed(policy, tmp_path / "driver.zip", lambda said: said.pop(POLICY_OPTIONS))
    with pytest.raises(InvalidArgumentError, match="name the file in the folder of its training"):
        PolicyDriver.load(file)
    save_config_data(compact_config(tmp_path, actions="bicycle"), str(tmp_path / "config.yaml"))
    assert PolicyDriver.load(tmp_path).options.actions == "bicycle"


def test_a_folder_of_checkpoints_is_that_of_a_policy(policy, tmp_path):
    (tmp_path / "step_000000000128.zip").write_bytes(policy.read_bytes())
    assert is_policy(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"driver.zip'; .* name the step_000000000128.zip in it"):
        PolicyDriver.load(tmp_path)


def set_layout(said, **sizes):
    said[POLICY_OPTIONS]["layout"].update(sizes)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        pytest.param(
            lambda said: said.update(
                policy_kwargs={":serialized:": ""}, **{POLICY_OPTIONS: said[POLICY_OPTIONS] | {"observation": "raster"}}
            ),
            UnsupportedValueError,
            r"observation 'raster' and actions 'curvature'; .* gym_params.observation compact",
            id="pictures",
        ),
        pytest.param(
            lambda said: said[POLICY_OPTIONS].update(actions="poses"),
            UnsupportedValueError,
            "gym_params.actions bicycle, curvature, pose_change, grid",
            id="poses",
        ),
        pytest.param(
            lambda said: said[POLICY_OPTIONS].update(actions="grid"),
            InvalidArgumentError,
            "takes 390 values and gives 2; its options need 390 and 63",
            id="other actions",
        ),
        pytest.param(
            lambda said: set_layout(said, num_agents=3), InvalidArgumentError, "need 282 and 2", id="other layout"
        ),
        pytest.param(
            lambda said: set_layout(said, num_ducks=3), InvalidArgumentError, "does not know", id="unknown layout"
        ),
        pytest.param(
            lambda said: said[POLICY_OPTIONS].update(colour=3), InvalidArgumentError, "does not know", id="unknown key"
        ),
        pytest.param(
            lambda said: said[POLICY_OPTIONS].update(step_time_s="soon"),
            InvalidArgumentError,
            "does not know",
            id="a step time that is none",
        ),
        pytest.param(
            lambda said: said.update({POLICY_OPTIONS: None}), InvalidArgumentError, "does not know", id="no options"
        ),
        pytest.param(
            lambda said: said.update(policy_kwargs={":serialized:": ""}),
            InvalidArgumentError,
            "has another network",
            id="other network",
        ),
    ],
)
def test_policies_of_other_kinds_are_refused(policy, tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        PolicyDriver.load(changed(policy, tmp_path / "p.zip", change))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param(torch.full((2, 8), torch.nan), "not finite float32", id="not finite"),
        pytest.param(torch.zeros(2, 8, dtype=torch.bfloat16), "is broken", id="other numbers"),
        pytest.param("much", "is broken", id="no numbers"),
        pytest.param(torch.zeros(2, 9), "layer 1 has weights", id="more inputs than the layer before gives"),
        pytest.param(torch.zeros(3, 8), "layer 1 has weights", id="other outputs than offsets"),
        pytest.param(torch.zeros(2), "layer 1 has weights", id="one axis"),
        pytest.param(torch.zeros(1, 1).expand(10**6, 10**6), "is broken", id="one number that is said to be many"),
    ],
)
def test_weights_that_cannot_be_are_refused(policy, tmp_path, weights, message):
    with zipfile.ZipFile(policy) as old, zipfile.ZipFile(tmp_path / "p.zip", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "policy.pth":
                read, written = torch.load(io.BytesIO(content)), io.BytesIO()
                torch.save({**read, "action_net.weight": weights}, written)
                content = written.getvalue()
            new.writestr(name, content)
    with pytest.raises(InvalidArgumentError, match=message):
        PolicyDriver.load(tmp_path / "p.zip")


def test_files_that_are_no_policies_are_refused(policy, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"name the best\.zip in it"):
        PolicyDriver.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="check the spelling"):
        PolicyDriver.load(tmp_path / "none.zip")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(policy.read_bytes()[:5000])
    with pytest.raises(InvalidArgumentError, match="is broken"):
        PolicyDriver.load(broken)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(InvalidArgumentError, match="is not a policy of l5kit train-rl"):
        PolicyDriver.load(other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", pickle.dumps(Path, protocol=2))
    with pytest.raises(InvalidArgumentError, match="is broken"):
        PolicyDriver.load(other)


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in its weights"])
def test_files_that_would_be_many_times_their_size_are_refused(policy, tmp_path, inside):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("weights", bytes(80 << 20))
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("data", zipfile.ZipFile(policy).read("data"))
        archive.writestr("policy.pth", bomb.getvalue())
    if not inside:
        (tmp_path / "p.zip").write_bytes(bomb.getvalue())
    with pytest.raises(InvalidArgumentError, match=r"would be 83,886,080 unpacked; at most 67,108,864 are read"):
        PolicyDriver.load(tmp_path / "p.zip")


def test_nothing_that_a_file_has_pickled_is_loaded(policy, tmp_path):
    class Writes:
        def __reduce__(self):
            return Path.touch, (tmp_path / "touched",)

    pickled = {":type:": "x", ":serialized:": base64.b64encode(cloudpickle.dumps(Writes())).decode()}
    file = changed(policy, tmp_path / "p.zip", lambda said: said.update(lr_schedule=pickled, policy_class=pickled))
    assert PolicyDriver.load(file).network.num_outputs == 2
    assert not (tmp_path / "touched").exists()


def drive_agents(batch, driver):
    return SceneSimulation(batch, agents=driver.agent_seat, strict=True).run()


def test_agents_are_driven_alike_alone_and_with_others(policy, make_batch):
    driver = PolicyDriver.load(policy)
    together = drive_agents(make_batch(), driver)
    assert together.was_driven.sum() > NUM_SCENES
    for scene in range(NUM_SCENES):
        alone = drive_agents(make_batch(scene), driver)
        assert alone.records(0).agents.tobytes() == together.records(scene).agents.tobytes()


def test_an_agent_sees_what_the_av_would_in_its_place(policy, make_batch):
    """The route, its speed and its size are its own, and the AV is one of the road users."""
    driver = PolicyDriver.load(policy)
    seen = []

    class Spy:
        def drive(self, state):
            sight = CompactSight(state.batch, driver.options.layout, threshold=0.5, of_agents=True)
            seen.append((state, *sight.look(state)))
            return driver.drive(state)

    seat = replace(driver.agent_seat, driver=Spy())
    SceneSimulation(make_batch(0), agents=seat, strict=True).step()
    state, rows, routes = seen[0]
    layout = driver.options.layout
    assert rows.shape == (len(state), layout.size)
    np.testing.assert_allclose(rows[:, 0], state.actor_states.speeds_mps / 20.0, rtol=1e-6)
    np.testing.assert_allclose(rows[:, 3], state.actor_states.lengths_m / 10.0, rtol=1e-6)
    assert (np.abs(routes.positions[:, 1]) < 2.5).all()
    columns, (count, width) = layout.parts["agents"]
    others = rows[:, columns].reshape(len(state), count, width)
    offsets_m = others[..., :2] * layout.reach_m
    is_there = others[..., -1] > 0
    assert np.linalg.norm(offsets_m, axis=-1)[is_there].min() > 1.0  # actors do not see themselves
    nearest = int(np.argmin(np.linalg.norm(state.agents.boxes[state.actors][:, :2] - state.ego.positions_m[0], axis=1)))
    apart_m = np.linalg.norm(state.agents.boxes[state.actors[nearest], :2] - state.ego.positions_m[0])
    assert np.abs(np.linalg.norm(offsets_m[nearest], axis=-1) - apart_m).min() < 0.01


def test_agents_without_a_map_and_other_steps_are_refused(policy, make_batch):
    driver = PolicyDriver.load(policy)
    agents = AgentSeat(driver, driver.seat.model, control=AgentControl.of_traffic())
    with pytest.raises(SimulationError, match="no map with lanes"):
        SceneSimulation(make_batch(with_map=False), agents=agents, strict=True).run()
    slow = PolicyDriver(driver.network, PolicyOptions("compact", "curvature", 0.2, 0.5), "")
    with pytest.raises(SimulationError, match=r"takes 0\.1 s; the policy was trained with steps of 0\.2 s"):
        drive(make_batch(), slow)


def test_a_policy_along_the_route_plans_where_it_goes_on_to(city, tmp_path, make_batch):
    """Its plan begins with what its controls do, keeps to the route, and holds braking longer than acceleration."""
    file, envs = write_policy(tmp_path, city, actions="route", compact=ALONG)
    envs.close()
    driver = PolicyDriver.load(file)
    simulation = SceneSimulation(make_batch(start=20), ego=driver.seat)
    state = simulation.state()
    controls = driver.drive(replace(state, memory={}))
    plan = driver.as_planner.drive(replace(state, memory={}))
    assert plan.values.shape == (NUM_SCENES, 40, 3)
    first = driver.actions.model.step(state.ego, controls.values, state.step_time_s)
    np.testing.assert_allclose(plan.values[:, 0, :2], first.positions_m, atol=1e-9)
    ways_m = np.linalg.norm(np.diff(plan.values[..., :2], axis=1), axis=-1)
    speeds_mps = np.concatenate([state.ego.speeds_mps[:, None], ways_m / state.step_time_s], axis=1)
    assert (np.diff(speeds_mps[:, -20:], axis=1) < 0.02).all()  # nobody accelerates in the last frame
    curvature = PolicyDriver.load(write_policy(tmp_path, city)[0])
    assert curvature.as_planner is None


class Steady:
    """A network that always says the same."""

    num_outputs = 1

    def __init__(self, action, num_inputs):
        self.action, self.num_inputs = action, num_inputs

    def act(self, seen):
        return np.full((len(seen), 1), self.action, np.float32)


@pytest.mark.parametrize("action", [1.0, -1.0])
def test_a_plan_holds_braking_longer_than_acceleration(city, tmp_path, make_batch, action):
    file, envs = write_policy(tmp_path, city, actions="route", compact=ALONG)
    envs.close()
    options = PolicyDriver.load(file).options
    driver = PolicyDriver(Steady(action, options.layout.size), options, "steady")
    state = SceneSimulation(make_batch(start=20), ego=driver.seat).state()
    slow = replace(state.ego, speeds_mps=np.full(NUM_SCENES, 4.0), accelerations_mps2=np.zeros(NUM_SCENES))
    plan = driver.as_planner.drive(replace(state, ego=slow, actor_states=slow, memory={}))
    ways_m = np.linalg.norm(np.diff(plan.values[..., :2], axis=1), axis=-1)
    speeds_mps = ways_m / state.step_time_s
    if action > 0:
        assert (speeds_mps[:, 13] > 5.0).all()
        assert (np.diff(speeds_mps[:, 28:], axis=1) < 0.02).all()
    else:
        assert (speeds_mps[:, -1] < 0.05).all()


def test_a_drive_that_goes_on_from_braking_begins_gently(city, tmp_path, make_batch):
    file, envs = write_policy(tmp_path, city, actions="route", compact=ALONG)
    envs.close()
    options = PolicyDriver.load(file).options
    driver = PolicyDriver(Steady(-1.0, options.layout.size), options, "steady")
    state = SceneSimulation(make_batch(start=20), ego=driver.seat).state()
    braking = replace(state.ego, speeds_mps=np.full(NUM_SCENES, 8.0), accelerations_mps2=np.full(NUM_SCENES, -1.5))
    begun = replace(state, ego=braking, actor_states=braking, memory={})
    later = replace(begun, frame_indices=state.frame_indices + 10, memory={})
    np.testing.assert_allclose(driver.drive(begun).values[:, 0], -1.72)  # 2.2 m/s3 in the first second
    assert (driver.drive(later).values[:, 0] < -1.8).all()


def test_rules_judge_the_plan_of_a_policy_along_the_route(city, tmp_path):
    file, envs = write_policy(tmp_path, city, actions="route", compact=ALONG)
    envs.close()
    planner = open_planner(str(file), fallback="rules")
    assert isinstance(planner.seat.driver.planner, RoutePolicyPlanner)
    assert isinstance(planner.seat.model, TrackedPlans)
    assert planner.digest != open_planner(str(file)).digest


def changed_policy(file, folder, change, *, options=None):
    """Copy the file of a policy with other weights, which a function changes, and other options."""
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    weights = torch.load(io.BytesIO(entries["policy.pth"]), weights_only=True)
    change(weights)
    stored = io.BytesIO()
    torch.save(weights, stored)
    entries["policy.pth"] = stored.getvalue()
    content = json.loads(entries["data"])
    content[POLICY_OPTIONS] |= options or {}
    entries["data"] = json.dumps(content).encode()
    target = folder / "changed.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name, value in entries.items():
            archive.writestr(name, value)
    return target


MEANS, DEVIATIONS, OWN = (f"features_extractor.{name}" for name in ("means", "deviations", "own.bias"))
QUERY, QUERY_OFFSETS, MIX, *SECOND = (
    f"features_extractor.sets.agents.{name}"
    for name in ("query.weight", "query.bias", "mix.weight", "each.2.weight", "each.2.bias")
)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda w: w.update({MEANS: torch.zeros(7)}), id="short means"),
        pytest.param(
            lambda w: w.update({MEANS: torch.zeros(99999, 1), DEVIATIONS: torch.ones(1, 99999)}), id="an outer product"
        ),
        pytest.param(lambda w: w.update({OWN: torch.tensor(0.0)}), id="no axis"),
        pytest.param(lambda w: w.update({OWN: w[OWN][:, None]}), id="an axis more"),
        pytest.param(lambda w: w.update({DEVIATIONS: torch.zeros_like(w[DEVIATIONS])}), id="divides by 0"),
        pytest.param(lambda w: w.update({OWN: w[OWN] * np.nan}), id="no numbers"),
        pytest.param(lambda w: w.update({OWN: w[OWN].to("meta")}), id="without values"),
        pytest.param(lambda w: w.update({3: w[OWN]}), id="a name that is a number"),
        pytest.param(lambda w: w.pop(OWN), id="missing"),
    ],
)
def test_networks_of_road_users_that_are_broken_are_refused(city, tmp_path, change):
    file, envs = write_policy(tmp_path, city, network="agents", compact=ALONG)
    envs.close()
    with pytest.raises(InvalidArgumentError, match=r"is broken|is not a policy|has another network"):
        PolicyDriver.load(changed_policy(file, tmp_path, change))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        pytest.param(lambda w: w.pop(QUERY), "agents.query", id="no weights"),
        pytest.param(lambda w: w.pop(QUERY_OFFSETS), "agents.query", id="no offsets"),
        pytest.param(lambda w: [w.pop(name) for name in (QUERY, QUERY_OFFSETS)], "agents.mix", id="no query"),
        pytest.param(lambda w: w.update({QUERY: w[QUERY][:, 1:]}), "agents.query", id="of other values"),
        pytest.param(
            lambda w: w.update({QUERY: w[QUERY][:-1], QUERY_OFFSETS: w[QUERY_OFFSETS][:-1]}),
            "agents.query",
            id="a part of a head",
        ),
        pytest.param(
            lambda w: w.update({QUERY: w[QUERY][:0], QUERY_OFFSETS: w[QUERY_OFFSETS][:0]}),
            "agents.query",
            id="no heads",
        ),
        pytest.param(
            lambda w: w.update({name: w[name][:0] for name in (*SECOND, QUERY, QUERY_OFFSETS)} | {MIX: w[MIX][:, :0]}),
            "agents.second",
            id="no width",
        ),
        pytest.param(lambda w: w.update({MIX: w[MIX][:, :64]}), "agents.mix", id="one head is mixed"),
        pytest.param(lambda w: w.update({QUERY: w[QUERY] * np.nan}), "numbers", id="no numbers"),
    ],
)
def test_networks_with_attention_that_are_broken_are_refused(city, tmp_path, change, wrong):
    file, envs = write_policy(tmp_path, city, network="attention", compact=ALONG)
    envs.close()
    with pytest.raises(InvalidArgumentError, match=rf"is broken .* do not fit: {wrong}"):
        PolicyDriver.load(changed_policy(file, tmp_path, change))


@pytest.mark.parametrize("options", [{"step_time_s": math.nan}, {"step_time_s": -1.0}, {"threshold": math.inf}])
def test_options_that_mean_nothing_are_refused(policy, tmp_path, options):
    with pytest.raises(InvalidArgumentError, match="which this version of l5kit does not know"):
        PolicyDriver.load(changed_policy(policy, tmp_path, lambda _: None, options=options))


def test_damaged_weights_are_refused_in_one_way(city, tmp_path):
    """Whatever the reader of torch raises for bytes that are wrong."""
    file, envs = write_policy(tmp_path, city)
    envs.close()
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    inner = zipfile.ZipFile(io.BytesIO(entries["policy.pth"]))
    names = inner.namelist()
    pickled = next(name for name in names if name.endswith("data.pkl"))
    rng = np.random.default_rng(0)
    num_refused = 0
    for _ in range(60):
        damaged = bytearray(inner.read(pickled))
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = rng.integers(256)
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w") as archive:
            for name in names:
                archive.writestr(name, bytes(damaged) if name == pickled else inner.read(name))
        with zipfile.ZipFile(tmp_path / "damaged.zip", "w") as archive:
            for name, value in entries.items():
                archive.writestr(name, stored.getvalue() if name == "policy.pth" else value)
        try:
            PolicyDriver.load(tmp_path / "damaged.zip")
        except InvalidArgumentError:
            num_refused += 1
    assert num_refused > 20


def test_a_function_drives_as_the_policy_that_it_calls(policy, make_batch):
    of_file = PolicyDriver.load(policy)
    of_function = PolicyDriver.of_function(of_file.network.act, of_file.options)
    np.testing.assert_array_equal(drive(make_batch(), of_function), drive(make_batch(), of_file))
    assert open_planner(of_function.seat).seat.driver is of_function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(lambda seen: np.zeros((len(seen), 3)), r"shape \(\d, 2\) for \d observations, got", id="shape"),
        pytest.param(lambda seen: np.full((len(seen), 2), np.nan), "not all finite", id="no numbers"),
    ],
)
def test_what_a_function_gives_is_checked(policy, make_batch, function, message):
    driver = PolicyDriver.of_function(function, PolicyDriver.load(policy).options)
    with pytest.raises((InvalidArgumentError, SimulationError), match=message):
        drive(make_batch(), driver)


def test_a_function_for_pictures_is_refused(policy):
    options = replace(PolicyDriver.load(policy).options, observation="raster")
    with pytest.raises(UnsupportedValueError, match="observation 'raster'"):
        PolicyDriver.of_function(np.asarray, options)
