"""Workflows: the samples, the network and the scored trajectories that a configuration names."""

from l5kit.workflows.trained_network import load_network
from l5kit.workflows.workflow import TrainingConfig, make_model, open_samples

__all__ = ["TrainingConfig", "load_network", "make_model", "open_samples"]
