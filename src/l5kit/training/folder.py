"""Run folder of a training: checks before a new training is written to it, or before its training is resumed."""

import glob
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from l5kit._files import clear_leftovers_in, remove_whole
from l5kit._types import Config
from l5kit.configs.config import load_config_data
from l5kit.configs.texts import with_integers
from l5kit.data.jobs.folder_lock import is_main_process, require_unused
from l5kit.errors import ConfigError
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.optimizing import length_of_course
from l5kit.training.state_file import LAST_CHECKPOINT, ResumePoint, read_resume_point
from l5kit.workflows.workflow import TrainingConfig

CONFIG_FILE: Final = "config.yaml"
"""File of the given configuration."""

CURVES: Final = "curves"
"""Folder of the curves."""

RESULT_FILE: Final = "result.json"
"""File of steps and scores at the end; its existence means that a training has finished."""

_FIXED_SECTIONS: Final = ("workflow", "model_params", "raster_params", "data_generation_params", "train_data_loader")
_FIXED_RUN_KEYS: Final = (
    *("seed", "devices", "accelerator", "learning_rate", "weight_decay", "optimizer", "schedule"),
    "warmup_num_steps",
    *("accumulate_grad_batches", "num_nodes", "ema_decay"),
)

_LENGTH_KEYS: Final = ("max_num_steps", "num_epochs")


def training_digest(cfg: Config) -> str:
    """Return a digest that is equal for trainings that can be resumed from each other."""
    params = cfg.get("train_params") or {}
    fixed = [{key: cfg.get(key) for key in _FIXED_SECTIONS}, {key: params.get(key) for key in _FIXED_RUN_KEYS}]
    text = json.dumps(with_integers(fixed), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prepare_folder(folder: Path, config: TrainingConfig, *, resume: bool) -> ResumePoint | None:
    """Create the folder of a new training, or return the point at which its training resumes.

    Args:
        folder: The folder.
        config: The configuration.
        resume: Whether to resume the training in the folder.

    Raises:
        InvalidArgumentError: A new training is to be written to a folder that holds files.
        FileNotFoundError: There is nothing to resume, or a required file is gone.
        ConfigError: The folder has another training.
        CheckpointError: The stored state is broken, or that of another training.
    """
    checkpoint = folder / LAST_CHECKPOINT
    resumed = None
    # all processes run the checks, one of them makes changes
    if is_main_process():
        clear_leftovers_in(folder)
    if resume:
        # the configuration must exist, and the state, too, if other files prove that it was written
        advice = "put it back, or start a new training in another folder"
        if not (folder / CONFIG_FILE).is_file():
            if checkpoint.exists():
                raise FileNotFoundError(
                    f"there is no {folder / CONFIG_FILE}, the configuration of the training to resume; {advice}"
                )
            raise FileNotFoundError(f"there is no {checkpoint} to resume from; start without resume")
        # the state of a step is written before the weights of the next checkpoint
        num_weights = len(list(folder.glob(f"{glob.escape(config.params.run.output_name)}_*_steps.safetensors")))
        has_ended = (folder / RESULT_FILE).exists()
        if not checkpoint.exists() and (num_weights > 1 or has_ended):
            proof = RESULT_FILE if has_ended else f"the weights of {num_weights} checkpoints"
            raise FileNotFoundError(
                f"there is no {checkpoint} to resume from, although one existed according to {proof}; {advice}"
            )
        stored = load_config_data(str(folder / CONFIG_FILE))
        _require_same_training(config.mapping, stored)
        # training longer is fine, unless the state of the named schedule depends on the number of steps
        given, before = config.mapping["train_params"], stored["train_params"]
        changed = [key for key in _LENGTH_KEYS if given.get(key) != before.get(key)]
        argument = length_of_course(config.params) if changed else None
        if argument is not None:
            key, named = changed[0], config.params.optimizer.own_schedule
            raise ConfigError(
                f"train_params.{key}: {given.get(key)!r} differs from {before.get(key)!r} of the training to "
                f"resume, whose schedule was made for that length ({argument} of {named and named.class_path}); start "
                "a new one in another folder, with init_args for the schedule if it is to be made longer"
            )
        resumed = read_resume_point(checkpoint) if checkpoint.exists() else ResumePoint()
        if resumed.training not in (None, training_digest(config.mapping)):
            raise CheckpointError(
                f"{checkpoint} is not the state of the training of {folder / CONFIG_FILE}; restore that, "
                "or start a new training in another folder"
            )
    elif is_main_process():
        require_unused(folder)
    if is_main_process():
        folder.mkdir(parents=True, exist_ok=True)
    return resumed


@contextmanager
def freed_by_errors(folder: Path, *, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Free the folder again if an error comes before the first step, by removing what the training has written.

    Args:
        folder: The folder of a new training.
        has_begun: Function that returns whether a step was made.
    """
    try:
        yield
    except Exception:
        if not has_begun() and is_main_process():
            (folder / CONFIG_FILE).unlink(missing_ok=True)
            if (folder / CURVES).is_dir():
                remove_whole(folder / CURVES)
        raise


def _require_same_training(given: Config, stored: Config) -> None:
    """Raise if network, data or order differ from those of the stored training; as written in the configurations."""
    for section in _FIXED_SECTIONS:
        now, before = given.get(section), stored.get(section)
        if now != before:
            difference = f"{before!r} became {now!r}"
            # for a section with keys, name the first one that differs
            if isinstance(now, Mapping) and isinstance(before, Mapping):
                different = [key for key in {**before, **now} if now.get(key) != before.get(key)]
                if different:
                    key = different[0]
                    difference = f"{key}: {before.get(key)!r} became {now.get(key)!r}"
            raise ConfigError(
                f"{section}: differs from the training to resume ({difference}); start a new one in another folder"
            )
    for key in _FIXED_RUN_KEYS:
        now, before = given["train_params"].get(key), stored["train_params"].get(key)
        if now != before:
            raise ConfigError(
                f"train_params.{key}: {now!r} differs from {before!r} of the training to resume; "
                "start a new one in another folder"
            )
