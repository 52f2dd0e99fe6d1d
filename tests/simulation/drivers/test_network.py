"""Networks that drive: the same drive as under the interface of 1.5, what they see, chunks, and what is refused."""

import re
import warnings

import numpy as np
import pytest
import torch

from l5kit.data import LocalDataManager
from l5kit.data.scene_records import SceneRecords
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from l5kit.rasterization import build_rasterizer
from l5kit.simulation.drivers.network import NetworkDriver, whole_batch
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.unroll import ClosedLoopSimulator, SimulationConfig
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.logs import make_scene
from support.rule_models import RuleModel, step_model
from support.samples import make_cfg
from support.workflows import small_config

NUM_FRAMES = 40
HISTORY = {"gain": 0.98, "yaw_gain": 0.9, "default_dx": 0.4}
RULES = {
    "raster": lambda: RuleModel("image_mean", channels=[0, 3, 6], bias=0.4, gain=2.0, pivot=0.3, yaw_gain=0.05),
    "vector": lambda: RuleModel("lanes", base=0.3, slope=0.5, yaw_gain=0.002),
}


@pytest.fixture(scope="module")
def datasets(city, log):
    """A dataset of rasters and one of vectors."""
    raster, vector = small_config("raster_planner"), small_config("vector_planner")
    manager = LocalDataManager(city)
    return {
        "raster": EgoDataset(raster, log, build_rasterizer(raster, manager)),
        "vector": EgoDatasetVectorized(vector, log, build_vectorizer(vector, manager)),
    }


@pytest.fixture(scope="module")
def batch(scenes):
    return SceneBatch.of_scenes(scenes, num_frames=NUM_FRAMES)


def drive(batch, *, ego=None, agents=None, control=None, **options):
    ego_seat = None if ego is None else EgoSeat(ego, PlannedPoses())
    agent_seat = None if agents is None else AgentSeat(agents, control=control or AgentControl())
    return SceneSimulation(batch, ego=ego_seat, agents=agent_seat, **options).run()


class Recording(torch.nn.Module):
    """Stays, and remembers the batches that it got."""

    def __init__(self, **outputs):
        super().__init__()
        self.batches, self.outputs = [], outputs

    def forward(self, batch):
        self.batches.append(batch)
        size = len(batch["track_id"])
        return {"positions": torch.zeros(size, 3, 2), "yaws": torch.zeros(size, 3, 1)} | self.outputs


