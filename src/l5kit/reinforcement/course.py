"""Course of a driver training: evaluations, checkpoints, progress and the end, between updates."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import VecNormalize

from l5kit._types import JsonObject
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.data.progress import Bar, open_bar
from l5kit.environment.sb3 import StableBaselinesVecEnv
from l5kit.reinforcement.environments import JoinedEnvironments
from l5kit.reinforcement.folder import RunFolder, require_whole, save_model
from l5kit.reinforcement.near_start import NearStartPolicy

_LINE_EVERY_S = 30.0

_FAULTS = ("collision", "off_road")

_SUMS = "reward_sums"
"""Key of infos for the terms of the reward, summed over an episode."""

_STATE = "l5kit_state"
"""Attribute of an algorithm that is saved in its file."""

_LEAST_RATE = 0.02
"""Learning rate at the end of a training, as a share of the initial one."""

_TOLD = ("reward", "share_to_the_end", "share_without_collision", "share_without_off_road", "progress")
"""Figures of an evaluation that are printed; all figures are written to the table."""


@dataclass(frozen=True)
class Pace:
    """Pace of a training at a moment.

    Attributes:
        step: Steps done.
        share_done: Share of the whole training, 0 to 1.
        steps_per_s: Steps per second, without evaluations and checkpoints.
        environment_share: Share of that time spent in steps of the environments, 0 to 1.
        reward: Mean reward of the last episodes; None before the end of the first.
    """

    step: int
    share_done: float
    steps_per_s: float
    environment_share: float
    reward: float | None

    def __str__(self) -> str:
        reward = "-" if self.reward is None else f"{self.reward:.2f}"
        return (
            f"{self.step:,} steps, episode reward {reward}, {self.steps_per_s:,.0f} steps/s, "
            f"environment {self.environment_share:.0%}"
        )


class DriverProgress:
    """Progress display: a bar if standard error is a terminal or in a notebook, else a line at intervals.

    Args:
        tell: Function called with each human-readable line of progress.
        visible: Whether the pace is shown; evaluations are always reported.
    """

    def __init__(self, *, tell: Callable[[str], None], visible: bool = True) -> None:
        self._tell, self._visible = tell, visible
        self._shown_s = time.perf_counter()
        self._bar: Bar | None = None

    def start(self) -> None:
        """Show the bar."""
        if self._visible:
            self._bar = open_bar("Training")

    def show(self, pace: Pace) -> None:
        """Show the pace."""
        if self._bar is not None:
            self._bar.show(pace.share_done, 1.0, str(pace))
        elif self._visible and pace.steps_per_s > 0 and time.perf_counter() - self._shown_s >= _LINE_EVERY_S:
            self._tell(str(pace))
            self._shown_s = time.perf_counter()

    def tell(self, line: str) -> None:
        """Report a line."""
        self._tell(line)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def drive_scenes(env: StableBaselinesVecEnv, policy: BaseAlgorithm, scenes: Sequence[int]) -> dict[str, float]:
    """Drive a scene in each environment from its first frame to the end of the episode, and return mean figures.

    Returns:
        ``reward`` and ``steps`` of an episode; ``share_to_the_end``, the share of episodes that reach their last frame;
        the terms of the reward by name, each summed over the episode; and, if ``collision`` or ``off_road`` is among
        them, the share of episodes without it, such as ``share_without_collision``.
    """
    observations: Any = env.reset()
    for index, scene in enumerate(scenes):
        mask = np.arange(env.num_envs) == index
        observations, _ = env.env.reset(options={"scene_id": scene, "reset_mask": mask})
    # environments that have finished their scene continue with other scenes, which are ignored
    ends: dict[int, JsonObject] = {}
    while len(ends) < env.num_envs:
        actions, _ = policy.predict(observations, deterministic=True)
        observations, _, is_over, infos = env.step(actions)
        for index in np.flatnonzero(is_over).tolist():
            ends.setdefault(index, infos[index])

    # figures of each episode, and their means over the episodes that have them
    rows = []
    for end in ends.values():
        sums = {name: float(value) for name, value in end.get(_SUMS, {}).items() if name != "tot"}
        of_episode = {
            "reward": float(end["episode"]["r"]),
            "steps": float(end["episode"]["l"]),
            "share_to_the_end": float(end["TimeLimit.truncated"]),
        }
        without = {f"share_without_{fault}": float(sums[fault] == 0) for fault in _FAULTS if fault in sums}
        rows.append({**of_episode, **without, **sums})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


class TrainingTimeOver(Exception):  # noqa: N818
    """Signal that the time limit of a training is reached; not an error."""


@dataclass
class CourseState:
    """State of a training in its checkpoints, in addition to the network and its optimiser.

    Attributes:
        trained_s: Seconds of training, without evaluations and checkpoints.
        stepped_s: Part of these seconds spent in steps of the environments.
        evaluated_step: Step of the last evaluation; -1 before the first.
        best_reward: Mean reward of the best evaluation; None before the first.
        returns: Mean, variance and count of the returns for normalising rewards; None without normalisation.
    """

    trained_s: float = 0.0
    stepped_s: float = 0.0
    evaluated_step: int = -1
    best_reward: float | None = None
    returns: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, model: BaseAlgorithm) -> "CourseState":
        """Return the state in an algorithm that was read from its file; the initial state if there is none."""
        return cls(**getattr(model, _STATE, {}))

    @classmethod
    def in_file(cls, path: Path) -> "CourseState":
        """Return the state in the file of an algorithm; the initial state without a file.

        Raises:
            InvalidArgumentError: The file is broken.
        """
        if not path.is_file():
            return cls()
        data, _, _ = load_from_zip_file(require_whole(path))
        return cls(**(data or {}).get(_STATE, {}))

    def keep_in(self, model: BaseAlgorithm, rewards: VecNormalize | None) -> None:
        """Store this state in an algorithm, so that it is saved in its file."""
        if rewards is not None:
            seen = rewards.ret_rms
            self.returns = (float(seen.mean), float(seen.var), float(seen.count))
        setattr(model, _STATE, asdict(self))

    def restore(self, rewards: VecNormalize | None) -> None:
        """Restore the statistics for normalising rewards."""
        if rewards is not None and self.returns is not None:
            mean, variance, count = self.returns
            rewards.ret_rms.mean, rewards.ret_rms.var = np.array(mean), np.array(variance)
            rewards.ret_rms.count = count


class TrainingCourse(BaseCallback):
    """Callback that evaluates and saves a driver before the rollout of an update, when no update is in progress.

    Args:
        params: Parameters of the training.
        folder: Files of the training.
        state: State from the last checkpoint.
        env: Environments of the training.
        rewards: Wrapper that normalises rewards; None without normalisation.
        evaluated: Environments of evaluations, one for each scene.
        scenes: These scenes.
        progress: Display of the progress.
        rows: The evaluations so far, each with its step; new ones are appended.

    Attributes:
        rows: All evaluations, each with its step.
        state: Current state.
    """

    def __init__(
        self,
        params: ReinforcementParams,
        folder: RunFolder,
        state: CourseState,
        *,
        env: JoinedEnvironments,
        rewards: VecNormalize | None,
        evaluated: StableBaselinesVecEnv,
        scenes: Sequence[int],
        progress: DriverProgress,
        rows: list[dict[str, float]],
    ) -> None:
        super().__init__()
        self.params, self.folder, self.state, self.rows = params, folder, state, rows
        self._env, self._rewards, self._evaluated, self._progress = env, rewards, evaluated, progress
        self._scenes = scenes
        self._mark_s, self._stepped_s = 0.0, 0.0
        self._saved_step = -1

    def _on_training_start(self) -> None:
        self._saved_step = self.num_timesteps
        self._restart_clock()

    def _on_rollout_start(self) -> None:
        self._stop_clock()
        step = self.model.num_timesteps
        if self._is_due(self.params.eval_every_steps, self.state.evaluated_step):
            self.evaluate()
        if self._is_due(self.params.checkpoint_every_steps, self._saved_step):
            self.save()
        self._progress.show(self.pace())

        # set the learning rate and the weight of the start policy for the next update
        left = 1.0 - self.pace().share_done
        if self.params.anneals:
            # a number, as a function would be saved as code in the file of the algorithm
            self.model.learning_rate = self.params.learning_rate * max(left, _LEAST_RATE)
            self.model._setup_lr_schedule()
        if isinstance(self.model.policy, NearStartPolicy):
            self.model.policy.near_weight = self.params.near_start * left

        # stop at the time limit only after due evaluations and checkpoints
        if step and self.params.minutes is not None and self.state.trained_s >= 60 * self.params.minutes:
            self._restart_clock()
            raise TrainingTimeOver
        self._restart_clock()

    def _on_step(self) -> bool:
        return True

    def pace(self) -> Pace:
        """Return the current pace."""
        step, seconds = self.model.num_timesteps, max(self.state.trained_s, 1e-9)
        # the limit of steps or of minutes, whichever is closer
        shares = [step / total for total in (self.params.total_steps,) if total]
        shares += [seconds / 60 / minutes for minutes in (self.params.minutes,) if minutes]
        rewards = [each["r"] for each in self.model.ep_info_buffer or ()]
        return Pace(
            step=step,
            share_done=min(max(shares), 1.0),
            steps_per_s=step / seconds,
            environment_share=self.state.stepped_s / seconds,
            reward=sum(rewards) / len(rewards) if rewards else None,
        )

    def end(self) -> None:
        """Evaluate and save the final policy, unless it has been evaluated already."""
        self._stop_clock()
        if self.state.evaluated_step != self.model.num_timesteps:
            self.evaluate()
        self.save()
        save_model(self.model, self.folder.driver)

    def evaluate(self) -> None:
        """Drive the scenes of evaluations; log, write and report the figures, and keep the best policy."""
        figures = drive_scenes(self._evaluated, self.model, self._scenes)
        step, best = self.model.num_timesteps, self.state.best_reward
        for name, value in figures.items():
            self.logger.record(f"eval/{name}", value)
        if step:
            self.logger.record("time/steps_per_s", self.pace().steps_per_s)
            self.logger.record("time/environment_share", self.pace().environment_share)
        self.logger.dump(step)
        self.state.evaluated_step = step
        is_best = best is None or figures["reward"] > best
        self.state.best_reward = figures["reward"] if is_best else best
        self.state.keep_in(self.model, self._rewards)
        for path, is_wanted in ((self.folder.first, step == 0), (self.folder.best, is_best)):
            if is_wanted:
                save_model(self.model, path)
        # a resumed training may evaluate the same step again
        self.rows = [row for row in self.rows if row["step"] != step]
        self.rows.append({"step": step, "minutes": round(self.state.trained_s / 60, 3), **figures})
        self.folder.write_evaluations(self.rows)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if name in _TOLD)
        self._progress.tell(f"step {step:,}: {shown}")

    def save(self) -> None:
        """Write a checkpoint."""
        self.state.keep_in(self.model, self._rewards)
        self.folder.save_checkpoint(self.model, keep=self.params.keep_checkpoints)
        self._saved_step = self.model.num_timesteps

    def _is_due(self, every: int, last: int) -> bool:
        return last < 0 or self.model.num_timesteps // every > last // every

    def _restart_clock(self) -> None:
        self._mark_s, self._stepped_s = time.perf_counter(), self._env.stepped_s

    def _stop_clock(self) -> None:
        """Add the time since the last start of the clock."""
        now_s = time.perf_counter()
        self.state.trained_s += now_s - self._mark_s
        self.state.stepped_s += self._env.stepped_s - self._stepped_s
        self._mark_s, self._stepped_s = now_s, self._env.stepped_s
