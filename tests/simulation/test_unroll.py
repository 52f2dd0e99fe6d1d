"""Unrolling of scenes: moved agents, stored results, and refusals."""

import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from l5kit.rasterization.stub_rasterizer import StubRasterizer
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.unroll import (
    ClosedLoopSimulator,
    ClosedLoopSimulatorModes,
    SimulationOutput,
    SimulationOutputCLE,
    TrajectoryStateIndices,
    UnrollInputOutput,
)
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_scene
from support.maps import make_map
from support.rule_models import RuleModel, step_model
from support.samples import make_cfg, make_stub
from support.vectors import make_vector_cfg

CPU = torch.device("cpu")
CFG = make_cfg(history_num_frames=2, future_num_frames=3, raster_size=[16, 12])
MakeDataset = Callable[..., EgoDataset]
HISTORY = {"gain": 1.0, "yaw_gain": 1.0, "default_dx": 0.4}


def unroll(
    dataset: Any,
    scenes: list[int],
    *,
    ego: torch.nn.Module | None = None,
    agents: torch.nn.Module | None = None,
    **config: Any,
) -> list[SimulationOutput]:
    sim_cfg = SimulationConfig(use_ego_gt=ego is None, use_agents_gt=agents is None, **config)
    return ClosedLoopSimulator(sim_cfg, dataset, CPU, ego, agents).unroll(scenes)


def test_indices_of_states_and_modes() -> None:
    assert [index.name for index in TrajectoryStateIndices] == [
        "X",
        "Y",
        "THETA",
        "SPEED",
        "ACCELERATION",
        "CURVATURE",
        "TIME",
    ]
    assert list(TrajectoryStateIndices) == list(range(7))
    assert (ClosedLoopSimulatorModes.L5KIT, ClosedLoopSimulatorModes.GYM) == (0, 1)
    assert UnrollInputOutput._fields == ("track_id", "inputs", "outputs")


