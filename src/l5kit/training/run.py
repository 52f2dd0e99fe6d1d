"""Train a network from a configuration."""

import glob
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import LearningRateMonitor
from torch.utils.data import Dataset, Subset

from l5kit._files import clear_leftovers_in, replaced_when_complete
from l5kit.configs.config import load_config_data, save_config_data
from l5kit.configs.known_keys import LEGACY_KEYS
from l5kit.configs.training import LoaderParams, TrainingParams
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.loading import loader as make_loader
from l5kit.dataset.rank_sampler import process_place
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.training.batches import spread_indices
from l5kit.training.best import BestScore, evaluation_digest
from l5kit.training.callbacks import TrainingProgress
from l5kit.training.checkpoint_writer import BestRule, CheckpointWriter
from l5kit.training.curves import close_logger, make_logger
from l5kit.training.ending import told_endings
from l5kit.training.lightning_module import TrainingModule
from l5kit.training.schedule import TrainingSchedule
from l5kit.training.scores import score_name
from l5kit.training.state_file import LAST_CHECKPOINT, ResumePoint, StateFiles, read_resume_point
from l5kit.training.step_batches import StepBatches, batches_per_epoch
from l5kit.training.workflows import make_model, open_samples, workflow_of

__all__ = ["TrainingResult", "is_main_process", "train"]

_CONFIG_FILE = "config.yaml"
_RESULT_FILE = "result.json"
_FIXED_SECTIONS = ("workflow", "model_params", "raster_params", "data_generation_params", "train_data_loader")
_FIXED_RUN_KEYS = ("seed", "devices", "accelerator", "learning_rate", "weight_decay", "schedule", "warmup_num_steps")


@dataclass(frozen=True)
class TrainingResult:
    """What a training came to.

    Attributes:
        folder: Where its files are.
        weights: The weights at the end, a file that :func:`l5kit.planning.checkpoint.load_checkpoint` reads.
        num_steps: Steps that were trained in all.
        minutes: Minutes that this call took.
        scores: Mean errors at the end by name, of the model and of the constant-velocity baseline.
        best_weights: The weights that scored best; None if no evaluation of this training had a finite score.
        best_step: Steps after which they were reached; None where that is not known.
        best_score: Their mean error over the whole future, in metres.
    """

    folder: Path
    weights: Path
    num_steps: int
    minutes: float
    scores: Mapping[str, float]
    best_weights: Path | None = None
    best_step: int | None = None
    best_score: float | None = None


def train(
    cfg: dict[str, Any],
    folder: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = print,
    show_bar: bool = True,
    callbacks: tuple[pl.Callback, ...] = (),
) -> TrainingResult:
    """Train a network.

    The folder gets ``config.yaml``, ``curves/``, the weights as safetensors (every so many steps, the best ones, and
    those at the end under ``train_params.output_name``), ``last.ckpt`` to take the training up from, and
    ``result.json``.

    Args:
        cfg: The configuration; a key that neither l5kit nor L5Kit 1.x knows is an error.
        folder: Where to write; new or empty, unless ``resume``.
        data_folder: Folder that the keys of the data are relative to; None for the environment's
            ``L5KIT_DATA_FOLDER``.
        resume: Go on from ``last.ckpt``, at the same step, with the same samples and best weights; from the first step
            where a training had ended before it wrote one, which is told.
        tell: Takes a line for people, such as the scores of an evaluation.
        show_bar: Whether a bar is shown, if standard error is a terminal.
        callbacks: More callbacks for Lightning's trainer.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range, or differs from that of the training
            that is to go on.
        FileNotFoundError: Data is missing, or there is nothing to go on from.
        InvalidArgumentError: The folder holds files.
        CheckpointError: The state to go on from is broken; the message names the file.
        KeyboardInterrupt: Ctrl-C; the last state stays.
        SystemExit: SIGTERM, with status 143; the last state stays.
    """
    start_s = time.perf_counter()
    params = TrainingParams.from_cfg(cfg)
    _warn_of_ineffective(cfg)
    target = Path(folder)
    resumed = _prepare_folder(target, cfg, name=params.run.output_name, resume=resume)
    if resumed is not None and resumed.step == 0 and is_main_process():
        tell(f"there is no {target / LAST_CHECKPOINT} yet: the training starts at step 0")
    with torch.random.fork_rng(), _quiet_lightning(), told_endings():
        trainer, module, writer = _fit(
            cfg,
            params,
            target,
            data_manager=LocalDataManager(data_folder),
            resumed=resumed,
            watch=_Watch(tell, show_bar, callbacks),
        )
        weights = writer.save_final_weights(trainer, module)
    has_best = writer.best != BestScore()
    result = TrainingResult(
        folder=target,
        weights=weights,
        num_steps=trainer.global_step,
        minutes=(time.perf_counter() - start_s) / 60,
        scores=dict(module.scores),
        best_weights=writer.best_weights if has_best else None,
        best_step=writer.best.step if has_best else None,
        best_score=writer.best.score if has_best else None,
    )
    if trainer.is_global_zero:
        _write_result(result)
    return result


