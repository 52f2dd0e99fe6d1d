"""Lightning trainer of trainings: its strategies, fewer messages, and the usual exit on signals."""

import logging
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from l5kit.errors import TERMINATED
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.curves import make_logger
from l5kit.training.lightning_parts import ModelParallelStrategy, Strategy, pl
from l5kit.training.setup import TrainingSetup
from l5kit.training.state_file import LightningState, ResumePoint, StateFiles


class ShardedStrategy(ModelParallelStrategy):
    """Strategy that shards weights, gradients and optimiser state over devices (FSDP2 of torch).

    The state of a training is saved as a single complete file, as with other strategies.

    Args:
        world_size: Number of processes.
    """

    def __init__(self, world_size: int) -> None:
        super().__init__(data_parallel_size=world_size, tensor_parallel_size=1, save_distributed_checkpoint=False)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> LightningState:  # noqa: ARG002
        """Load a state without running code in it.

        Only optimiser states of weights that no loss depends on may be missing.

        Raises:
            CheckpointError: The file is broken, is not a training state, or has other weights.
        """
        state, module = StateFiles().load_checkpoint(checkpoint_path), self.lightning_module
        if module is None:
            raise RuntimeError("cannot load a state without a module")
        different = sorted(state["state_dict"].keys() ^ module.state_dict().keys())
        if different:
            raise CheckpointError(f"{checkpoint_path} is the state of another network: {', '.join(different)} differ")
        module.strict_loading = False  # the only way in torch to allow missing optimiser states
        try:
            return dict(super().load_checkpoint(checkpoint_path, weights_only=True))
        finally:
            module.strict_loading = True


def make_trainer(
    setup: TrainingSetup, folder: Path, *, callbacks: Sequence[pl.Callback], resumed: ResumePoint | None
) -> pl.Trainer:
    """Return the trainer; one epoch of it is the whole training.

    Args:
        setup: The training.
        folder: Folder of the training.
        callbacks: Callbacks of the training.
        resumed: Point at which the training resumes; None for a new one.

    Raises:
        MissingDependencyError: The library of ``train_params.logger`` is not installed.
    """
    run, scaling = setup.config.params.run, setup.config.params.scaling
    strategy: str | Strategy = "ddp_find_unused_parameters_true" if setup.config.workflow.has_idle_weights else "ddp"
    if scaling.strategy == "fsdp":
        strategy = ShardedStrategy(setup.world_size)
    elif scaling.strategy == "auto" and setup.world_size == 1:
        strategy = "auto"
    return pl.Trainer(
        accelerator=run.accelerator,
        devices=setup.num_devices,
        num_nodes=scaling.num_nodes,
        strategy=strategy,
        precision=run.precision,
        logger=[make_logger(kind, folder, name=run.output_name, resumed=resumed) for kind in run.loggers],
        callbacks=list(callbacks),
        plugins=[StateFiles()],
        min_epochs=0,
        max_epochs=1,
        max_steps=setup.schedule.num_steps,
        accumulate_grad_batches=scaling.accumulate_grad_batches,
        val_check_interval=setup.schedule.eval_every * scaling.accumulate_grad_batches,  # in batches
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps=min(run.log_every_n_steps, setup.schedule.num_steps),
        gradient_clip_val=setup.config.params.optimizer.gradient_clip_norm,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence Lightning's messages about itself and its advice to beginners within the block."""
    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*LeafSpec.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def reported_endings() -> Iterator[None]:
    """Make Ctrl-C a ``KeyboardInterrupt`` and SIGTERM an exit with status 143 within the block.

    Lightning ends the process with status 1 on Ctrl-C, which it then ignores, and with 0 on SIGTERM. An existing
    handler for SIGTERM is kept.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # a handler that was not set from Python cannot be restored
                signal.signal(number, handler)


def _terminate(_: int, __: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
