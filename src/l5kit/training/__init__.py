"""Training of the networks, on Lightning; needs the extra ``train``."""

from l5kit.training.run import TrainingResult, train

__all__ = ["TrainingResult", "train"]