def is_main_process() -> bool:
    """Return whether this is the process that people started, not one that Lightning or torchrun added."""
    return os.environ.get("LOCAL_RANK", "0") == "0" and os.environ.get("RANK", "0") == "0"


def _fit(
    cfg: dict[str, Any],
    params: TrainingParams,
    folder: Path,
    *,
    data_manager: LocalDataManager,
    resumed: ResumePoint | None,
    watch: "_Watch",
) -> tuple[pl.Trainer, TrainingModule, CheckpointWriter]:
    """Train, evaluate at the end, and return all three with what is in them then."""
    num_devices = _num_devices(params)
    samples = open_samples(cfg, params, params.train_loader, data_manager, perturbed=True)
    evaluation = _open_evaluation(cfg, params, data_manager)
    if is_main_process():  # now that the data is there: before, the folder is free for another try
        save_config_data(cfg, str(folder / _CONFIG_FILE))
    num_batches = batches_per_epoch(samples, params.train_loader, world_size=num_devices)
    schedule = TrainingSchedule.of(params, num_batches=num_batches, schedule=workflow_of(params).schedule)
    torch.manual_seed(params.run.seed)
    module = TrainingModule(
        make_model(cfg, params, samples),
        trajectories_of=workflow_of(params).trajectories_of,
        horizons_s=params.horizons_s,
        step_times_s=(params.step_time_s, params.past_step_time_s),
        optimizer=params.optimizer,
        schedule=schedule,
        seed=params.run.seed,
    )
    batches = StepBatches(
        samples,
        params.train_loader,
        seed=params.run.seed,
        num_steps=schedule.num_steps,
        steps_per_epoch=schedule.steps_per_epoch,
        pin_memory=_is_on_cuda(params),
    )
    step_size = params.train_loader.batch_size * num_devices
    progress = TrainingProgress(batches, batch_size=step_size, tell=watch.tell, visible=watch.show_bar)
    writer = CheckpointWriter(
        folder,
        name=params.run.output_name,
        every=schedule.checkpoint_every,
        eval_every=schedule.eval_every,
        config=cfg,
        rule=_best_rule(cfg, params, evaluation),
        resumed=resumed is not None,
        tell=watch.tell,
    )
    trainer = _make_trainer(
        params,
        folder,
        schedule=schedule,
        num_devices=num_devices,
        callbacks=[*watch.callbacks, progress, LearningRateMonitor("step"), writer],
        resumed=resumed,
    )
    checkpoint = folder / LAST_CHECKPOINT
    try:
        trainer.fit(module, batches, evaluation, ckpt_path=checkpoint if resumed and resumed.step else None)
        if evaluation is not None and writer.evaluated_step != trainer.global_step:
            trainer.validate(module, evaluation, verbose=False)
    finally:
        for logger in trainer.loggers:
            close_logger(logger)
    return trainer, module, writer


@dataclass(frozen=True)
class _Watch:
    """Who is told how the training goes."""

    tell: Callable[[str], None]
    show_bar: bool
    callbacks: tuple[pl.Callback, ...]


class _Evaluation:
    """The batches of an evaluation; those of this process are chosen when it starts."""

    def __init__(self, samples: BaseEgoDataset, loader: LoaderParams, *, pin_memory: bool) -> None:
        self._samples = samples
        self._loader = loader
        self._pin_memory = pin_memory

    def __iter__(self) -> Iterator[Any]:
        loader = self._loader
        batches = make_loader(
            self._chosen(),
            loader.batch_size,
            num_workers=loader.num_workers,
            threads=1 if loader.num_workers else loader.threads,
            pin_memory=self._pin_memory,
        )
        return iter(batches)

    def _chosen(self) -> Dataset[Any]:
        """Return the samples, or as many of them as may be taken, evenly spread over all scenes."""
        loader = self._loader
        if loader.max_num_batches is None:
            return self._samples
        _, num_processes = process_place(None, None)
        most = loader.max_num_batches * loader.batch_size * num_processes
        return Subset(self._samples, spread_indices(len(self._samples), most).tolist())


def _open_evaluation(cfg: dict[str, Any], params: TrainingParams, data_manager: LocalDataManager) -> _Evaluation | None:
    """Return the batches of evaluations, never perturbed, if the configuration has some."""
    if params.val_loader is None:
        return None
    samples = open_samples(cfg, params, params.val_loader, data_manager, perturbed=False)
    return _Evaluation(samples, params.val_loader, pin_memory=_is_on_cuda(params))


def _best_rule(cfg: dict[str, Any], params: TrainingParams, evaluation: _Evaluation | None) -> BestRule | None:
    """Return which weights are the best: those with the smallest ADE at the last horizon."""
    if evaluation is None:
        return None
    score = score_name("val", "ade_m", params.horizons_s[-1])
    digest = evaluation_digest(cfg, score=score)
    return BestRule(score, patience=params.run.early_stopping_patience, digest=digest, batches=evaluation)