def test_the_worked_example(near_and_far: EgoDataset) -> None:
    (output,) = unroll(near_and_far, [0], ego=step_model(0.5), agents=step_model(1.0), num_simulation_steps=8)
    assert output.simulated_ego["ego_translation"][:, 0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert output.recorded_ego["ego_translation"][:, 0].tolist() == list(range(8))
    near = output.simulated_agents[output.simulated_agents["track_id"] == 1]
    assert near["centroid"][:, 0].tolist() == list(range(8, 16))
    assert len(output.simulated_agents) == 16
    assert [item.track_id for item in output.ego_ins_outs] == [-1] * 8
    assert [[item.track_id for item in items] for items in output.agents_ins_outs] == [[1]] * 8
    assert output.get_scene_id() == output.scene_id == 0
    assert output.simulated_dataset.cfg is output.recorded_dataset.cfg is near_and_far.cfg
    assert output.simulated_dataset.dataset.agents is output.simulated_agents


def test_what_is_kept_of_models(near_and_far: EgoDataset) -> None:
    (output,) = unroll(near_and_far, [0], ego=step_model(0.5), num_simulation_steps=3)
    item = output.ego_ins_outs[2]
    assert "image" not in item.inputs
    assert item.inputs["centroid"].tolist() == [1, 0]
    assert isinstance(item.inputs["yaw"], np.float64)
    assert isinstance(item.track_id, np.int64)
    assert item.outputs["positions"].tolist() == [[0.5, 0], [1, 0], [1.5, 0]]
    assert output.agents_ins_outs == []


def test_rows_of_agents_that_are_driven(near_and_far: EgoDataset) -> None:
    """Row M9: they are cars for sure, without velocity."""
    (output,) = unroll(near_and_far, [0], agents=step_model(1.0, 0.0, 2.0), num_simulation_steps=4)
    near = output.simulated_agents[output.simulated_agents["track_id"] == 1]
    assert near["label_probabilities"][1:].tolist() == [[0, 0, 0, 1] + [0] * 13] * 3
    assert not near["velocity"].any()
    assert near["extent"].tolist() == [[4, 2, 1.5]] * 4
    np.testing.assert_allclose(near["yaw"], [0, 2, 4, 6], rtol=1e-6)  # not wrapped
    assert output.ego_ins_outs == []


@pytest.mark.parametrize("start", [0, 4])
def test_frames_without_agents_have_empty_lists(start: int, make_dataset: MakeDataset) -> None:
    """Row M2: in 1.5 the lists of later frames moved up."""
    agents = [[{"track_id": 1, "centroid": (f + 5, 0)}] if f >= 3 else [] for f in range(8)]
    options = {"ego": step_model(1.0), "agents": step_model(1.0), "start_frame_index": start}
    (output,) = unroll(make_dataset(make_scene(agents)), [0], **options)
    assert [len(items) for items in output.agents_ins_outs] == ([0] * 3 + [1] * 5)[start:]


@pytest.mark.parametrize("num_agents", [0, 1])
def test_scenes_without_any_agents(num_agents: int, make_dataset: MakeDataset) -> None:
    scene = make_scene([[{"track_id": 1, "centroid": (500, 0)}] * num_agents] * 5)
    (output,) = unroll(make_dataset(scene), [0], ego=step_model(1.0), agents=step_model(1.0))
    assert output.agents_ins_outs == [[]] * 5
    assert len(output.ego_ins_outs) == 5


@pytest.mark.parametrize("scenes", [[0, 1, 2], [2, 0], [1]], ids=str)
def test_several_scenes_are_each_alone(scenes: list[int], several: EgoDataset) -> None:
    options = {
        "ego": RuleModel("history", **HISTORY),
        "agents": RuleModel("history", **HISTORY),
        "num_simulation_steps": 8,
    }
    outputs = unroll(several, scenes, **options)
    assert [output.scene_id for output in outputs] == scenes
    for output in outputs:
        assert_same_outputs(output, unroll(several, [output.scene_id], **options)[0])


class OwnRasterizer(StubRasterizer):
    """A rasterizer of a user, which may do anything: samples are made one by one."""

    def rasterize(self, *arguments: Any, **options: Any) -> Any:
        return super().rasterize(*arguments, **options)


def test_samples_that_are_made_one_by_one_change_nothing(several: EgoDataset) -> None:
    own = OwnRasterizer(make_stub(several.cfg).render_context)
    single = EgoDataset(several.cfg, several.dataset, own)
    options = {"ego": RuleModel("history", **HISTORY), "agents": RuleModel("history", **HISTORY)}
    pairs = zip(unroll(single, [2, 1, 0], **options), unroll(several, [2, 1, 0], **options), strict=True)
    for output, expected in pairs:
        assert_same_outputs(output, expected)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> EgoDataset:
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    return EgoDataset(CFG, log, make_stub(CFG))


@pytest.mark.parametrize(("start", "steps", "length"), [(1, 10, 10), (10, 5, 5), (240, None, 8)])
def test_an_av_that_drives_a_metre_a_step(start: int, steps: int | None, length: int, real: EgoDataset) -> None:
    model = step_model(1.0)
    (output,) = unroll(real, [0], ego=model, start_frame_index=start, num_simulation_steps=steps)
    assert len(output.simulated_ego) == length
    np.testing.assert_array_equal(
        output.simulated_ego["ego_translation"][0], real.dataset.frames[start]["ego_translation"]
    )
    steps_m = np.linalg.norm(np.diff(output.simulated_ego["ego_translation"][:, :2], axis=0), axis=1)
    np.testing.assert_allclose(steps_m, 1, rtol=1e-9)
    states_m = output.simulated_ego_states[:, :2].numpy()
    np.testing.assert_allclose(np.linalg.norm(np.diff(states_m, axis=0), axis=1), 1, atol=1e-3)
    yaws_rad = output.simulated_ego_states[:, TrajectoryStateIndices.THETA].numpy()
    np.testing.assert_allclose(yaws_rad, output.recorded_ego_states[0, TrajectoryStateIndices.THETA], atol=1e-2)


def test_a_start_behind_the_end_is_an_error(real: EgoDataset) -> None:
    with pytest.raises(ValueError, match="248 frames"):
        unroll(real, [0], ego=step_model(1.0), start_frame_index=250, num_simulation_steps=10)


def assert_same_outputs(output: SimulationOutput, expected: SimulationOutput) -> None:
    for name in ("simulated_ego", "simulated_agents", "recorded_ego", "recorded_agents"):
        np.testing.assert_array_equal(getattr(output, name), getattr(expected, name), err_msg=name)
    assert torch.equal(output.simulated_ego_states, expected.simulated_ego_states)
    assert len(output.agents_ins_outs) == len(expected.agents_ins_outs)
    items = [*output.ego_ins_outs, *(item for each in output.agents_ins_outs for item in each)]
    others = [*expected.ego_ins_outs, *(item for each in expected.agents_ins_outs for item in each)]
    for item, other in zip(items, others, strict=True):
        assert item.track_id == other.track_id
        for found, wanted in ((item.inputs, other.inputs), (item.outputs, other.outputs)):
            assert list(found) == list(wanted)
            for key in found:
                np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)


