"""Vector environment: many independent environments stepped in one call."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.configs.texts import did_you_mean
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.action_kinds import ActionKind, PoseActions
from l5kit.environment.episode_choice import EpisodeDraws
from l5kit.environment.episodes import Episodes
from l5kit.environment.gym_types import Infos, Observation, ResetOptions, read_masked_options, set_spaces
from l5kit.environment.kinematic_model import UnicycleModel
from l5kit.environment.reward import L2DisplacementYawReward, Reward
from l5kit.environment.rewards.step_reward import DisplacementReward, StepReward
from l5kit.environment.setup import (
    EnvironmentOptions,
    EnvironmentParts,
    named_actions,
    require_driven_avs,
    require_num_envs,
    require_num_threads,
)
from l5kit.environment.step_infos import StepInfos, spread, with_ends
from l5kit.environment.utils import NonKinematicActionRescaleParams
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError
from l5kit.simulation.dataset import SimulationConfig


class L5VectorEnv(VectorEnv[Observation, NumericArray, NumericArray]):
    """N environments of logged scenes, stepped in one call, as a vector environment of Gymnasium.

    Each gives exactly the results of an :class:`~l5kit.environment.envs.l5_env.L5Env` with the same arguments and seed.

    Args:
        num_envs: Number of environments, N.
        env_config_path: As for ``L5Env``; so are the next arguments.
        dmg: The data manager.
        sim_cfg: Options of the simulation; None for the defaults and the number of frames of the configuration.
        train: Whether episodes are of the training data.
        reward: The reward: ``displacement`` (that of 1.5), ``driving``, or your own reward; None for that of the
            configuration.
        rescale_action: Whether actions are scaled.
        use_kinematic: Whether actions are steering and acceleration, as in 1.5; the same as ``actions="kinematic"``.
        kin_model: Limits of the unicycle that these actions move.
        randomize_start: Whether training episodes start at a random frame.
        simnet_model_path: TorchScript file that moves agents of all environments as one batch; needed if
            ``sim_cfg.use_agents_gt`` is False. Results can differ from those of single environments in the last bits,
            as the batch size differs.
        acceleration_per_step: Whether acceleration is scaled by the square of the step time.
        observation: Kind of observations: ``raster``, ``vectors`` or ``compact``; None for that of the configuration.
        actions: Kind of actions: ``poses``, ``kinematic``, ``bicycle``, ``curvature``, ``pose_change``, ``grid``,
            ``route``, ``route_emergency``, or an object of your own; None for that of the configuration.
        others: Driver of other vehicles: ``log``, ``idm``, ``cautious`` or ``assertive``; None for that of the
            configuration.
        ends_at: Failures that end an episode early, such as ``collision``; they need the reward ``driving``. None for
            those of the configuration.
        strict: Whether a damaged scene is an error. Else it is skipped with a warning.
        autoreset_mode: How an ended episode is followed by a new one: the next step only begins it (``NextStep``), the
            same step does (``SameStep``), or you call ``reset`` with ``options={"reset_mask": ...}`` (``Disabled``).
        copy: Whether observations are copies. Else all calls write into the same array.
        num_threads: Threads for states, IDM, compact observations and the reward ``driving``, 0 for one per core.
            Results are bit-identical; it pays off from some hundred environments on.
        render_mode: Must be None; only single environments draw.

    Attributes:
        episodes: The episodes, with their scenes, frames and AVs.

    Raises:
        InvalidArgumentError: An argument does not fit the configuration.
        UnsupportedValueError: An argument is only supported by single environments.
    """

    def __init__(
        self,
        num_envs: int = 1,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        reward: str | L2DisplacementYawReward | StepReward | None = None,
        rescale_action: bool = True,
        use_kinematic: bool = False,
        kin_model: UnicycleModel | None = None,
        randomize_start: bool | None = None,
        simnet_model_path: str | None = None,
        *,
        acceleration_per_step: bool = False,
        observation: str | None = None,
        actions: str | ActionKind | None = None,
        others: str | None = None,
        ends_at: Collection[str] | None = None,
        strict: bool = False,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        num_envs, num_threads = require_num_envs(num_envs), require_num_threads(num_threads)
        _require_supported(sim_cfg, reward, kin_model, render_mode)
        options = EnvironmentOptions(
            observation=observation,
            actions=named_actions(actions, use_kinematic=use_kinematic),
            reward=DisplacementReward(reward) if isinstance(reward, L2DisplacementYawReward) else reward,
            others=others,
            ends_at=ends_at,
            rescale_action=rescale_action,
            acceleration_per_step=acceleration_per_step,
            kin_model=kin_model,
            randomize_start=randomize_start,
            strict=strict,
        )
        parts = EnvironmentParts.open(env_config_path, dmg, sim_cfg, train=train, options=options)
        self.sim_cfg = parts.sim_cfg
        self.num_envs, self.copy, self.render_mode = num_envs, copy, None
        known = [mode.value for mode in AutoresetMode]
        if autoreset_mode not in (*known, *AutoresetMode):
            raise InvalidArgumentError(
                f"autoreset_mode is {autoreset_mode!r}{did_you_mean(autoreset_mode, known)}; "
                f"it must be one of {', '.join(known)}"
            )
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self._choice = parts.choice
        log = parts.slots(num_envs, simnet_model_path)
        episode_parts = parts.episode_parts(
            num_envs, parts.actions(num_envs), parts.reward(), log, num_threads=num_threads
        )
        self.episodes = Episodes(episode_parts, num_envs)
        set_spaces(self, episode_parts.view.space, episode_parts.actions.space)
        step_reward = episode_parts.reward
        self._infos = StepInfos(step_reward, num_envs, has_sums=not isinstance(step_reward, DisplacementReward))
        self._draws = EpisodeDraws(self._choice, num_envs, failed_share=parts.params.failed_share if train else 0.0)
        self._is_over: BoolArray = np.ones(num_envs, np.bool_)

    @property
    def scene_indices(self) -> Int64Array:
        """Scene of each episode, (N,)."""
        return self.episodes.scene_indices

    @property
    def frame_indices(self) -> Int64Array:
        """Current frame of each episode, (N,)."""
        return self.episodes.frame_indices

    @property
    def non_kin_rescale(self) -> NonKinematicActionRescaleParams | None:
        """Scales of actions that are poses; other kinds of actions raise an ``AttributeError``."""
        return self._poses().scales

    @non_kin_rescale.setter
    def non_kin_rescale(self, scales: NonKinematicActionRescaleParams | None) -> None:
        self._poses().scales = scales

    def _poses(self) -> PoseActions:
        kind = self.episodes.parts.actions
        if not isinstance(kind, PoseActions):
            raise AttributeError(f"actions of {type(kind).__name__} have no non_kin_rescale")
        return kind

    @property
    def damaged_scenes(self) -> set[int]:
        """Scenes that were found to be damaged and are skipped."""
        return self._choice.damaged

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: ResetOptions | None = None
    ) -> tuple[Observation, Infos]:
        """Start episodes.

        Args:
            seed: One for each environment, or a number for the first one and the next numbers for the rest; None keeps
                the generators.
            options: ``scene_id`` and ``start_frame_index`` of all episodes, and ``reset_mask``, bool (N,), of the
                environments to reset; None for all.

        Returns:
            Observations, an array (N, ...) or one for each key, and an empty dictionary.

        Raises:
            InvalidArgumentError: The number of seeds is wrong, or an option is invalid.
            CorruptedDataError: The requested scene is damaged, or all are.
        """
        mask, wanted = read_masked_options(options)
        slots = np.flatnonzero(self._masked(mask))
        self._draws.seed(slots, seed)
        self._start(slots, wanted)
        return self._observation(), {}

    def step(self, actions: ArrayLike) -> tuple[Observation, Float64Array, BoolArray, BoolArray, Infos]:
        """Drive each environment to its next frame, or start its next episode.

        Args:
            actions: (N, A), or (N,) for grid numbers; ignored for environments that start an episode.

        Returns:
            Observations, rewards float64 (N,), terminated and truncated (N,), and infos as arrays (N,) and masks.

        Raises:
            EpisodeEndedError: ``reset`` is needed: there is no episode, or one has ended and does not reset by itself.
            InvalidArgumentError: The actions have another shape, are not finite, or are not in the space.
        """
        if (self.frame_indices < 0).any():
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        self._is_over |= self.episodes.is_at_end  # in case the last step reached the end and then raised an error
        if self._is_over.any() and self.autoreset_mode is AutoresetMode.DISABLED:
            over = np.flatnonzero(self._is_over).tolist()
            raise EpisodeEndedError(
                f"the episodes of environments {over} have ended; call reset(options={{'reset_mask': ...}})"
            )
        episodes, is_driven = self.episodes, ~self._is_over
        values = episodes.parts.actions.checked(actions, is_driven)
        slots, is_starting = np.flatnonzero(is_driven), self._is_over
        rewards, terminated, infos = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_), {}
        if len(slots):
            outcome = episodes.drive(slots, values[slots])
            rewards[slots], terminated[slots] = outcome.total, outcome.is_failed
        truncated: BoolArray = is_driven & episodes.is_at_end & ~terminated
        is_over = terminated | truncated
        self._draws.note(self.scene_indices[is_over], terminated[is_over])
        if len(slots):
            step_infos = self._infos.of_step(slots, outcome, is_over[slots])
            infos = spread(step_infos, slots, is_driven, only={"reward_sums": is_over})
            episodes.look(slots)
        self._is_over = is_starting | is_over
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            is_starting = self._is_over
            if is_over.any():
                infos = with_ends(infos, is_over, partial(_copied, episodes.parts.view.memory))
        if is_starting.any():
            self._start(np.flatnonzero(is_starting), {})
        return self._observation(), rewards, terminated, truncated, infos

    def _start(self, slots: Int64Array, wanted: Mapping[str, int]) -> None:
        """Start episodes in slots (B,)."""
        scenes, first_frames, num_frames = self._draws.draw(slots, wanted)
        self.episodes.begin(slots, scenes, first_frames, num_frames)
        self._infos.begin(slots)
        self._is_over[slots] = False

    def _observation(self) -> Observation:
        memory = self.episodes.parts.view.memory
        return _copied(memory) if self.copy else memory

    def _masked(self, mask: Any) -> BoolArray:
        """Return a checked mask of environments; all of them for None."""
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise InvalidArgumentError(
                f"options['reset_mask'] must be a bool array of shape ({self.num_envs},), got {mask!r}"
            )
        if not mask.any():
            raise InvalidArgumentError("options['reset_mask'] marks no environment")
        if (self.frame_indices[~mask] < 0).any():
            raise InvalidArgumentError("options['reset_mask'] leaves out environments that have no episode yet")
        return mask


def _copied(seen: Observation, slot: int | None = None) -> Observation:
    """Return a copy of the observations of all environments, or of one."""
    if isinstance(seen, dict):
        return {key: _copied(value, slot) for key, value in seen.items()}
    return seen.copy() if slot is None else np.array(seen[slot])


def _require_supported(
    sim_cfg: SimulationConfig | None, reward: Any, kinematic: UnicycleModel | None, render_mode: str | None
) -> None:
    """Raise if an argument is only supported by single environments.

    Raises:
        UnsupportedValueError: An argument needs single environments.
    """
    alone = "use single environments, gymnasium.make_vec(..., vectorization_mode='sync')"
    if sim_cfg is not None:
        require_driven_avs(sim_cfg)
    if isinstance(reward, Reward) and (type(reward) is not L2DisplacementYawReward or not reward.has_usual_metrics):
        raise UnsupportedValueError(f"reward is {reward!r}, which works on single scenes; {alone}")
    if kinematic is not None and type(kinematic) is not UnicycleModel:
        raise UnsupportedValueError(f"kin_model is {kinematic!r}, which moves a single AV; {alone}")
    if render_mode is not None:
        raise UnsupportedValueError(f"render_mode is {render_mode!r}, but vector environments are not drawn; {alone}")
