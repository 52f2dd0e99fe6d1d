"""Training of a network, from a configuration to its weights."""

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from l5kit import __version__
from l5kit._files import write_json
from l5kit._types import JsonObject
from l5kit.configs.config import save_config_data
from l5kit.configs.known_keys import LEGACY_KEYS
from l5kit.data.jobs.data_record import DataRecord, require_same_data
from l5kit.data.jobs.folder_lock import hold_folder, is_main_process
from l5kit.data.loader_folders import log_keys_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.progress import show_progress
from l5kit.dataset.joined import JoinedDataset
from l5kit.errors import ConfigError
from l5kit.kinematic.recovery import RecoveryCounts, RecoveryPerturbation
from l5kit.training.best import BestScore
from l5kit.training.checkpoint_writer import CheckpointWriter
from l5kit.training.folder import CONFIG_FILE, RESULT_FILE, freed_by_errors, prepare_folder
from l5kit.training.lightning_parts import WandbLogger, pl
from l5kit.training.lightning_trainer import make_trainer, quiet_lightning, reported_endings
from l5kit.training.optimizing import make_callbacks
from l5kit.training.progress import RateCurve, TrainingClock, TrainingProgress
from l5kit.training.setup import set_up
from l5kit.training.state_file import LAST_CHECKPOINT
from l5kit.workflows.workflow import TrainingConfig

