"""Parallel environment of PettingZoo: the AV and other vehicles of a logged scene are separate actors."""

import warnings
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import ArrayLike
from pettingzoo import ParallelEnv

from l5kit._types import Float32Array, Int64Array, NumericArray, UInt8Array
from l5kit.configs.kinds import MAX_NUM_ELEMENTS
from l5kit.configs.texts import did_you_mean
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.actors import ActorEpisode, VehicleControl
from l5kit.environment.gym_types import EPISODE_OPTIONS, AnySpace, Infos, ResetOptions, read_options
from l5kit.environment.model_actions import MODEL_ACTIONS, ModelActions, model_actions
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.rewards.step_reward import DisplacementReward, StepReward
from l5kit.environment.setup import EnvironmentOptions, EnvironmentParts, require_driven_avs, require_logged_agents
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.step_infos import StepInfos, of_one
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization.rasterizer import one_picture
from l5kit.simulation.dataset import SimulationConfig

EGO = "ego"
"""Name of the AV."""

_ONE_SCENE = np.zeros(1, np.int64)

Steps = tuple[dict[str, Float32Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Infos]]
"""Results of a step by actor: observations, rewards, terminated, truncated, and infos."""


class L5ParallelEnv(ParallelEnv[str, Float32Array, Any]):
    """Environment of logged scenes in which the AV and other vehicles act at the same time.

    The AV is ``ego``. Vehicles that follow lanes in the log are ``vehicle_0``, ``vehicle_1`` and so on, in the order in
    which they are first logged within 100 m of the AV, the nearest first; ``infos[...]["track_id"]`` is the track, -1
    for the AV. A vehicle starts to act when it is within 100 m of the AV, and follows the log until then. It acts only
    once: it ends truncated at the last frame of its log, or terminated by a failure of ``ends_at``, and then leaves the
    scene; the AV stands still instead. The last frame of the episode truncates all. Infos have the same keys in each
    step and after ``reset``: the reward and its terms, failures, and sums since the actor arrived.

    An observation is a compact state, float32 (D,), described in
    :class:`~l5kit.environment.observations.compact_layout.CompactLayout`, with the logged lanes of the vehicle as its
    route. If only the AV acts, episodes are those of ``L5Env(observation="compact")`` with the same actions, reward and
    seed.

    Args:
        env_config_path: YAML file, as for ``L5Env``; so are the next three arguments.
        dmg: The data manager.
        sim_cfg: Number of frames and start of episodes; None for those of the configuration.
        train: Whether episodes are of the training data.
        controls: Actors besides the AV: ``vehicles``, ``ego`` for none, or a number of vehicles, the nearest of those
            within 100 m at the start.
        max_vehicles: Limit on the vehicles that act in an episode, with ``controls="vehicles"``; None for that of the
            configuration.
        actions: Kind of actions: ``bicycle``, ``curvature``, ``pose_change``, ``grid``, ``route``, ``route_emergency``
            or a ``ModelActions``.
        reward: The reward of each actor: ``displacement`` from its own log, ``driving``, or your own reward, with one
            slot for each actor; None for that of the configuration.
        others: Driver of vehicles that follow lanes and do not act: ``log``, ``idm``, ``cautious`` or ``assertive``;
            None for that of the configuration.
        ends_at: Failures that end an actor early, such as ``collision``; they need the reward ``driving``. None for
            those of the configuration.
        layout: Layout of observations; None for that of the configuration.
        randomize_start: Whether training episodes start at a random frame; None for the configuration.
        strict: Whether a damaged scene is an error. Else it is skipped with a warning.
        resets_all: Whether ``reset`` returns all ``possible_agents``, with zeros for those that do not act, as TorchRL
            expects. ``agents`` has only those that act.
        render_mode: ``rgb_array`` for pictures of the surroundings of the AV; None for none.

    Attributes:
        possible_agents: All names.
        agents: Names of the current actors.
        scene_index: Scene of the episode.
        episode: Current state of the episode; None before the first one and after ``close``.

    Raises:
        InvalidArgumentError: An argument is invalid, or does not fit the configuration.
        UnsupportedValueError: ``sim_cfg`` asks for agents driven by a network, or actions last for several frames.
        ConfigError: A key is missing or wrong.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 as in PettingZoo
        "render_modes": ["rgb_array"],
        "name": "l5kit_v0",
        "is_parallelizable": True,
        "render_fps": 10,
    }

    def __init__(
        self,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        *,
        controls: VehicleControl = "vehicles",
        max_vehicles: int | None = None,
        actions: str | ModelActions = "curvature",
        reward: str | StepReward | None = None,
        others: str | None = None,
        ends_at: Collection[str] | None = None,
        layout: CompactLayout | None = None,
        randomize_start: bool | None = None,
        strict: bool = False,
        resets_all: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgumentError(f"render_mode is {render_mode!r}; it must be 'rgb_array' or None")
        if isinstance(actions, str) and actions not in MODEL_ACTIONS:
            raise InvalidArgumentError(
                f"actions is {actions!r}{did_you_mean(actions, MODEL_ACTIONS)}; "
                f"it must be one of {', '.join(MODEL_ACTIONS)}"
            )
        # limit on the number of vehicles that act
        if max_vehicles is not None and not _is_number(max_vehicles):
            raise InvalidArgumentError(
                f"max_vehicles is {max_vehicles!r}; it must be a whole number from 0 to {MAX_NUM_ELEMENTS:,}"
            )
        if not _is_number(controls) and (controls not in ("vehicles", "ego") or not isinstance(controls, str)):
            raise InvalidArgumentError(
                f"controls is {controls!r}; it must be 'vehicles', 'ego' or a number, at most {MAX_NUM_ELEMENTS:,}"
            )

        self._resets_all = resets_all
        self.render_mode = render_mode
        options = EnvironmentOptions(
            observation="compact",
            actions=actions,
            reward=reward,
            others=others,
            ends_at=ends_at,
            randomize_start=randomize_start,
            strict=strict,
            draws=render_mode is not None,
            has_actors=True,
        )
        self._parts = EnvironmentParts.open(env_config_path, dmg, sim_cfg, train=train, options=options)
        self.metadata = {**self.metadata, "render_fps": max(round(1 / self._parts.step_time_s), 1)}
        self.sim_cfg = self._parts.sim_cfg
        require_driven_avs(self.sim_cfg)
        require_logged_agents(self.sim_cfg)
        self._choice = self._parts.choice
        kind = model_actions(actions) if isinstance(actions, str) else actions
        frames = self._parts.params.frames_per_action
        if frames > 1:
            raise UnsupportedValueError(
                f"gym_params.frames_per_action is {frames}, but with several actors each frame needs actions, as new "
                "ones arrive; set frames_per_action to 1, or use L5Env or L5VectorEnv"
            )
        self._kind, self._only_at_start = kind, controls != "vehicles"
        if isinstance(controls, str):
            most = self._parts.params.max_vehicles if max_vehicles is None else int(max_vehicles)
            self._num_vehicles = most if controls == "vehicles" else 0
        else:
            self._num_vehicles = int(controls)
        self._episode = self._parts.actor_episode(kind, self._num_vehicles, layout=layout)
        step_reward = self._episode.parts.reward
        has_sums = not isinstance(step_reward, DisplacementReward)
        self._infos = StepInfos(step_reward, self._num_vehicles + 1, has_sums=has_sums)
        self._log: LogSlots | None = None
        if render_mode is not None:
            self._log = LogSlots(self._parts.dataset, 1, self._choice.longest)
            self._log.drive_agents()
        self.possible_agents: list[str] = [EGO, *(f"vehicle_{number}" for number in range(self._num_vehicles))]
        seen: AnySpace = self._episode.parts.view.space
        self.observation_spaces = {name: deepcopy(seen) for name in self.possible_agents}
        self.action_spaces = {name: deepcopy(kind.space) for name in self.possible_agents}
        self.agents: list[str] = []
        self.scene_index = 0
        self.episode: ActorEpisode | None = None
        self.np_random = seeding.np_random(None)[0]

    def observation_space(self, agent: str) -> AnySpace:
        """Return the observation space of an actor, float32 (D,), the same object each time."""
        return self.observation_spaces[self._known(agent)]

    def action_space(self, agent: str) -> AnySpace:
        """Return the action space of an actor, the same object each time."""
        return self.action_spaces[self._known(agent)]

    def reset(
        self, seed: int | None = None, options: ResetOptions | None = None
    ) -> tuple[dict[str, Float32Array], dict[str, Infos]]:
        """Start an episode.

        Args:
            seed: Seed of this and later draws; None keeps the generator.
            options: ``scene_id`` and ``start_frame_index`` of this episode; missing ones are drawn as usual. Unknown
                keys are ignored with a warning, as PettingZoo expects.

        Returns:
            Observations and infos, by actor.

        Raises:
            InvalidArgumentError: The scene does not exist, or has too few frames.
            CorruptedDataError: The requested scene is damaged, or all are.
        """
        if seed is not None:
            self.np_random = seeding.np_random(seed)[0]
        requested = dict(options or {})
        unknown = sorted(map(str, requested.keys() - set(EPISODE_OPTIONS)))
        if unknown:
            warnings.warn(f"options has {', '.join(unknown)}, which has no effect here", RuntimeWarning, stacklevel=2)
        wanted = read_options({name: requested[name] for name in EPISODE_OPTIONS if name in requested})
        self.agents, self.episode = [], None  # in case of an error below
        start = self._choice.draw(self.np_random, wanted)
        self._episode.begin_at(start, only_at_start=self._only_at_start)
        if self._log is not None:
            self._log.start(0, start.scene, start.first_frame, start.num_frames)
        self.episode, self.scene_index = self._episode, start.scene
        self._infos.begin(np.arange(len(self.possible_agents)))
        acting = self.episode.acting
        self.agents = self._names_of(acting)
        seen, reported = self._seen_by(acting), acting
        if self._resets_all:
            # zeros for those that do not act
            reported = np.arange(len(self.possible_agents))
            seen = {name: seen.get(name, np.zeros_like(seen[EGO])) for name in self.possible_agents}
        return seen, self._infos_of(reported, self._infos.of_start(reported))

    def step(self, actions: Mapping[str, ArrayLike]) -> Steps:
        """Drive to the next frame.

        Args:
            actions: One for each of ``agents``; empty if no agents are left. Actions of other ``possible_agents`` are
                ignored.

        Returns:
            Observations, rewards, terminated, truncated and infos, of those that acted and of new ones.

        Raises:
            EpisodeEndedError: There is no episode, or it has ended; call ``reset``.
            InvalidArgumentError: An action is missing, has another shape, is not finite, or is of an unknown agent.
        """
        if self.episode is None:
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        if not self.agents and not actions:  # wrappers step once more after the end
            return {}, {}, {}, {}, {}
        if not self.agents:
            raise EpisodeEndedError(f"the episode of scene {self.scene_index} has ended; call reset() before step()")
        episode = self.episode
        done = episode.step(self._checked(actions))
        is_over = done.is_failed | done.is_at_end
        names, arrived = self._names_of(done.actors), self._names_of(done.arrived)
        seen = self._seen_by(np.concatenate([done.actors, done.arrived]))
        rewards = dict(zip(names, done.outcome.total.tolist(), strict=True)) | dict.fromkeys(arrived, 0.0)
        terminated = dict(zip(names, done.is_failed.tolist(), strict=True)) | dict.fromkeys(arrived, False)
        truncated = dict(zip(names, done.is_at_end.tolist(), strict=True)) | dict.fromkeys(arrived, False)

        # actors that arrived in this step have not acted yet: their infos are zeros
        step_infos = self._infos.of_step(done.actors, done.outcome, np.zeros(len(names), np.bool_))
        infos = self._infos_of(done.actors, step_infos | self._infos.sums_of(done.actors))
        infos |= self._infos_of(done.arrived, self._infos.of_start(done.arrived))

        # pictures show failed actors once more, before they leave
        if self._log is not None:
            box, frames = episode.avs.arrays.boxes[:1], _ONE_SCENE + episode.roads.episode_frame
            self._log.set_ego(_ONE_SCENE, frames, box[:, :2], box[:, 2])
            self._log.set_others(_ONE_SCENE, frames, episode.roads.traffic.driven_rows(_ONE_SCENE))
        episode.roads.take_out(done.actors[done.is_failed])
        is_left = self._names_of(done.actors[~is_over])
        self.agents = [name for name in self.possible_agents if name in {*is_left, *arrived}]
        return seen, rewards, terminated, truncated, infos

    def render(self) -> UInt8Array | None:
        """Return a picture of the surroundings of the AV, RGB (H, W, 3); None without a render mode.

        Raises:
            EpisodeEndedError: There is no episode yet.
        """
        if self.render_mode is None:
            return None
        if self.episode is None or self._log is None:
            raise EpisodeEndedError("no episode yet; call reset() before render()")
        samples = self._log.look(_ONE_SCENE, _ONE_SCENE + self.episode.roads.episode_frame)
        image = np.asarray(one_picture(samples["image"]))[0].transpose(1, 2, 0)
        picture: UInt8Array = self._parts.rasterizer.to_rgb(image)
        return picture

    def close(self) -> None:
        """Release the episode; may be called repeatedly."""
        self.agents, self.episode = [], None

    def _checked(self, actions: Mapping[str, ArrayLike]) -> NumericArray:
        """Return the actions of all current actors, (K, ...)."""
        missing = [name for name in self.agents if name not in actions]
        if missing:
            raise InvalidArgumentError(f"actions has none for {missing[0]}; pass one for each of env.agents")
        for name in actions:  # some libraries also pass actions of agents that have ended
            self._known(name)
        values = []
        for name in self.agents:
            try:
                values.append(self._kind.checked(actions[name], None))
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{name}: {error}") from None
        return np.concatenate(values)

    def _names_of(self, actors: Int64Array) -> list[str]:
        return [self.possible_agents[actor] for actor in actors.tolist()]

    def _known(self, agent: str) -> str:
        if agent not in self.observation_spaces:
            raise InvalidArgumentError(f"agent is {agent!r}; it must be one of {', '.join(self.possible_agents)}")
        return agent

    def _seen_by(self, actors: Int64Array) -> dict[str, Float32Array]:
        """Return the observations of actors (K,), float32 (D,) each."""
        self._episode.look(actors)
        return dict(zip(self._names_of(actors), self._episode.seen_by(actors), strict=True))

    def _infos_of(self, actors: Int64Array, columns: Mapping[str, NumericArray]) -> dict[str, Infos]:
        """Return infos (K,) of actors (K,) as a dictionary of numbers for each, with its track."""
        now = self._episode.roads.actors
        tracks = {} if now is None else dict(enumerate(now.track_ids.tolist(), start=1))
        return {
            name: {"track_id": tracks.get(actor, -1)}
            | of_one({key: value[index : index + 1] for key, value in columns.items()})
            for index, (actor, name) in enumerate(zip(actors.tolist(), self._names_of(actors), strict=True))
        }


def _is_number(value: object) -> bool:
    """Return whether a value is a whole number of vehicles within the memory limit."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return 0 <= int(value) <= MAX_NUM_ELEMENTS


def parallel_env(**kwargs: Any) -> L5ParallelEnv:
    """Return an :class:`L5ParallelEnv` with these arguments; PettingZoo's tools expect this function."""
    return L5ParallelEnv(**kwargs)
