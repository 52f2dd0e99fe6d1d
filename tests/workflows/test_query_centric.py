"""The workflow query_centric: its keys, and its plan of the AV as a driver."""

import pytest

from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.errors import ConfigError
from l5kit.simulation.drivers.network import NetworkDriver
from l5kit.workflows import TrainingConfig, make_model
from l5kit.workflows.drivers import load_driver
from support.networks import save_network
from support.workflows import small_config


def model_of(*changes):
    return make_model(TrainingConfig.from_cfg(with_overrides(small_config("query_centric"), list(changes))))


def test_keys_reach_the_model():
    model = model_of(
        "model_params.joint_modes=true",
        "model_params.num_modes=5",
        "model_params.kinematic_residual=ctra",
        "model_params.residual_unit_m=2.0",
        "model_params.motion_features=true",
        "model_params.modes_weight=0.5",
    )
    assert (model.joint, model.residual_to, model.residual_unit_m, model.modes_weight) == (True, "ctra", 2.0, 0.5)
    assert model.decoder.modes.shape == (5, 64)
    assert model.encoder.history.motion is not None
    assert model_of("model_params.mode_loss=mixture").mode_loss == "mixture"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["dim_queries=30"], "dim_queries: expected a multiple of the 4 heads"),
        (["mode_loss=mixture", "criterion=l1"], "criterion: the loss of a mixture"),
        (["mode_loss=best"], "mode_loss"),
    ],
)
def test_keys_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        model_of(*(f"model_params.{change}" for change in changes))


def test_the_example_can_be_built():
    small = TrainingConfig.from_cfg(load_training_config("query_centric"))
    real = TrainingConfig.from_cfg(load_training_config("examples/query_centric_config.yaml"))
    assert make_model(real).decoder.modes.shape == (6, 128)
    assert make_model(small).decoder.modes.shape == (3, 64)


def test_it_drives_the_av(city, tmp_path):
    driver = load_driver(save_network("query_centric", city, tmp_path), whom="ego", data_folder=city)
    assert isinstance(driver, NetworkDriver)
    assert driver.step_time_s == pytest.approx(0.1)