class Small(torch.nn.Module):
    """A network with random weights that looks at where its target was."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 9))
        self.sizes = []

    def forward(self, batch):
        self.sizes.append(len(batch["yaw"]))
        outputs = self.layers(batch["history_positions"][:, :2].flatten(1)).unflatten(1, (3, 3))
        return {"positions": outputs[..., :2], "yaws": 0.1 * outputs[..., 2:]}


@pytest.mark.parametrize("drives_agents", [False, True])
@pytest.mark.parametrize("kind", RULES)
def test_it_drives_as_under_the_interface_of_1_x(kind, drives_agents, datasets, batch):
    ego, agents = RULES[kind](), RuleModel("history", **HISTORY)
    reach = {"distance_th_close": 25, "distance_th_far": 40}
    config = SimulationConfig(
        use_ego_gt=False, use_agents_gt=not drives_agents, num_simulation_steps=NUM_FRAMES, **reach
    )
    simulator = ClosedLoopSimulator(config, datasets[kind], torch.device("cpu"), ego, agents)
    expected = simulator.unroll([0, 1, 2])
    of_agents = NetworkDriver(agents, datasets[kind]) if drives_agents else None
    driven = drive(
        batch,
        ego=NetworkDriver(ego, datasets[kind]),
        agents=of_agents,
        control=AgentControl(near_m=25.0, far_m=40.0),
        strict=True,
    )
    assert driven.was_driven.any() == drives_agents
    for scene, output in enumerate(expected):
        records = driven.records(scene)
        for field in ("ego_translation", "ego_rotation"):
            np.testing.assert_allclose(records.frames[field], output.simulated_ego[field], rtol=0, atol=1e-9)
        assert records.agents["track_id"].tolist() == output.simulated_agents["track_id"].tolist()
        for field in ("centroid", "yaw", "extent", "label_probabilities"):
            np.testing.assert_allclose(records.agents[field], output.simulated_agents[field], rtol=0, atol=1e-9)
        moved_m = records.frames["ego_translation"] - batch.recorded[scene].frames["ego_translation"][:NUM_FRAMES]
        assert np.abs(moved_m).max() > 0.5


@pytest.mark.parametrize("kind", RULES)
def test_chunks_change_nothing(kind, datasets, batch):
    control = AgentControl.of_traffic()
    poses, sizes = [], []
    for max_batch in (1000, 5):
        model = Small().eval()
        driver = NetworkDriver(model, datasets[kind], max_batch=max_batch)
        driven = drive(batch, ego=driver, agents=driver, control=control, strict=True)
        poses.append([driven.records(scene).agents["centroid"] for scene in range(3)])
        sizes.append(max(model.sizes))
    assert sizes[0] > 5 == sizes[1]
    for whole, chunked in zip(*poses, strict=True):
        np.testing.assert_allclose(chunked, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", RULES)
def test_the_future_is_not_seen_unless_it_is_asked_for(kind, datasets, batch):
    blind, seeing = Recording(), Recording()
    drive(batch, ego=NetworkDriver(blind, datasets[kind]), strict=True)
    drive(batch, ego=NetworkDriver(seeing, datasets[kind], inputs=whole_batch), strict=True)
    hidden = set(seeing.batches[0]) - set(blind.batches[0])
    assert {"target_positions", "target_availabilities"} <= hidden
    assert all(re.match("target_|all_other_agents_future_|future_extents$|speed$", key) for key in hidden)
    assert len(blind.batches) == len(seeing.batches) == NUM_FRAMES - 1
    assert set(seeing.batches[0]) == {"scene_index", *datasets[kind][0]}


def test_samples_are_those_of_the_scene_as_it_is_now(datasets, batch):
    """A car that stays is where it was at first, in every frame that its network sees."""
    model = Recording()
    driven = drive(batch, ego=NetworkDriver(model, datasets["vector"]), strict=True)
    centroids = torch.stack([each["centroid"] for each in model.batches])
    np.testing.assert_allclose(centroids, centroids[:1].expand_as(centroids), atol=1e-9)
    assert model.batches[-1]["scene_index"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(
        driven.records(0).frames["ego_translation"][:, :2], centroids[0, :1].expand(NUM_FRAMES, 2), atol=1e-9
    )


def test_steps_that_are_longer_than_those_of_the_log(log, batch):
    cfg = small_config("raster_planner", model_params={"future_step_size": 2})
    driver = NetworkDriver(step_model(1.0), EgoDataset(cfg, log, None))
    assert driver.step_time_s == pytest.approx(0.2)
    driven = drive(batch, ego=driver, strict=True, keeps_plans=True)
    np.testing.assert_allclose(driven.plan_times_s, [0.2, 0.4, 0.6])
    ways_m = np.linalg.norm(np.diff(driven.records(0).frames["ego_translation"], axis=0), axis=1)
    np.testing.assert_allclose(ways_m, 0.5, atol=1e-9)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [({"yaws": torch.zeros(1)}, "'yaws' of shape \\(1,\\)"), ({"positions": torch.zeros(3, 3, 2) + np.nan}, "finite")],
)
def test_wrong_outputs_are_faults_of_the_scenes(outputs, message, datasets, batch):
    driven = drive(batch, ego=NetworkDriver(Recording(**outputs), datasets["vector"]))
    assert sorted(driven.faults) == [0, 1, 2]
    assert all(fault.frame_index == 0 and re.search(message, fault.message) for fault in driven.faults.values())


def test_agents_without_a_sample_go_straight_on():
    """From frame 2 on the car is not known well enough for the dataset, which makes no sample of it."""
    frames = [
        [{"track_id": 1, "centroid": (f, 0), "velocity": (10, 0), "labels": {"CAR": 1.0 if f < 2 else 0.6}}]
        for f in range(6)
    ]
    log = make_scene(frames, positions_m=(0.0, 50.0))
    scene = SceneRecords.read(log, 0)
    driver = NetworkDriver(step_model(), EgoDataset(make_cfg(filter_agents_threshold=0.8), log, None))
    batch = SceneBatch.of_scenes([scene], start=3)
    driven = drive(batch, agents=driver, control=AgentControl.of_traffic(), strict=True)
    assert driven.was_driven.tolist() == [True]
    np.testing.assert_allclose(driven.records(0).agents["centroid"], [[3, 0], [4, 0], [5, 0]], atol=1e-6)


def test_what_a_driver_warns_of(log):
    cfg = make_cfg()
    perturbation = AckermanPerturbation(ReplayRandomGenerator(np.ones((4, 3))), 1.0)
    perturbed = EgoDataset(cfg, log, None, perturbation)
    with pytest.warns(RuntimeWarning, match="perturbation") as caught:
        driver = NetworkDriver(Small().eval(), perturbed)
    assert [warning.filename for warning in caught] == [__file__]
    assert driver.dataset.perturbation is None
    assert perturbed.perturbation is perturbation
    model = Small()
    with pytest.warns(RuntimeWarning, match="training mode") as caught:
        NetworkDriver(model, EgoDataset(cfg, log, None))
    assert [warning.filename for warning in caught] == [__file__]
    assert model.training
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NetworkDriver(step_model(), EgoDataset(cfg, log, None))


def test_what_a_driver_refuses(log):
    class Own(EgoDataset):
        def get_frame(self, scene_index, state_index, track_id=None):
            return super().get_frame(scene_index, state_index, track_id)

    dataset = EgoDataset(make_cfg(), log, None)
    with pytest.raises(UnsupportedValueError, match="one by one"):
        NetworkDriver(step_model(), Own(make_cfg(), log, None))
    with pytest.raises(InvalidArgumentError, match="max_batch is 0"):
        NetworkDriver(step_model(), dataset, max_batch=0)
    with pytest.raises(InvalidArgumentError, match="headings is 'none'"):
        NetworkDriver(step_model(), dataset, headings="none")
