"""Data modules: the batches of a configuration in a training of one's own."""

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.network_inputs import network_inputs
from l5kit.training import SampleDataModule
from support.models import one_thread
from support.workflows import small_config

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")


class OwnModule(pl.LightningModule):
    """A training of one's own, which notes what it gets."""

    def __init__(self, network):
        super().__init__()
        self.network, self.frames, self.errors_m = network, [], []

    def training_step(self, batch, batch_idx):
        self.frames.append(batch["timestamp"].tolist())
        return self.network(batch)["loss"]

    def validation_step(self, batch, batch_idx):
        planned = self.network(network_inputs(batch))["positions"]
        self.errors_m.append(float((planned - batch["target_positions"]).norm(dim=-1).mean()))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def fit(data, **options):
    torch.manual_seed(3)
    module = OwnModule(data.make_network())
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "barebones": False}
    trainer = pl.Trainer(
        accelerator="cpu", enable_model_summary=False, use_distributed_sampler=False, **quiet, **options
    )
    trainer.fit(module, datamodule=data)
    return module


@pytest.mark.slow
def test_a_training_of_ones_own_gets_the_samples_of_the_configuration(city):
    cfg = small_config("vector_planner")
    cfg["train_data_loader"] |= {"shuffle": True, "batch_size": 64}
    data = SampleDataModule.from_cfg(cfg, city)
    with pytest.raises(InvalidArgumentError, match=r"call setup\(\)"):
        data.train_samples  # noqa: B018
    module = fit(data, max_epochs=2, num_sanity_val_steps=0)
    assert len(data.train_samples) == 200  # two of three scenes
    first, second = module.frames[:3], module.frames[3:]
    assert [len(batch) for batch in module.frames] == [64] * 6
    assert len({frame for batch in first for frame in batch}) == 192
    assert first != second
    assert len(module.errors_m) == 4  # two batches an epoch
    again = fit(SampleDataModule.from_cfg(cfg, city), max_epochs=2, num_sanity_val_steps=0)
    assert again.frames == module.frames
    np.testing.assert_allclose(again.errors_m, module.errors_m)


def test_without_a_loader_there_are_no_evaluations(city):
    cfg = small_config("vector_planner")
    cfg.pop("val_data_loader")
    data = SampleDataModule.from_cfg(cfg, city)
    data.setup()
    samples = data.train_samples
    data.setup("fit")
    assert data.train_samples is samples
    assert list(data.val_dataloader()) == list(data.predict_dataloader()) == []


def test_a_wrong_configuration_is_refused_before_anything_is_opened(city):
    cfg = small_config("vector_planner")
    cfg["train_data_loader"]["batch_sise"] = 3
    with pytest.raises(ConfigError, match="batch_sise"):
        SampleDataModule.from_cfg(cfg, city)