_NODE_VARIABLES = ("NODE_RANK", "GROUP_RANK", "RANK", "SLURM_NODEID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""Variables set by torchrun, Slurm or MPI, or by hand on each machine."""


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training: its files and its scores.

    Attributes:
        folder: Its run folder.
        weights: Weights at the end, a file for :func:`l5kit.planning.checkpoint.load_checkpoint`.
        num_steps: Total number of training steps.
        minutes: Total minutes of training, including those before a resume, without repeated steps.
        scores: Mean errors at the end by name, of the model and of the kinematic baselines.
        best_weights: Weights with the best score; None if no evaluation of this training had a finite score.
        best_step: Step of the best weights; None if unknown.
        best_score: Their score: the mean error over the whole future in metres, smaller is better, or with
            ``best_by: closed_loop`` the mean score of driving, larger is better.
        best_by: Name of this score in ``scores``; None without evaluations.
    """

    folder: Path
    weights: Path
    num_steps: int
    minutes: float
    scores: Mapping[str, float]
    best_weights: Path | None = None
    best_step: int | None = None
    best_score: float | None = None
    best_by: str | None = None


def train(
    cfg: JsonObject,
    folder: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = print,
    show_bar: bool = True,
    callbacks: tuple[pl.Callback, ...] = (),
) -> TrainingResult:
    """Train a network.

    Classes named in the configuration are imported, which runs their code.

    The folder gets ``config.yaml``, ``curves/``, weights as safetensors (at intervals, the best ones, and those at the
    end under ``train_params.output_name``), ``last.ckpt`` for resuming the training, and ``result.json``.

    Args:
        cfg: The configuration; a key that neither l5kit nor L5Kit 1.x supports is an error.
        folder: Output folder; new or empty, unless ``resume``.
        data_folder: Folder that the keys of the data are relative to; None for the environment variable
            ``L5KIT_DATA_FOLDER``.
        resume: Continue from ``last.ckpt``, at the same step, with the same samples and best weights; from the first
            step, with a line of progress, if the training ended before its first checkpoint.
        tell: Function called with each line of progress, such as the scores of an evaluation.
        show_bar: Whether a bar is shown, if standard error is a terminal.
        callbacks: Additional callbacks for Lightning's trainer.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range, or differs from that of the training
            to resume.
        FileNotFoundError: Data is missing, or there is nothing to resume.
        InvalidArgumentError: The folder holds files, another process is training into it, or the data of a resumed
            training has changed.
        CheckpointError: The state to resume from is broken; the message names the file.
        KeyboardInterrupt: Ctrl-C; the last state is kept.
        SystemExit: SIGTERM, with status 143; the last state is kept.
    """
    config = TrainingConfig.from_cfg(cfg)
    # keys of L5Kit 1.x that are ignored here, as most of them were there
    given = [key for key in LEGACY_KEYS if key.partition(".")[2] in cfg.get("model_params", {})]
    if cfg.get("val_data_loader", {}).get("perturb_probability"):
        given.append("val_data_loader.perturb_probability")
    if given:
        warnings.warn(f"these keys have no effect on the training: {', '.join(given)}", UserWarning, stacklevel=2)
    # on several machines, a training that does not know its rank would wait forever
    num_nodes = config.params.scaling.num_nodes
    if num_nodes > 1 and not any(name in os.environ for name in _NODE_VARIABLES):
        raise ConfigError(
            f"train_params.num_nodes is {num_nodes}, but the rank of this machine is unknown; start with torchrun or "
            "srun, or set NODE_RANK, MASTER_ADDR and MASTER_PORT on each"
        )
    target = Path(os.path.abspath(folder))  # user code may change the working directory
    with hold_folder(target, may_make=not resume) if is_main_process() else nullcontext():
        return _train_in(target, config, data_folder, resume=resume, tell=tell, show_bar=show_bar, callbacks=callbacks)


def _train_in(
    target: Path,
    config: TrainingConfig,
    data_folder: str | os.PathLike[str] | None,
    *,
    resume: bool,
    tell: Callable[[str], None],
    show_bar: bool,
    callbacks: tuple[pl.Callback, ...],
) -> TrainingResult:
    """Train in a folder that is locked by this process; see :func:`train`."""
    data_manager = LocalDataManager(data_folder)
    config = config.with_resolved_folders(data_manager)
    resumed = prepare_folder(target, config, resume=resume)
    clock = TrainingClock(0.0 if resumed is None else resumed.minutes)
    if resumed is not None and resumed.step == 0 and is_main_process():
        tell(f"there is no {target / LAST_CHECKPOINT} yet: the training starts at step 0")
    with torch.random.fork_rng(), quiet_lightning(), reported_endings():
        setup = set_up(config, data_manager)
        named = make_callbacks(config.params)
        facts = _facts_of(config, data_manager, show_bar=show_bar) if is_main_process() else {}
        if resumed is not None:
            require_same_data(resumed.data, facts)
        if is_main_process():  # only after all checks, so that errors leave the folder free
            save_config_data(config.mapping, str(target / CONFIG_FILE))
        writer = CheckpointWriter(setup, target, facts=facts, resumed=resumed is not None, clock=clock, tell=tell)
        progress = TrainingProgress(setup, tell=tell, visible=show_bar)
        watching = [*named, *callbacks, progress, RateCurve("step"), writer]
        trainer = make_trainer(setup, target, callbacks=watching, resumed=resumed)
        with freed_by_errors(target, has_begun=lambda: resumed is not None or trainer.global_step > 0):
            try:
                checkpoint = target / LAST_CHECKPOINT if resumed and resumed.step else None
                trainer.fit(setup.module, setup.batches, setup.evaluation, ckpt_path=checkpoint)
                if setup.evaluation is not None and writer.evaluated_step != trainer.global_step:
                    trainer.validate(setup.module, setup.evaluation, verbose=False)
            finally:
                for logger in trainer.loggers:
                    if isinstance(logger, WandbLogger):  # so that the next training of this process gets a new run
                        logger.experiment.finish()
        weights = writer.save_final_weights(trainer, setup.module)
    # counts of recovery perturbations over all logs; zero if other processes built the batches
    logs = setup.samples.parts if isinstance(setup.samples, JoinedDataset) else (setup.samples,)
    counted = [log.perturbation.counts for log in logs if isinstance(log.perturbation, RecoveryPerturbation)]
    if trainer.is_global_zero and any(counts.windows for counts in counted):
        tell(f"recovery: {RecoveryCounts(*map(sum, zip(*counted, strict=True)))}")
    has_best = writer.best != BestScore()
    result = TrainingResult(
        folder=target,
        weights=weights,
        num_steps=trainer.global_step,
        minutes=clock.minutes,
        scores=dict(setup.module.scores),
        best_weights=writer.best_weights if has_best else None,
        best_step=writer.best.step if has_best else None,
        best_score=writer.best.score if has_best else None,
        best_by=writer.best_by,
    )
    if trainer.is_global_zero:
        _write_result(result, facts)
    return result


def _facts_of(config: TrainingConfig, data_manager: LocalDataManager, *, show_bar: bool) -> JsonObject:
    """Return the facts of a training for its weights and ``result.json``: the version of l5kit, and its data."""
    params = config.params
    loaders = {"data": params.train_loader, "eval_data": params.val_loader}
    keys = {name: log_keys_of(loader, data_manager) if loader else [] for name, loader in loaders.items()}
    driving = params.val_driving
    driven = [] if driving is None else [f"{driving.folder}/{driving.key}" if driving.folder else driving.key]
    # a log for both training and evaluation is read once
    with show_progress("Reading", visible=show_bar) as progress:
        records = {
            key: DataRecord.of_log(data_manager.require(key), key=key, progress=progress).as_dict()
            for key in dict.fromkeys([*keys["data"], *keys["eval_data"], *driven])
        }
    facts: JsonObject = {"l5kit": __version__}
    for name, loader in loaders.items():
        of_loader = [records[key] for key in keys[name]]
        facts[name] = of_loader if loader is None or loader.folders is not None else of_loader[0]
    if driven:
        facts["driving_data"] = records[driven[0]]
    return {**facts, "eval_data": facts["eval_data"] or None}


def _write_result(result: TrainingResult, training_facts: Mapping[str, object]) -> None:
    """Write ``result.json``."""
    facts = {
        "num_steps": result.num_steps,
        "minutes": round(result.minutes, 2),
        "scores": dict(result.scores),
        "best_step": result.best_step,
        "best_score": result.best_score,
        "best_by": result.best_by,
        **training_facts,
    }
    write_json(result.folder / RESULT_FILE, facts)
