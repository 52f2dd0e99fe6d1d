"""The configuration of a training, typed once."""

import dataclasses

import pytest

from l5kit.configs.runs import WORKFLOWS
from l5kit.errors import ConfigError
from l5kit.workflows import TrainingConfig
from l5kit.workflows.networks import RasterRecipe, VectorRecipe
from support.workflows import VECTOR_WORKFLOWS, small_config


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_each_workflow_names_its_network(workflow):
    config = TrainingConfig.from_cfg(small_config(workflow))
    assert config.params.workflow == workflow
    assert config.network.params is config.params
    assert isinstance(config.network, VectorRecipe if workflow in VECTOR_WORKFLOWS else RasterRecipe)


def test_later_changes_of_what_was_given_do_not_reach_it():
    cfg = small_config("raster_planner")
    config = TrainingConfig.from_cfg(cfg)
    cfg["raster_params"]["raster_size"][0] = 7
    cfg["train_params"]["seed"] = 5
    assert config.mapping == small_config("raster_planner")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.mapping = {}


def test_a_network_that_lacks_a_key_is_told_before_any_data_is_opened():
    cfg = small_config("raster_planner")
    del cfg["model_params"]["model_architecture"]
    with pytest.raises(ConfigError, match=r"model_params\.model_architecture"):
        TrainingConfig.from_cfg(cfg)


def test_from_scratch_nothing_is_pretrained_and_all_else_stays():
    cfg = small_config("simnet")
    cfg["model_params"]["pretrained"] = True
    config = TrainingConfig.from_cfg(cfg)
    fresh = config.from_scratch()
    assert (config.network.backbone.pretrained, fresh.network.backbone.pretrained) == (True, False)
    assert dataclasses.replace(fresh, network=config.network) == config
    vectors = TrainingConfig.from_cfg(small_config("vector_planner"))
    assert vectors.from_scratch() == vectors
