"""Checkpoints that drive: all workflows, all kinds of files, and what is refused."""

import dataclasses
import pickle
import shutil

import numpy as np
import pytest
import torch
import yaml

from l5kit.configs.runs import WORKFLOWS
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.data.log_facts import LogFacts
from l5kit.data.scene_records import SceneRecords
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.checkpoint import export_torchscript, read_checkpoint
from l5kit.planning.network_inputs import network_inputs
from l5kit.planning.network_plans import read_plans
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.training import train
from l5kit.workflows import TrainingConfig, open_samples
from l5kit.workflows.drivers import DriverCheckpoint, load_driver
from l5kit.workflows.trained_network import load_network
from support.models import one_thread
from support.networks import save_network
from support.tolerances import NETWORK
from support.workflows import small_config

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of", "ignore:.*torch.jit.*deprecated")

OF_AGENTS = ("simnet", "agent_motion", "agent_motion_multimodal")
NUM_FRAMES = 5


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


@pytest.fixture(scope="module")
def files(city, tmp_path_factory):
    """A file with an untrained network of each workflow."""
    folder = tmp_path_factory.mktemp("networks")
    return {workflow: save_network(workflow, city, folder) for workflow in WORKFLOWS}


@pytest.fixture(scope="module")
def batch(log):
    return SceneBatch.of_scenes([SceneRecords.read(log, scene) for scene in range(3)], start=20, num_frames=NUM_FRAMES)


def whom_of(workflow):
    return "agents" if workflow in OF_AGENTS else "ego"


def plans_of(driver, batch):
    """Plans of a driver of the AVs in each step."""
    simulation = SceneSimulation(batch, ego=EgoSeat(driver, PlannedPoses()), keeps_plans=True, strict=True)
    return simulation.run().plans[:, : NUM_FRAMES - 1]


@pytest.mark.parametrize("workflow", [name for name in WORKFLOWS if name not in OF_AGENTS])
def test_what_is_driven_is_the_plan_of_open_loop(workflow, files, city, batch):
    config = TrainingConfig.from_cfg(read_checkpoint(files[workflow]).config)
    samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
    network = load_network(files[workflow], config, samples, allow_pickle=False)
    seen = collate(samples.__getitems__([20, 120, 220]))
    with torch.no_grad():
        plans = read_plans(network(network_inputs(seen)), 3)
    poses = plans.in_world(seen["world_from_agent"].numpy(), seen["yaw"].numpy())
    driven = plans_of(load_driver(files[workflow], whom="ego", data_folder=city), batch)
    assert driven.shape[2] == config.params.future_num_frames
    np.testing.assert_allclose(driven[:, 0], poses, rtol=0, atol=NETWORK)
    assert np.isfinite(driven).all()


@pytest.mark.parametrize("workflow", OF_AGENTS)
@pytest.mark.parametrize("rules", ["1.5", "traffic"])
def test_agents_of_a_made_city_are_driven(workflow, rules, files, city, batch):
    control = AgentControl() if rules == "1.5" else AgentControl.of_traffic()
    driver = load_driver(files[workflow], whom="agents", data_folder=city, max_batch=16)
    driven = SceneSimulation(batch, agents=AgentSeat(driver, control=control), strict=True).run()
    assert np.count_nonzero(driven.was_driven) > (3 if rules == "1.5" else 30)
    for scene in range(3):
        moved, logged = driven.records(scene), batch.recorded[scene].cut(20, 20 + NUM_FRAMES)
        tracks = batch.tracks.track_ids[driven.was_driven & (batch.tracks.scenes_of_tracks == scene)]
        found = [{row["track_id"]: tuple(row["centroid"]) for row in each.agents} for each in (moved, logged)]
        assert all(found[0][track] != found[1][track] for track in tracks if track in found[1])
        assert np.isfinite(moved.agents["centroid"]).all()


@pytest.mark.parametrize("workflow", ["raster_planner", "simnet"])
def test_one_by_one_a_scene_does_not_depend_on_its_batch(workflow, files, city, batch):
    driver = load_driver(files[workflow], whom=whom_of(workflow), data_folder=city, max_batch=1)
    control = AgentControl.of_traffic()
    seats = {"ego": EgoSeat(driver)} if workflow == "raster_planner" else {"agents": AgentSeat(driver, control=control)}
    together = SceneSimulation(batch, **seats, strict=True).run()
    for scene in (0, 2):
        one = SceneBatch.of_scenes([batch.recorded[scene]], start=20, num_frames=NUM_FRAMES)
        alone = SceneSimulation(one, **seats, strict=True).run()
        assert alone.records(0).frames.tobytes() == together.records(scene).frames.tobytes()
        assert alone.records(0).agents.tobytes() == together.records(scene).agents.tobytes()


