"""Stores for dataset artifacts: Weights & Biases, MLflow and the Hugging Face hub, with links to trainings."""

from l5kit.artifacts.lineage import link_training
from l5kit.artifacts.opening import open_store

__all__ = ["link_training", "open_store"]