def _make_trainer(
    params: TrainingParams,
    folder: Path,
    *,
    schedule: TrainingSchedule,
    num_devices: int,
    callbacks: list[pl.Callback],
    resumed: ResumePoint | None,
) -> pl.Trainer:
    """Return Lightning's trainer; one of its epochs is the whole training."""
    precision: Any = params.run.precision
    return pl.Trainer(
        accelerator=params.run.accelerator,
        devices=num_devices,
        strategy=_strategy(params, num_devices),
        precision=precision,
        logger=make_logger(params.run.logger, folder, name=params.run.output_name, resumed=resumed),
        callbacks=callbacks,
        plugins=[StateFiles()],
        min_epochs=0,
        max_epochs=1,
        max_steps=schedule.num_steps,
        val_check_interval=schedule.eval_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps=min(params.run.log_every_n_steps, schedule.num_steps),
        gradient_clip_val=params.optimizer.gradient_clip_norm,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def _strategy(params: TrainingParams, num_devices: int) -> str:
    if num_devices == 1:
        return "auto"
    return "ddp_find_unused_parameters_true" if workflow_of(params).has_idle_weights else "ddp"


def _is_on_cuda(params: TrainingParams) -> bool:
    return params.run.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()


def _num_devices(params: TrainingParams) -> int:
    """Return how many devices are trained on."""
    if params.run.devices:
        return params.run.devices
    return torch.cuda.device_count() if _is_on_cuda(params) else 1


def _prepare_folder(folder: Path, cfg: dict[str, Any], *, name: str, resume: bool) -> ResumePoint | None:
    """Make the folder of a new training, or return where the training in it goes on."""
    checkpoint, config = folder / LAST_CHECKPOINT, folder / _CONFIG_FILE
    resumed = None
    if is_main_process():
        clear_leftovers_in(folder)
    if resume:
        _require_files_to_go_on(checkpoint, config, name)
        _require_same_training(cfg, load_config_data(str(config)))
        resumed = read_resume_point(checkpoint) if checkpoint.exists() else ResumePoint()
    elif is_main_process() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds files; name another, or resume to go on with what is in it"
        )
    if is_main_process():
        folder.mkdir(parents=True, exist_ok=True)
    return resumed


def _require_files_to_go_on(checkpoint: Path, config: Path, name: str) -> None:
    """Refuse a folder without a configuration, and one whose state is gone, as other files in it prove."""
    advice = "put it back, or start a new training in another folder"
    if not config.is_file():
        if checkpoint.exists():
            raise FileNotFoundError(
                f"there is no {config}, the configuration of the training that is to go on; {advice}"
            )
        raise FileNotFoundError(f"there is no {checkpoint} to go on from; start without resume")
    # the state of a step is written before the weights of the next checkpoint are
    num_weights = len(list(checkpoint.parent.glob(f"{glob.escape(name)}_*_steps.safetensors")))
    has_ended = (checkpoint.parent / _RESULT_FILE).exists()
    if not checkpoint.exists() and (num_weights > 1 or has_ended):
        proof = _RESULT_FILE if has_ended else f"the weights of {num_weights} checkpoints"
        raise FileNotFoundError(f"there is no {checkpoint} to go on from, but there was, before {proof} came; {advice}")


def _require_same_training(cfg: Mapping[str, Any], started: Mapping[str, Any]) -> None:
    """Refuse to go on with another network, other data or another order."""
    for section in _FIXED_SECTIONS:
        if cfg.get(section) != started.get(section):
            raise ConfigError(
                f"{section}: differs from the training that is to go on ({_first_difference(cfg, started, section)}); "
                "start a new one in another folder"
            )
    for key in _FIXED_RUN_KEYS:
        now, before = cfg["train_params"].get(key), started["train_params"].get(key)
        if now != before:
            raise ConfigError(
                f"train_params.{key}: {now!r} differs from {before!r} of the training that is to go on; "
                "start a new one in another folder"
            )


def _first_difference(cfg: Mapping[str, Any], started: Mapping[str, Any], section: str) -> str:
    now, before = cfg.get(section), started.get(section)
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        for key in {**before, **now}:
            if now.get(key) != before.get(key):
                return f"{key}: {before.get(key)!r} became {now.get(key)!r}"
    return f"{before!r} became {now!r}"


def _warn_of_ineffective(cfg: Mapping[str, Any]) -> None:
    """Name keys of L5Kit 1.x that have no effect here, as most had none there."""
    given = [key for key in LEGACY_KEYS if key.partition(".")[2] in cfg.get("model_params", {})]
    if cfg.get("val_data_loader", {}).get("perturb_probability"):
        given.append("val_data_loader.perturb_probability")
    if given:
        warnings.warn(f"these keys have no effect on the training: {', '.join(given)}", UserWarning, stacklevel=3)


def _write_result(result: TrainingResult) -> None:
    """Write ``result.json``."""
    facts: dict[str, Any] = {"num_steps": result.num_steps, "minutes": round(result.minutes, 2)}
    facts |= {"scores": dict(result.scores), "best_step": result.best_step, "best_score": result.best_score}
    with replaced_when_complete(result.folder / _RESULT_FILE, argument="folder") as temporary:
        temporary.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _quiet_lightning() -> Iterator[None]:
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
