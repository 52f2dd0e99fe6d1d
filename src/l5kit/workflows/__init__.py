"""Workflows: the samples, the network and the scored trajectories that a configuration names."""

from l5kit.workflows.trained_model import TrainedModel, load_model
from l5kit.workflows.trained_network import load_network
from l5kit.workflows.workflow import TrainingConfig, make_model, open_samples

__all__ = ["TrainedModel", "TrainingConfig", "load_model", "load_network", "make_model", "open_samples"]
