"""Training of the networks, on Lightning (extra ``train``), and their evaluation, which does without it."""

from l5kit.training.on_demand import __getattr__ as __getattr__

__all__ = ["TrainingResult", "train"]