def test_agents_are_moved_before_the_av_is_asked(tmp_path: Any, make_dataset: MakeDataset) -> None:
    """Row M14: the sample of the AV shows where agents go next, and none of the AV's own steps ahead."""
    cfg = make_vector_cfg()
    scene = make_scene([[{"track_id": 1, "centroid": (8, 0)}]] * 5, positions_m=(0.0, 0.0))
    dataset = EgoDatasetVectorized(cfg, scene, Vectorizer(cfg, make_map(tmp_path / "map.pb")))
    (output,) = unroll(dataset, [0], ego=step_model(1.0), agents=step_model(3.0), num_simulation_steps=3)
    first = output.ego_ins_outs[0].inputs
    assert first["all_other_agents_future_positions"][0, 0].tolist() == [11, 0]
    assert first["target_positions"][0].tolist() == [0, 0]
    seen = output.agents_ins_outs[1][0].inputs
    assert seen["centroid"].tolist() == [11, 0]


def test_replay_is_the_log(several: EgoDataset) -> None:
    for output in unroll(several, [0, 1, 2]):
        for what in ("ego", "agents", "ego_states"):
            simulated, recorded = getattr(output, f"simulated_{what}"), getattr(output, f"recorded_{what}")
            np.testing.assert_array_equal(simulated, recorded)
        assert (output.ego_ins_outs, output.agents_ins_outs) == ([], [])


def test_states_of_the_av(near_and_far: EgoDataset) -> None:
    (output,) = unroll(near_and_far, [0], ego=step_model(1.0, 0.0, 0.1), num_simulation_steps=12)
    states = output.simulated_ego_states
    assert (states.dtype, states.shape) == (torch.float32, (12, 7))
    assert not states[:, [3, 4, 5]].any()
    np.testing.assert_array_equal(states[:, TrajectoryStateIndices.TIME], (0.1 * np.arange(12)).astype(np.float32))
    np.testing.assert_allclose(states[:, TrajectoryStateIndices.THETA], 0.1 * np.arange(12), atol=1e-6)
    np.testing.assert_array_equal(states[:, 0], output.simulated_ego["ego_translation"][:, 0].astype(np.float32))


@pytest.mark.parametrize(
    ("config", "mode", "match"),
    [
        ({"use_agents_gt": True}, 0, "model_ego"),
        ({"use_ego_gt": True}, 0, "model_agents"),
        ({"use_ego_gt": True}, 1, "use_ego_gt"),
    ],
)
def test_models_that_are_missing_are_an_error(
    config: dict[str, bool], mode: int, match: str, near_and_far: EgoDataset
) -> None:
    with pytest.raises(ValueError, match=match):
        ClosedLoopSimulator(SimulationConfig(**config), near_and_far, CPU, mode=mode)


def test_an_environment_needs_no_models(near_and_far: EgoDataset) -> None:
    simulator = ClosedLoopSimulator(SimulationConfig(), near_and_far, CPU, mode=ClosedLoopSimulatorModes.GYM)
    assert list(simulator.model_ego) == list(simulator.model_agents) == []
    assert simulator.keys_to_exclude == {"image"}


