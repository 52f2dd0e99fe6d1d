"""Training of the networks, on Lightning (extra ``train``)."""

from l5kit.training.datamodule import SampleDataModule
from l5kit.training.run import TrainingResult, train
from l5kit.training.sweeping import SweepResult, sweep

__all__ = ["SampleDataModule", "SweepResult", "TrainingResult", "sweep", "train"]
