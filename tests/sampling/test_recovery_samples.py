"""Samples of a displaced AV with a recovery: their values are those of the perturbed state."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import EgoAgentDatasetVectorized, EgoDataset, EgoDatasetVectorized, loader
from l5kit.kinematic import AckermanPerturbation, RecoveryPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.training import train
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.workflows import TrainingConfig, open_samples
from support.workflows import VECTOR_WORKFLOWS, small_config

KEY = "scenes/sample.zarr"


def open_dataset(city, cls=EgoDatasetVectorized, perturbation=None, **changes):
    workflow = "raster_planner" if cls is EgoDataset else "vector_planner"
    cfg = small_config(workflow, model_params={"history_num_frames": 5, "future_num_frames": 12, **changes})
    log = ChunkedDataset(str(city / KEY)).open()
    drawn = None if cls is EgoDataset else build_vectorizer(cfg, LocalDataManager(city))
    return cls(cfg, log, drawn, perturbation)


@pytest.mark.parametrize("cls", [EgoDataset, EgoDatasetVectorized, EgoAgentDatasetVectorized])
def test_a_batch_is_its_samples_to_the_bit(city, cls):
    indices = list(range(20, 50))
    singles = open_dataset(city, cls, RecoveryPerturbation(0.7))
    batch = open_dataset(city, cls, RecoveryPerturbation(0.7)).__getitems__(indices)
    for index, sample in zip(indices, batch, strict=True):
        alone = singles[index]
        assert alone.keys() == sample.keys()
        for key, value in alone.items():
            np.testing.assert_array_equal(value, sample[key], err_msg=key)


def test_speeds_past_and_future_of_samples_are_those_of_the_moved_frames(city):
    plain, moved = open_dataset(city), open_dataset(city, perturbation=RecoveryPerturbation(1.0, seed=5))
    indices = list(range(20, 70))
    logged, samples = plain.__getitems__(indices), moved.__getitems__(indices)
    jumps = []
    for before, sample in zip(logged, samples, strict=True):
        # seen from its own current frame, the AV is at 0 and looks ahead, and its past leads there at its speed
        np.testing.assert_allclose(sample["history_positions"][0], 0, atol=1e-3)
        np.testing.assert_allclose(sample["history_yaws"][0], 0, atol=1e-3)
        past_mps = np.linalg.norm(sample["history_positions"][0] - sample["history_positions"][1]) / 0.1
        np.testing.assert_allclose(sample["speed"], np.linalg.norm(sample["target_positions"][0]) / 0.1, atol=2e-3)
        assert abs(past_mps - sample["speed"]) < 0.6, "4.05 m/s2 of braking, and turns"
        jumps.append(sample["speed"] - before["speed"])
        world = sample["target_positions"] @ sample["world_from_agent"][:2, :2].T + sample["world_from_agent"][:2, 2]
        of_log = before["target_positions"] @ before["world_from_agent"][:2, :2].T + before["world_from_agent"][:2, 2]
        assert np.linalg.norm(world - of_log, axis=-1).max() < 6.0
    assert np.std(jumps) > 0.2
    counts = moved.perturbation.counts
    assert (counts.windows, counts.chosen) == (50, 50)
    assert counts.perturbed > 40


def test_the_end_of_a_scene_stays_as_it_is(city):
    moved, plain = open_dataset(city, perturbation=RecoveryPerturbation(1.0)), open_dataset(city)
    num_frames = int(plain.dataset.scenes["frame_index_interval"][0][1])
    last = list(range(num_frames - 12, num_frames))
    for sample, logged in zip(moved.__getitems__(last), plain.__getitems__(last), strict=True):
        np.testing.assert_array_equal(sample["target_positions"], logged["target_positions"])
    assert moved.perturbation.counts.windows == 0


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 3}])
def test_batches_are_the_same_for_any_number_of_threads(city, options):
    expected = loader(open_dataset(city, perturbation=RecoveryPerturbation(0.7)), 16, shuffle=True, seed=3, threads=1)
    found = loader(open_dataset(city, perturbation=RecoveryPerturbation(0.7)), 16, shuffle=True, seed=3, **options)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one["target_positions"], other["target_positions"])
        assert torch.equal(one["history_positions"], other["history_positions"])


@pytest.mark.parametrize("workflow", ["raster_planner", *VECTOR_WORKFLOWS])
def test_workflows_take_the_kind_and_its_numbers(city, workflow):
    chosen = {"perturb_probability": 0.5, "perturb_kind": "recovery", "recovery_std": [1, 2, 0.2, 0.5]}
    config = TrainingConfig.from_cfg(small_config(workflow, train_data_loader=chosen, train_params={"seed": 7}))
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=True)
    if not config.workflow.takes_perturbation:
        assert samples.perturbation is None
        return
    assert isinstance(samples.perturbation, RecoveryPerturbation)
    assert (samples.perturbation.std, samples.perturbation.seed) == ((1.0, 2.0, 0.2, 0.5), 7)
    assert samples.perturbation.clip == (2.0, 4.0, 0.35, 3.5)
    usual = small_config(workflow, train_data_loader={"perturb_probability": 0.5})
    config = TrainingConfig.from_cfg(usual)
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=True)
    assert isinstance(samples.perturbation, AckermanPerturbation)
    assert isinstance(samples.perturbation.random_offset_generator, GaussianRandomGenerator)


def test_a_training_tells_the_shares(city, tmp_path):
    cfg = small_config(
        "vector_planner",
        train_data_loader={"perturb_probability": 0.5, "perturb_kind": "recovery"},
        train_params={"max_num_steps": 2, "accelerator": "cpu"},
    )
    told = []
    train(cfg, tmp_path / "out", data_folder=city, tell=told.append)
    assert any(line.startswith("recovery: perturbed ") and "of the draws" in line for line in told), told
