"""Lightning imports for trainings; if Lightning is missing, the error names the extra to install."""

from l5kit.errors import MissingDependencyError, install_command

try:
    import lightning.pytorch as pl
    from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO
    from lightning.pytorch.callbacks import Checkpoint, EarlyStopping, LearningRateMonitor
    from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.strategies import ModelParallelStrategy, Strategy
    from lightning.pytorch.trainer.states import TrainerFn
    from lightning.pytorch.utilities import rank_zero_only
    from lightning.pytorch.utilities.types import OptimizerLRScheduler
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "lightning":
        raise
    raise MissingDependencyError(f"training needs Lightning: {install_command('train')}") from error

__all__ = [
    "Checkpoint",
    "CheckpointIO",
    "EarlyStopping",
    "LearningRateMonitor",
    "Logger",
    "MLFlowLogger",
    "ModelParallelStrategy",
    "OptimizerLRScheduler",
    "Strategy",
    "TensorBoardLogger",
    "TrainerFn",
    "WandbLogger",
    "pl",
    "rank_zero_only",
]
