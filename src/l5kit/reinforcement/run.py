"""Training of a driver, from a configuration to a policy that drives."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from l5kit import __version__
from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.reinforcement import LogKeys, ReinforcementParams
from l5kit.data.jobs.data_record import DataRecord, require_same_data
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.progress import show_progress
from l5kit.environment.policy_file import read_weights
from l5kit.environment.policy_options import PolicyOptions
from l5kit.environment.sb3 import StableBaselinesVecEnv
from l5kit.environment.setup import EnvironmentOptions, EnvironmentParts
from l5kit.errors import TERMINATED
from l5kit.reinforcement.course import CourseState, DriverProgress, TrainingCourse, TrainingTimeOver
from l5kit.reinforcement.environments import (
    JoinedEnvironments,
    join_towns,
    make_environments,
    others_beside,
    scenes_to_evaluate,
    share_scales,
    towns_of,
)
from l5kit.reinforcement.folder import RunFolder, require_whole
from l5kit.reinforcement.imitation import RULES, imitate_rules, require_imitable
from l5kit.reinforcement.near_start import keep_near_start
from l5kit.reinforcement.policy import find_beginning, make_algorithm, take_weights

_ENDLESS = 2**62
_TRAINING = "l5kit_training"
"""Attribute of an algorithm that is saved in its file: the version of l5kit, the data, and the configuration."""


@dataclass(frozen=True)
class DriverTraining:
    """Result of a training of a driver.

    Attributes:
        folder: Its run folder.
        driver: The policy at the end, a zip file for ``stable_baselines3.PPO.load``.
        num_steps: Total number of training steps.
        minutes: Total minutes of training, without evaluations and checkpoints.
        steps_per_s: Steps per second in that time.
        environment_share: Share of that time spent in steps of the environments, 0 to 1.
        before: Figures of the first evaluation, by name; see :func:`~l5kit.reinforcement.course.drive_scenes`.
        after: Figures of the last evaluation.
    """

    folder: Path
    driver: Path
    num_steps: int
    minutes: float
    steps_per_s: float
    environment_share: float
    before: Mapping[str, float]
    after: Mapping[str, float]


def train_driver(
    cfg: JsonObject,
    folder: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    eval_data_folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = print,
    show_bar: bool = True,
) -> DriverTraining:
    """Train a driver with PPO in many environments.

    The folder gets ``config.yaml``, ``checkpoints/``, ``evaluations.csv``, ``curves/`` (TensorBoard), ``first.zip``
    (the policy before the first step), ``best.zip``, and at the end ``driver.zip`` and ``result.json``.

    Args:
        cfg: The configuration of an environment with ``rl_params``; an unknown key is an error.
        folder: Output folder; new or empty, unless ``resume``.
        data_folder: Folder that the keys of the data are relative to; None for the environment variable
            ``L5KIT_DATA_FOLDER``.
        eval_data_folder: Data folder of evaluations; None for ``data_folder``, which is always used with ``overfit``.
        resume: Continue from the last checkpoint, with its optimiser and step count; from the first step, with a line
            of progress, if the training ended before its first checkpoint. Later episodes differ from those of an
            uninterrupted training.
        tell: Function called with each line of progress, such as the figures of an evaluation.
        show_bar: Whether the pace is shown.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range, or differs from that of the training
            to resume.
        FileNotFoundError: Data is missing, or there is nothing to resume.
        InvalidArgumentError: The folder holds files, another process is training into it, the checkpoint to resume from
            is broken, or the data has changed.
        KeyboardInterrupt: Ctrl-C; the last checkpoint is kept.
        SystemExit: SIGTERM, with status 143; the last checkpoint is kept.
    """
    # check all arguments before touching the folder, and find the data before claiming it
    check_known_keys(cfg)
    params = ReinforcementParams.from_cfg(cfg)
    if params.init == RULES:
        require_imitable(PolicyOptions.of_cfg(cfg))
    elif params.init is not None and not resume:
        find_beginning(params.init)
    has_one_scene = EnvironmentParams.from_cfg(cfg).overfit
    target = RunFolder(Path(os.path.abspath(folder)))  # user code may change the working directory
    target.prepare(cfg, resume=resume)
    data = LocalDataManager(data_folder)
    eval_data = data if eval_data_folder is None or has_one_scene else LocalDataManager(eval_data_folder)
    scenes = scenes_to_evaluate(cfg, eval_data, wanted=params.eval_scenes)
    keys = LogKeys.from_cfg(cfg)
    towns = towns_of(keys, data)
    for town in towns:
        town.require(keys.trained)
    facts = _facts_of(keys, towns, eval_data, has_one_scene=has_one_scene, show_bar=show_bar)
    if resume:
        require_same_data(target.read_last(_TRAINING), facts)
    with target.claimed(), torch.random.fork_rng(), _torch_threads(params.num_threads), _ended_by_sigterm():
        target.write_config(cfg)
        with nullcontext() if resume else target.unmade_by_errors():
            env = join_towns(
                cfg, target.config, towns, num_envs=params.num_envs, num_threads=params.environment_threads
            )
            evaluated = make_environments(cfg, target.config, eval_data, num_envs=len(scenes), train=False)
            share_scales(env, evaluated)
        progress = DriverProgress(tell=tell, visible=show_bar)
        try:
            options = PolicyOptions.of_cfg(cfg)
            recorded = {**facts, "configuration": cfg}
            course = _run(
                params,
                target,
                env,
                evaluated,
                scenes,
                towns=towns,
                options=options,
                recorded=recorded,
                progress=progress,
                resume=resume,
            )
        finally:
            progress.stop()
            env.close()
            evaluated.close()
    return _result_of(course, facts)


def _run(
    params: ReinforcementParams,
    folder: RunFolder,
    env: JoinedEnvironments,
    evaluated: StableBaselinesVecEnv,
    scenes: range,
    *,
    towns: Sequence[LocalDataManager],
    options: PolicyOptions,
    recorded: JsonObject,
    progress: DriverProgress,
    resume: bool,
) -> TrainingCourse:
    """Train to the end, starting from the last checkpoint if there is one."""
    rewards = VecNormalize(env, norm_obs=False, gamma=params.gamma) if params.normalize_rewards else None
    model = _begun(params, folder, rewards or env, towns=towns, options=options, tell=progress.tell, resume=resume)
    options.keep_in(model)
    setattr(model, _TRAINING, recorded)
    state = CourseState.of(model)
    state.restore(rewards)
    has_its_steps = params.total_steps is not None and model.num_timesteps >= params.total_steps
    if has_its_steps or (params.minutes is not None and state.trained_s >= 60 * params.minutes):
        progress.tell("the training has already reached its total_steps or minutes; increase them to continue")
    state.best_reward = CourseState.in_file(folder.best).best_reward  # it may be newer than the checkpoint
    model.set_logger(configure(str(folder.curves), ["tensorboard"]))
    rows = folder.read_evaluations(until_step=state.evaluated_step)
    course = TrainingCourse(
        params,
        folder,
        state,
        env=env,
        rewards=rewards,
        evaluated=evaluated,
        scenes=scenes,
        progress=progress,
        rows=rows,
    )
    try:
        progress.start()
        num_left = (params.total_steps or _ENDLESS) - model.num_timesteps
        with suppress(TrainingTimeOver):
            model.learn(num_left, callback=course, reset_num_timesteps=False)
        course.end()
    finally:
        model.logger.close()
    return course


def _begun(
    params: ReinforcementParams,
    folder: RunFolder,
    env: VecEnv,
    *,
    towns: Sequence[LocalDataManager],
    options: PolicyOptions,
    tell: Callable[[str], None],
    resume: bool,
) -> PPO:
    """Return the algorithm of the last checkpoint, or a new one."""
    checkpoints = folder.checkpoints()
    if checkpoints:
        # Such a file may hold code that runs on loading, but this is the training's own.
        model = PPO.load(require_whole(list(checkpoints.values())[-1]), env=env, device="cpu")
        # seed later actions and episodes by seed and step
        model.set_random_seed(int(np.random.SeedSequence([params.seed, model.num_timesteps]).generate_state(1)[0] // 2))
        if params.near_start:
            keep_near_start(model, read_weights(folder.first)[0], entropy_weight=params.ent_coef)
        tell(f"resuming at step {model.num_timesteps:,}")
        return model
    if resume:
        tell(f"there is no checkpoint in {folder.path} yet: the training starts at step 0")
    layout = options.layout if options.observation == "compact" else None
    model = make_algorithm(params, env, layout=layout)
    if params.init == RULES:
        beside = EnvironmentOptions(others=others_beside(load_config_data(str(folder.config))))
        parts = [EnvironmentParts.open(os.fspath(folder.config), town, train=True, options=beside) for town in towns]
        imitate_rules(model, parts, options, seed=params.seed, tell=tell)
    elif params.init is not None:
        take_weights(model, params.init, options)
        tell(f"starting from the policy {params.init}")
    if params.near_start:
        keep_near_start(model, model.policy.state_dict(), entropy_weight=params.ent_coef)
    return model


def _facts_of(
    keys: LogKeys,
    towns: Sequence[LocalDataManager],
    eval_data: LocalDataManager,
    *,
    has_one_scene: bool,
    show_bar: bool,
) -> JsonObject:
    """Return the facts of a training for its records: the version of l5kit, and its data."""
    evaluated = eval_data.require(keys.evaluated)
    with show_progress("Reading", visible=show_bar) as progress:
        records = [DataRecord.of_log(town.require(keys.trained), key=keys.trained, progress=progress) for town in towns]
        other = records[0] if has_one_scene else DataRecord.of_log(evaluated, key=keys.evaluated, progress=progress)
    recorded = [record.as_dict() for record in records]
    return {
        "l5kit": __version__,
        "data": recorded[0] if keys.folders is None else recorded,
        "eval_data": other.as_dict(),
    }


def _result_of(course: TrainingCourse, recorded: JsonObject) -> DriverTraining:
    """Return the result, and write it."""
    pace = course.pace()
    first, last = course.rows[0], course.rows[-1]
    result = DriverTraining(
        folder=course.folder.path,
        driver=course.folder.driver,
        num_steps=pace.step,
        minutes=course.state.trained_s / 60,
        steps_per_s=pace.steps_per_s,
        environment_share=pace.environment_share,
        before={name: value for name, value in first.items() if name not in ("step", "minutes")},
        after={name: value for name, value in last.items() if name not in ("step", "minutes")},
    )
    facts = {name: value for name, value in vars(result).items() if name not in ("folder", "driver")}
    course.folder.write_result({**facts, **recorded})
    return result


@contextmanager
def _torch_threads(num_threads: int) -> Iterator[None]:
    """Set the number of threads of torch in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception that ends the process, so that no file is left half written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_: int, __: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
