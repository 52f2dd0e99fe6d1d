"""Training of the networks, on Lightning (extra ``train``)."""

from l5kit.training.datamodule import SampleDataModule
from l5kit.training.run import TrainingResult, train

__all__ = ["SampleDataModule", "TrainingResult", "train"]
