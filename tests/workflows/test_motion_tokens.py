"""The workflow motion_tokens: tokens fitted to a log, kept with the weights, and configurations that do not fit."""

import numpy as np
import pytest
import torch

from l5kit.data import LocalDataManager
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import load_checkpoint, save_checkpoint
from l5kit.workflows import TrainingConfig, make_model, open_samples
from l5kit.workflows.drivers import samples_to_drive
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


def config_of(**model):
    return TrainingConfig.from_cfg(small_config("motion_tokens", model_params=model))


@pytest.fixture(scope="module")
def samples(city):
    config = config_of()
    return open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)


@pytest.mark.parametrize("residual", [None, "ctra"])
def test_tokens_of_the_log_lead_near_to_the_truth(residual, samples):
    model = make_model(config_of(num_tokens=64, kinematic_residual=residual), samples).eval()
    batch = collate(samples.__getitems__(list(range(0, 200, 10))))
    assert model.tokeniser.base == (residual or "none")
    assert model.quantisation_m(batch) < 0.05  # tokens of 0.2 s
    coarse = make_model(config_of(num_tokens=8, kinematic_residual=residual), samples).eval()
    assert coarse.quantisation_m(batch) > model.quantisation_m(batch)


def test_tokens_are_fitted_alike_and_draw_from_no_generator(samples):
    state = torch.random.get_rng_state()
    first = make_model(config_of(), samples)
    torch.random.set_rng_state(state)
    again = make_model(config_of(), samples)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in first.state_dict().items())


def test_weights_bring_their_tokens(samples, tmp_path):
    config = config_of()
    trained = make_model(config, samples)
    save_checkpoint(tmp_path / "tokens.safetensors", trained)
    fresh = make_model(config.from_scratch(), samples)
    assert not fresh.tokeniser.is_fitted
    load_checkpoint(fresh, tmp_path / "tokens.safetensors")
    assert torch.equal(fresh.tokeniser.vocabulary, trained.tokeniser.vocabulary)
    assert fresh.tokeniser.is_fitted


def test_what_is_configured_reaches_the_network():
    model = make_model(config_of(num_rollouts=4, temperature=0.5, sampling_seed=7, token_noise_m=0.1))
    assert (model.num_rollouts, model.temperature, model.seed, model.token_noise_m) == (4, 0.5, 7, 0.1)
    assert (model.times.num_steps, model.times.num_past_steps) == (2, 2)
    assert (model.times.num_past_tokens, model.times.num_future_tokens) == (5, 2)


def test_past_and_future_frames_may_be_of_other_lengths():
    model = make_model(config_of(history_step_size=1, future_step_size=3, token_num_steps=2))
    assert (model.times.num_past_steps, model.times.num_past_tokens) == (6, 1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"token_num_steps": 3}, "do not fill the 4 steps"),
        ({"token_num_steps": 1, "history_step_size": 2}, "no multiple of the 0.2 s"),
        ({"future_num_frames": 16, "token_num_steps": 16}, "longer than the 10"),
        ({"criterion": "l1"}, "model_params.criterion"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(model, message):
    with pytest.raises(ConfigError, match=message):
        config_of(**model)


def test_simulations_show_the_model_the_whole_scene(city):
    config, data_manager = config_of(), LocalDataManager(city)
    wide = samples_to_drive(config, data_manager, has_whole_scenes=True).cfg["data_generation_params"]
    usual = samples_to_drive(config, data_manager).cfg["data_generation_params"]
    assert wide["other_agents_num"] > 100
    assert wide["lane_params"]["max_points_per_lane"] == usual["lane_params"]["max_points_per_lane"] == 12
    assert usual["other_agents_num"] == config.mapping["data_generation_params"]["other_agents_num"] == 3
    assert np.isfinite(wide["max_agents_distance"])
