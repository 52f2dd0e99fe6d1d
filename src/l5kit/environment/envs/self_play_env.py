"""Self-play environment: AVs of logged scenes and the vehicles around them, all driven by one policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.actors import ActorEpisode
from l5kit.environment.episode_choice import EpisodeDraws, EpisodeStart
from l5kit.environment.gym_types import Infos, ResetOptions, read_options, set_spaces
from l5kit.environment.model_actions import ModelActions
from l5kit.environment.rewards.step_reward import DisplacementReward, StepOutcome
from l5kit.environment.setup import BESIDE_POLICY, EnvironmentOptions, EnvironmentParts, require_num_envs
from l5kit.environment.step_infos import StepInfos, spread, with_ends
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import EpisodeEndedError

_NO_TRACK = -1
"""Track id of AVs."""


@dataclass(frozen=True, eq=False)
class _SceneStep:
    """Results of K vehicles of a scene in a step.

    Attributes:
        rows: Their rows, int64 (K,).
        outcome: Their rewards and failures.
        is_cut: Mask of vehicles that end without a failure, as their log or their scene ends, (K,).
        seen: Their observations, float32 (K, D).
    """

    rows: Int64Array
    outcome: StepOutcome
    is_cut: BoolArray
    seen: Float32Array


@dataclass(frozen=True, eq=False)
class _Scene:
    """Scene in progress.

    Attributes:
        episode: The AV and vehicles of the scene.
        rows: Row of each of them that acts, int64 (1 + P,).
    """

    episode: ActorEpisode
    rows: Int64Array

    @property
    def goes_on(self) -> bool:
        """Whether the AV still acts; the scene ends with it."""
        return bool(self.episode.is_acting[0])

    def drive(self, values: NumericArray) -> _SceneStep:
        """Drive the actors by the actions of their rows, out of all rows (N, ...); remove those that fail."""
        episode, actors = self.episode, self.episode.acting
        rows = self.rows[actors]
        done = episode.step(values[rows], most=0)
        episode.look(actors)
        episode.roads.take_out(actors[done.is_failed])
        is_cut = done.is_at_end if self.goes_on else ~done.is_failed
        return _SceneStep(rows, done.outcome, is_cut, episode.seen_by(actors))


class SelfPlayEnv(VectorEnv[Float32Array, NumericArray, NumericArray]):
    """N vehicles in shared scenes, stepped in one call, as a vector environment of Gymnasium.

    A vehicle is the AV of a scene or, as in :class:`~l5kit.environment.envs.parallel_env.L5ParallelEnv`, a vehicle that
    follows lanes and has come within 100 m of the AV. It has a row of observations, actions and rewards from then until
    it fails (terminated), or its log or its scene ends (truncated). A scene ends with its AV.

    All rows act in every step: when a vehicle ends, its row goes to another one in the same step
    (``autoreset_mode="SameStep"``). That is a vehicle waiting in a running scene, oldest scene first; if none waits,
    the AV of a new scene, whose vehicles take the remaining free rows. Vehicles that wait for a row are driven as by
    ``others="idm"``, as are those beyond ``gym_params.max_vehicles`` in a scene.

    Args:
        num_envs: Number of rows, N.
        env_config_path: YAML file, with observations and actions that support several actors.
        dmg: The data manager.
        train: Whether episodes are of the training data.

    Attributes:
        scene_indices: The scene of each row, int64 (N,).
        track_ids: Track id of each row, -1 for the AV, int64 (N,).

    Raises:
        InvalidArgumentError: An argument is invalid.
        ConfigError: A key is missing or wrong.
    """

    def __init__(
        self, num_envs: int, env_config_path: str | None, dmg: LocalDataManager | None = None, *, train: bool = True
    ) -> None:
        self.num_envs = size = require_num_envs(num_envs)
        options = EnvironmentOptions(observation="compact", others=BESIDE_POLICY, has_actors=True)
        self._parts = EnvironmentParts.open(env_config_path, dmg, train=train, options=options)
        kind = self._parts.actions(size)
        assert isinstance(kind, ModelActions)  # by the check of the configuration
        assert self._parts.bank is not None
        self._kind = kind
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = None
        self._traffic = TrafficSlots(self._parts.bank, size, drives=self._parts.options.driver, has_actors=True)
        self._idle = [self._make_scene(0)]
        self._scenes: list[_Scene] = []
        of_one = self._idle[0].episode.parts
        set_spaces(self, of_one.view.space, kind.space)
        self._infos = StepInfos(of_one.reward, size, has_sums=not isinstance(of_one.reward, DisplacementReward))
        failed_share = self._parts.params.failed_share if train else 0.0
        self._draws = EpisodeDraws(self._parts.choice, size, failed_share=failed_share)
        self._seen: Float32Array = np.zeros((size, self._parts.layout.size), np.float32)
        self.scene_indices: Int64Array = np.full(size, -1)
        self.track_ids: Int64Array = np.full(size, -1)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: ResetOptions | None = None
    ) -> tuple[Float32Array, Infos]:
        """Start scenes until every row has a vehicle.

        Args:
            seed: One for each row, or a number for the first row and the next numbers for the rest; None keeps the
                generators. The row of an AV draws its scene.
            options: ``scene_id`` and ``start_frame_index`` of all new scenes.

        Returns:
            Observations, float32 (N, D), and an empty dictionary.

        Raises:
            InvalidArgumentError: The number of seeds is wrong, or an option is invalid.
            CorruptedDataError: The requested scene is damaged, or all are.
        """
        wanted, rows = read_options(options), np.arange(self.num_envs)
        self._draws.seed(rows, seed)
        self._idle += self._scenes[::-1]
        self._scenes = []
        self._fill(rows, wanted)
        return self._seen.copy(), {}

    def step(self, actions: ArrayLike) -> tuple[Float32Array, Float64Array, BoolArray, BoolArray, Infos]:
        """Drive each vehicle for the frames of an action, and hand the rows of ended vehicles to new ones.

        Args:
            actions: (N, A), or (N,) for grid numbers.

        Returns:
            Observations, rewards float64 (N,), terminated and truncated (N,), and infos as arrays (N,) and masks, with
            ``final_obs`` and ``final_info``.

        Raises:
            EpisodeEndedError: ``reset`` has not been called.
            InvalidArgumentError: The actions have another shape, are not finite, or are not in the space.
        """
        if not self._scenes:
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        is_there = np.ones(self.num_envs, np.bool_)
        values = self._kind.checked(actions, is_there)
        stepped = [scene.drive(values) for scene in self._scenes]
        rows = np.concatenate([each.rows for each in stepped])
        outcome = StepOutcome.joined([each.outcome for each in stepped])
        rewards, terminated, truncated = np.empty(self.num_envs), np.empty_like(is_there), np.empty_like(is_there)
        rewards[rows] = outcome.total
        terminated[rows] = outcome.is_failed
        truncated[rows] = np.concatenate([each.is_cut for each in stepped])
        self._seen[rows] = np.concatenate([each.seen for each in stepped])

        is_over = terminated | truncated
        step_infos = self._infos.of_step(rows, outcome, is_over[rows])
        infos = spread(step_infos, rows, is_there, only={"reward_sums": is_over})
        if is_over.any():
            infos, over = with_ends(infos, is_over, lambda row: self._seen[row].copy()), np.flatnonzero(is_over)
            avs = over[self.track_ids[over] == _NO_TRACK]
            self._draws.note(self.scene_indices[avs], terminated[avs])
            self._fill(over, {})
        return self._seen.copy(), rewards, terminated, truncated, infos

    def _fill(self, free: Int64Array, wanted: Mapping[str, int]) -> None:
        """Hand free rows (B,) to vehicles that wait for one, then to new scenes."""
        self._idle += [scene for scene in self._scenes[::-1] if not scene.goes_on]
        self._scenes = [scene for scene in self._scenes if scene.goes_on]
        for scene in self._scenes:
            if len(free):
                free = self._give(scene, scene.episode.admit(len(free)), free)
        while len(free):
            start = EpisodeStart(*self._draws.draw(free[:1], wanted)[:, 0].tolist())
            scene = self._idle.pop() if self._idle else self._make_scene(len(self._scenes))
            scene.episode.begin_at(start, most=len(free) - 1)
            self._scenes.append(scene)
            free = self._give(scene, scene.episode.acting, free)

    def _give(self, scene: _Scene, actors: Int64Array, free: Int64Array) -> Int64Array:
        """Hand the first free rows to new actors (K,) of a scene, and return the remaining ones."""
        rows, episode = free[: len(actors)], scene.episode
        scene.rows[actors] = rows
        self._seen[rows] = episode.seen_by(actors)
        self._infos.begin(rows)
        now = episode.roads.actors
        assert now is not None
        tracks = np.concatenate([[_NO_TRACK], now.track_ids.astype(np.int64)])
        self.scene_indices[rows], self.track_ids[rows] = episode.scene_indices[0], tracks[actors]
        return free[len(actors) :]

    def _make_scene(self, slot: int) -> _Scene:
        """Return a scene whose road users are in a slot of the shared traffic."""
        params = self._parts.params
        episode = self._parts.actor_episode(
            self._kind,
            params.max_vehicles,
            traffic=self._traffic,
            slot=slot,
            frames_per_action=params.frames_per_action,
        )
        return _Scene(episode, np.full(len(episode), -1))