class Learner(torch.nn.Module):
    """A model with something to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.step = torch.nn.Parameter(torch.tensor([0.5, 0.0]))

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        length = len(batch["track_id"])
        return {"positions": self.step.expand(length, 1, 2), "yaws": torch.zeros(length, 1, 1)}


def test_gradients_are_off(near_and_far: EgoDataset) -> None:
    """Row M1: 1.5 failed with gradients on."""
    model = Learner().eval()
    assert torch.is_grad_enabled()
    (output,) = unroll(near_and_far, [0], ego=model, agents=model, num_simulation_steps=3)
    assert output.simulated_ego["ego_translation"][:, 0].tolist() == [0, 0.5, 1]
    assert torch.is_grad_enabled()
    assert model.step.requires_grad


def test_training_mode_is_told_of_and_left(near_and_far: EgoDataset) -> None:
    model = Learner()
    with pytest.warns(RuntimeWarning, match=r"model_ego\.eval\(\)") as caught:
        unroll(near_and_far, [0], ego=model, num_simulation_steps=2)
    assert model.training
    assert [warning.filename for warning in caught] == [__file__]


def test_models_without_parameters_are_not_told_of(near_and_far: EgoDataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unroll(near_and_far, [0], ego=step_model(), agents=step_model(), num_simulation_steps=2)


def test_steps_of_several_frames_are_told_of(make_dataset: Callable[..., EgoDataset]) -> None:
    cfg = make_cfg(history_num_frames=2, future_num_frames=3, raster_size=[16, 12], future_step_size=2)
    with pytest.warns(RuntimeWarning, match="future_step_size is 2, .* 2 frames ahead") as caught:
        unroll(make_dataset(make_scene([[]] * 5), cfg), [0], ego=step_model(), num_simulation_steps=2)
    assert len(caught) == 1


def test_a_perturbation_moves_nothing(near_and_far: EgoDataset) -> None:
    """Row M12."""
    perturbation = AckermanPerturbation(ReplayRandomGenerator(np.array([[2.0, 0.5]])), perturb_prob=1.0)
    perturbed = EgoDataset(near_and_far.cfg, near_and_far.dataset, near_and_far.rasterizer, perturbation)
    with pytest.warns(RuntimeWarning, match="perturbation") as caught:
        (output,) = unroll(perturbed, [0], ego=step_model(1.0))
    assert len(caught) == 1
    assert output.simulated_ego["ego_translation"][:, :2].tolist() == [[f, 0] for f in range(12)]


BATCH = {"scene_index": np.array([3, 5]), "track_id": np.array([-1, -1]), "a": np.zeros((2, 4))}
SPLITTERS = [ClosedLoopSimulator.get_ego_in_out, ClosedLoopSimulator.get_agents_in_out]


@pytest.mark.parametrize("split", SPLITTERS)
@pytest.mark.parametrize("key", ["scene_index", "track_id"])
def test_keys_that_tell_whose_an_item_is_are_needed(split: Callable[..., Any], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        split({name: values for name, values in BATCH.items() if name != key}, {})
    with pytest.raises(ValueError, match=key):
        split(BATCH, {}, [key])


def test_scenes_have_one_av() -> None:
    twice = BATCH | {"scene_index": np.array([3, 3])}
    with pytest.raises(ValueError, match="once"):
        ClosedLoopSimulator.get_ego_in_out(twice, {})
    assert [len(items) for items in ClosedLoopSimulator.get_agents_in_out(twice, {}).values()] == [2]


def test_keys_are_left_out_of_inputs_and_outputs() -> None:
    items = ClosedLoopSimulator.get_ego_in_out(BATCH, {"a": np.ones(2), "b": np.array([7.0, 8.0])}, {"a"})
    assert list(items) == [3, 5]
    assert list(items[5].inputs) == ["scene_index", "track_id"]
    assert items[5].outputs == {"b": 8.0}


@pytest.mark.parametrize("make", [SimulationOutput, SimulationOutputCLE])
def test_an_output_is_of_a_scene_of_the_simulation(make: Callable[..., Any], near_and_far: EgoDataset) -> None:
    sim = SimulationDataset.from_dataset_indices(near_and_far, [0], SimulationConfig())
    assert make(0, sim, defaultdict(list), defaultdict(list)).ego_ins_outs == []
    with pytest.raises(ValueError, match="scene_id is 1"):
        make(1, sim, defaultdict(list), defaultdict(list))