def test_a_training_drives(city, batch, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 2})
    result = train(cfg, tmp_path / "planner", data_folder=city)
    of_folder = load_driver(tmp_path / "planner", whom="ego", data_folder=city)
    of_file = load_driver(result.weights, whom="ego", data_folder=city)
    of_state = load_driver(tmp_path / "planner" / "last.ckpt", whom="ego", data_folder=city)
    plans = plans_of(of_folder, batch)
    assert np.isfinite(plans).all()
    np.testing.assert_array_equal(plans_of(of_file, batch), plans)
    np.testing.assert_array_equal(plans_of(of_state, batch), plans)


@pytest.mark.parametrize("kind", ["state dict", "lightning", "torchscript"])
@pytest.mark.parametrize("is_beside", [True, False])
def test_files_of_1_x(kind, is_beside, files, city, batch, tmp_path):
    config = read_checkpoint(files["raster_planner"]).config
    driver = load_driver(files["raster_planner"], whom="ego", data_folder=city)
    file = tmp_path / "planner.pt"
    weights = driver.model.state_dict()
    if kind == "torchscript":
        export_torchscript(file, driver.model)
    else:
        torch.save(
            weights if kind == "state dict" else {"state_dict": {f"model.{key}": weights[key] for key in weights}}, file
        )
    given = {key: value for key, value in config.items() if key not in ("train_params", "train_data_loader")}
    if is_beside:
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(given))
    other = load_driver(file, whom="ego", data_folder=city, cfg=None if is_beside else given)
    np.testing.assert_array_equal(plans_of(other, batch), plans_of(driver, batch))
    if not is_beside:
        with pytest.raises(ConfigError, match="--config FILE"):
            load_driver(file, whom="ego", data_folder=city)


@pytest.mark.parametrize(
    ("workflow", "whom", "message"),
    [
        ("agent_motion", "ego", "drives agents, not the AV; pass it with --agents"),
        ("simnet", "ego", "drives agents, not the AV; pass it with --agents"),
        ("vector_planner", "agents", "drives the AV, not agents; pass it with --planner"),
    ],
)
def test_networks_drive_whom_they_were_trained_for(workflow, whom, message, files, city):
    with pytest.raises(InvalidArgumentError, match=message):
        load_driver(files[workflow], whom=whom, data_folder=city)


def test_what_is_no_checkpoint_to_drive(files, city, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_driver(tmp_path / "nothing", whom="ego", data_folder=city)
    with pytest.raises(InvalidArgumentError, match="whom is 'cars'"):
        load_driver(files["simnet"], whom="cars", data_folder=city)
    with pytest.raises(FileNotFoundError, match="semantic_map"):
        load_driver(files["simnet"], whom="agents", data_folder=tmp_path)
    if not torch.cuda.is_available():
        with pytest.raises(InvalidArgumentError, match="no CUDA"):
            load_driver(files["simnet"], whom="agents", data_folder=city, device="cuda")


@pytest.mark.parametrize("workflow", ["vector_planner", "simnet"])
def test_a_checkpoint_is_sent_to_another_process(workflow, files, city, batch):
    checkpoint = DriverCheckpoint(files[workflow], whom_of(workflow), city)
    sent = pickle.dumps(checkpoint)
    assert len(sent) < 50_000
    driver = pickle.loads(sent).load()
    again = pickle.loads(pickle.dumps(driver))
    if workflow == "vector_planner":
        np.testing.assert_array_equal(plans_of(again, batch), plans_of(driver, batch))


def test_the_digest_tells_weights_and_configuration_apart(files, city, tmp_path):
    config = read_checkpoint(files["vector_planner"]).config
    checkpoint = DriverCheckpoint(files["vector_planner"], "ego", city)
    copied = shutil.copy(files["vector_planner"], tmp_path / "other.safetensors")
    assert dataclasses.replace(checkpoint, checkpoint=copied).digest == checkpoint.digest
    changed = {**config, "raster_params": {**config["raster_params"], "filter_agents_threshold": 0.4}}
    assert dataclasses.replace(checkpoint, cfg=changed).digest != checkpoint.digest
    urban_driver = DriverCheckpoint(files["urban_driver"], "ego", city)
    assert urban_driver.digest != checkpoint.digest


def test_facts_of_the_log_reach_the_samples(files, city):
    facts = LogFacts(ego_extent_m=(5.2, 2.1, 1.9), step_time_s=0.1)
    driver = load_driver(files["vector_planner"], whom="ego", data_folder=city, facts=facts)
    assert driver.dataset.sample_function.ego_extent_m == (5.2, 2.1, 1.9)
    with pytest.warns(RuntimeWarning, match="step_time"):
        load_driver(files["vector_planner"], whom="ego", data_folder=city, facts=LogFacts(step_time_s=0.5))
