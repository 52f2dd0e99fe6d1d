"""The trainer of Lightning as trainings use it: silent about itself, and ended as people expect."""

import logging
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from l5kit.errors import TERMINATED
from l5kit.training.curves import make_logger
from l5kit.training.lightning_parts import pl
from l5kit.training.setup import TrainingSetup
from l5kit.training.state_file import ResumePoint, StateFiles
from l5kit.training.strategies import make_strategy


def make_trainer(
    setup: TrainingSetup, folder: Path, *, callbacks: Sequence[pl.Callback], resumed: ResumePoint | None
) -> pl.Trainer:
    """Return the trainer; one of its epochs is the whole training.

    Args:
        setup: The training.
        folder: Where it writes to.
        callbacks: What is called during the training.
        resumed: Where it goes on; None for a new one.

    Raises:
        MissingDependencyError: The library of ``train_params.logger`` is not there.
    """
    run, scaling = setup.config.params.run, setup.config.params.scaling
    return pl.Trainer(
        accelerator=run.accelerator,
        devices=setup.num_devices,
        num_nodes=scaling.num_nodes,
        strategy=make_strategy(setup),
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
    """Keep what Lightning tells about itself and its advice to beginners to the block."""
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
    """Let Ctrl-C be a ``KeyboardInterrupt`` and SIGTERM an end with status 143 in the block.

    Lightning ends the process with status 1 on Ctrl-C, which it then ignores, and with 0 on SIGTERM. A handler that
    somebody else has set for SIGTERM stays.
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
            if handler is not None:  # one that was not set from Python cannot be set again
                signal.signal(number, handler)


def _terminate(_: int, __: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
