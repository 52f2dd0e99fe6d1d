"""Environment of one scene: actions drive the AV; the default reward is for staying close to the log."""

import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from l5kit._types import NumericArray, UInt8Array
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.action_kinds import (
    MAX_ACC,
    MAX_STEER,
    ActionKind,
    KinematicModelActions,
    PoseActions,
    kinematic_scales,
)
from l5kit.environment.episode import EpisodeOutputGym, EpisodeReward, EpisodeSoFar
from l5kit.environment.episode_choice import FIRST_FRAME, EpisodeStart
from l5kit.environment.episodes import Episodes
from l5kit.environment.gym_types import AnySpace, Infos, Observation, ResetOptions, read_options
from l5kit.environment.kinematic_model import KinematicModel, UnicycleModel
from l5kit.environment.reward import Reward
from l5kit.environment.rewards.step_reward import DisplacementReward, StepReward
from l5kit.environment.setup import (
    EnvironmentOptions,
    EnvironmentParts,
    SimulationConfigGym,
    measure_scales,
    named_actions,
)
from l5kit.environment.step_infos import StepInfos, of_one
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization.rasterizer import one_picture
from l5kit.sampling.sample_columns import SampleColumns
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.unroll import UnrollInputOutput

__all__ = [
    "MAX_ACC",
    "MAX_STEER",
    "EpisodeOutputGym",
    "GymStepOutput",
    "L5Env",
    "SimulationConfigGym",
    "measure_scales",
]


class GymStepOutput(NamedTuple):
    """Result of a step, a tuple of five as in Gymnasium.

    Attributes:
        obs: Observation in the next frame.
        reward: The reward of the step.
        terminated: Whether the episode has ended early by a failure; with ``legacy_done`` also at the end of the log.
        truncated: Whether the episode has ended with the log.
        info: ``reward_tot`` and a ``reward_<term>`` for each term of the reward, such as ``reward_dist`` and
            ``reward_yaw``. Rewards that are not of L5Kit 1.5 add ``is_<failure>``, and ``reward_sums`` at the end of
            the episode. With ``return_info`` the last step also has ``sim_outs``.
    """

    obs: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: Infos

    @property
    def done(self) -> bool:
        """Whether the episode has ended, terminated or truncated."""
        return self.terminated or self.truncated


class L5Env(gymnasium.Env[Observation, Any]):
    """Environment of one logged scene: actions drive the AV, other vehicles follow the log or a driver.

    The default is the environment of L5Kit 1.5. Its observation is the raster of the configuration,
    ``{"image": (C, H, W)}``, float32 from 0 to 1. An action has three values: the next pose in the frame of the AV, x
    and y in metres and heading in radians; or, in kinematic mode, steering and acceleration, the third value unused.
    With ``rescale_action`` the range from -1 to 1 covers the usual actions. Actions outside the space are scaled in the
    same way. The episode is truncated at the end of its frames.

    Args:
        env_config_path: YAML file with ``model_params``, ``raster_params``, ``train_data_loader.key``,
            ``val_data_loader.key`` and ``gym_params``.
        dmg: The data manager; None for the folder of ``L5KIT_DATA_FOLDER``.
        sim_cfg: Options of the simulation, copied; None for the defaults and the number of frames of the configuration.
        train: Whether episodes are of the training data; validation episodes start where ``sim_cfg`` says.
        reward: The reward: ``displacement`` (that of 1.5), ``driving``, or an object; None for that of the
            configuration.
        cle: Whether actions move the AV. Else it stays on the log, and only the action is rewarded.
        rescale_action: Whether actions are scaled.
        use_kinematic: Whether actions are steering and acceleration.
        kin_model: Model that moves the AV then; None for :class:`~l5kit.environment.kinematic_model.UnicycleModel`.
        reset_scene_id: Scene of the next episode; later episodes continue in the order of scenes. None for random ones.
        return_info: Whether ``info`` has the output of the episode at its end, as evaluation callbacks need it.
        randomize_start: Whether training episodes start at a random frame. ``config`` for what
            ``gym_params.randomize_start_frame`` says. None is the same, except if all else is as in L5Kit 1.5: then
            starts are random whatever the key says, as 1.5 did not read it; a key of False gives a ``RuntimeWarning``.
        simnet_model_path: TorchScript file that moves agents; needed if ``sim_cfg.use_agents_gt`` is False.
        render_mode: ``rgb_array``, or None.
        legacy_done: Whether the end of the log is ``terminated``, with the first frame as the last observation, as in
            L5Kit 1.5.
        acceleration_per_step: Whether acceleration is scaled by the square of the step time, so that 1 means
            ``MAX_ACC``; in 1.5 it means ten times that, as speeds are metres per step.
        observation: Kind of observations: ``raster``, ``vectors`` or ``compact``; None for that of the configuration.
        actions: Kind of actions: ``poses``, ``kinematic``, ``bicycle``, ``curvature``, ``pose_change``, ``grid``,
            ``route``, ``route_emergency``, or an object of your own; None for that of the configuration.
        others: Driver of other vehicles: ``log``, ``idm``, ``cautious`` or ``assertive``; None for that of the
            configuration.
        ends_at: Failures that end an episode early, such as ``collision``; they need the reward ``driving``. None for
            those of the configuration.
        strict: Whether a damaged scene is an error. Else it is left out with a warning.
        device: Must be None; use ``gymnasium.make_vec`` for environments on a device.
        autoreset_mode: Must be None; it is an option of vector environments.

    Attributes:
        cfg: The configuration.
        dataset: Dataset of the episodes.
        sim_cfg: Options of the simulation, with the start of the episode.
        sim_dataset: Current state of the episode. Reading it makes its remaining steps slower.
        simulator: Simulator of the agents.
        frame_index: The current frame of the episode.
        scene_index: Its scene.
        eps_length: Number of its frames.
        ego_input_dict: Last observation, one array (1, ...) for each key; empty with compact observations.
        ego_output_dict: Last action, ``positions`` (1, 1, 2) and ``yaws`` (1, 1, 1).
        ego_ins_outs: Observations and actions of the episode, by scene.
        agents_ins_outs: Inputs and outputs of the network for agents, by scene, a list for each step.
        kin_rescale: Scales of actions in kinematic mode.
        non_kin_rescale: Scales of actions that are poses.
        step_time: Seconds of a step.

    Raises:
        InvalidArgumentError: The configuration is missing, or an argument does not fit it.
        UnsupportedValueError: Arguments cannot be combined.
        ConfigError: A key is missing or wrong.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 as in Gymnasium

    def __init__(
        self,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        reward: str | Reward | StepReward | None = None,
        cle: bool = True,
        rescale_action: bool = True,
        use_kinematic: bool = False,
        kin_model: KinematicModel | None = None,
        reset_scene_id: int | None = None,
        return_info: bool = False,
        randomize_start: bool | Literal["config"] | None = None,
        simnet_model_path: str | None = None,
        *,
        render_mode: str | None = None,
        legacy_done: bool = False,
        acceleration_per_step: bool = False,
        observation: str | None = None,
        actions: str | ActionKind | None = None,
        others: str | None = None,
        ends_at: Collection[str] | None = None,
        strict: bool = False,
        device: object = None,
        autoreset_mode: object = None,
    ) -> None:
        for name, value in (("device", device), ("autoreset_mode", autoreset_mode)):
            if value is not None:
                raise UnsupportedValueError(
                    f"{name} is {value!r}, but {name} is only supported by gymnasium.make_vec('L5-CLE-v0', num_envs=N, "
                    f"{name}={value!r}) without vectorization_mode"
                )
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgumentError(f"render_mode is {render_mode!r}; it must be 'rgb_array' or None")
        if randomize_start not in (True, False, None, "config"):
            raise InvalidArgumentError(
                f"randomize_start is {randomize_start!r}; it must be True, False, 'config' or None"
            )
        options = EnvironmentOptions(
            observation=observation,
            actions=named_actions(actions, use_kinematic=use_kinematic),
            reward="displacement" if isinstance(reward, Reward) else reward,
            others=others,
            ends_at=ends_at,
            rescale_action=rescale_action,
            acceleration_per_step=acceleration_per_step,
            randomize_start=None if randomize_start == "config" else randomize_start,
            strict=strict,
            draws=render_mode is not None,
        )
        parts = EnvironmentParts.open(env_config_path, dmg, sim_cfg, train=train, options=options)
        self.cfg, params, self.options = parts.cfg, parts.params, parts.options
        self.render_mode, self.legacy_done = render_mode, legacy_done
        self.train, self.overfit = train, params.overfit
        self.cle, self.rescale_action = cle, rescale_action
        self.use_kinematic = self.options.actions == "kinematic"
        self.return_info = return_info
        self.step_time = parts.step_time_s
        self.metadata = {**self.metadata, "render_fps": max(round(1 / self.step_time), 1)}
        self.device = torch.device("cpu")
        self.sim_cfg, self._choice = parts.sim_cfg, parts.choice
        ignores_key = randomize_start is None and self.options.is_legacy and not params.randomize_start_frame
        if train and ignores_key:
            self._choice.is_anywhere = True
            warnings.warn(
                "gym_params.randomize_start_frame is false, but has no effect in an environment of L5Kit 1.5: its "
                "episodes start anywhere; pass randomize_start=False or 'config' to start them at the first frame",
                RuntimeWarning,
                stacklevel=2,
            )
        self.reset_scene_id = params.overfit_id if self.overfit else reset_scene_id
        self.rasterizer, self.dataset = parts.rasterizer, parts.dataset
        self.simulator = parts.simulator(simnet_model_path)
        self._scene_slot = parts.scene_slot(self.simulator, moves_ego=cle)
        self._actions = self._make_actions(parts, kin_model)
        self._episode_reward: EpisodeReward | None = None
        step_reward: StepReward = parts.reward()
        if isinstance(reward, Reward):
            step_reward = self._episode_reward = EpisodeReward(reward)
        self.reward = reward if isinstance(reward, Reward) else getattr(step_reward, "reward", step_reward)
        self._episodes = Episodes(parts.episode_parts(1, self._actions, step_reward, self._scene_slot), 1)
        has_sums = not isinstance(step_reward, DisplacementReward | EpisodeReward)
        self._infos = StepInfos(step_reward, 1, has_sums=has_sums)
        self.observation_space: AnySpace = self._episodes.parts.view.space
        self.action_space: AnySpace = self._actions.space

        self.scene_index, self.frame_index, self.eps_length = 0, -1, 0
        self._starts = self.sim_cfg.start_frame_index, self.sim_cfg.start_frame_index
        self._is_over = True
        self._driven: list[tuple[Mapping[str, Any], dict[str, NumericArray]]] = []
        self.ego_input_dict: dict[str, NumericArray] = {}
        self.ego_output_dict: dict[str, NumericArray] = {}
        self.seed()

    @property
    def max_scene_id(self) -> int:
        """Number of scenes to draw from; episodes are of scenes with smaller ids."""
        return self._choice.max_scene_id

    @max_scene_id.setter
    def max_scene_id(self, value: int) -> None:
        self._choice.max_scene_id = value

    @property
    def randomize_start_frame(self) -> bool:
        """Whether episodes start at a random frame of their scene."""
        return self._choice.is_anywhere

    @randomize_start_frame.setter
    def randomize_start_frame(self, value: bool) -> None:
        self._choice.is_anywhere = value

    @property
    def damaged_scenes(self) -> set[int]:
        """Scenes that were found to be damaged and are skipped."""
        return self._choice.damaged

    @property
    def sim_dataset(self) -> SimulationDataset | None:
        """Current state of the episode; None before the first one."""
        return None if self.frame_index < 0 else self._scene_slot.simulation

    @property
    def ego_ins_outs(self) -> defaultdict[int, list[UnrollInputOutput]]:
        """Observations and actions of the episode, by scene."""
        pairs = (self.simulator.get_ego_in_out(*each, self.simulator.keys_to_exclude) for each in self._driven)
        return defaultdict(list, {self.scene_index: [pair[self.scene_index] for pair in pairs]})

    @property
    def agents_ins_outs(self) -> defaultdict[int, list[list[UnrollInputOutput]]]:
        """Inputs and outputs of the network for agents, by scene, a list for each step."""
        return defaultdict(list, {self.scene_index: self._scene_slot.agents_ins_outs})

    def seed(self, seed: int | None = None) -> list[int]:
        """Seed the draws of later episodes and return the seed; None for a random one."""
        self.np_random, np_seed = seeding.np_random(seed)
        return [int(np_seed)]

    def set_reset_id(self, reset_id: int | None = None) -> None:
        """Set the scene of the next episode; None for random ones. Through wrappers, call it on ``env.unwrapped``."""
        self.reset_scene_id = reset_id

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> tuple[Observation, Infos]:
        """Start an episode.

        Args:
            seed: Seed of this and later draws; None keeps the generator.
            options: ``scene_id`` and ``start_frame_index`` of this episode; missing ones are drawn as usual.

        Returns:
            The observation and an empty dictionary.

        Raises:
            InvalidArgumentError: A scene or an option does not exist, or the scene has too few frames.
            CorruptedDataError: The requested scene is damaged, or all are.
        """
        if seed is not None:
            self.seed(seed)
        requested = read_options(options)
        self.frame_index, self._is_over = -1, True  # in case of an error below
        start = self._draw(requested)
        self._starts, self.sim_cfg.start_frame_index = (self._starts[0], start.first_frame), start.first_frame
        self.scene_index, self.eps_length, self._driven = start.scene, start.num_frames, []
        slot = np.zeros(1, np.int64)
        scene, first_frame, num_frames = (np.full(1, number) for number in start)
        seen = self._episodes.begin(slot, scene, first_frame, num_frames)
        self._infos.begin(slot)
        self.frame_index, self._is_over = FIRST_FRAME, False
        self.ego_input_dict = _arrays_of(seen)
        if self._episode_reward is not None:
            recorded = self._scene_slot.recorded_frames(0, self.eps_length)
            so_far = EpisodeSoFar(self.scene_index, recorded, self._make_output, step_time_s=self.step_time)
            self._episode_reward.begin_episode(so_far)
        return self._get_obs(), {}

    def step(self, action: ArrayLike) -> GymStepOutput:
        """Drive to the next frame.

        Args:
            action: (3,), or the shape of the kind of actions; float32 stays float32.

        Raises:
            EpisodeEndedError: There is no episode, or it has ended; call ``reset``.
            InvalidArgumentError: The action has another shape, is not finite, or is not in the space.
        """
        if self.frame_index < 0:
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        if self._is_over or self.frame_index + 1 >= self.eps_length:
            raise EpisodeEndedError(f"the episode of scene {self.scene_index} has ended; call reset() before step()")
        values, slot = self._actions.checked(action, None), np.zeros(1, np.int64)
        if self._episode_reward is not None:
            self._episode_reward.frame_index = self.frame_index
        # if a later frame of an action fails, the AV has already moved in the earlier ones
        try:
            outcome = self._episodes.drive(slot, values)
        finally:
            self.frame_index = int(self._episodes.frame_indices[0])
        self.ego_output_dict = getattr(self._actions, "said", {})
        if self.ego_input_dict:
            excluded = self.simulator.keys_to_exclude
            seen = {key: value for key, value in self.ego_input_dict.items() if key not in excluded}
            self._driven.append((seen, self.ego_output_dict))
        is_failed, is_end = bool(outcome.is_failed[0]), self.frame_index + 1 == self.eps_length
        self._is_over = is_failed or is_end
        info = of_one(self._infos.of_step(slot, outcome, np.array([self._is_over])))
        if self._is_over and self.return_info:
            info["sim_outs"] = self.get_episode_outputs()
        # L5Kit 1.5 returns the first frame of the episode at its end
        last = 0 if is_end and self.legacy_done else None
        self.ego_input_dict = _arrays_of(self._episodes.look(slot, frame=last))
        terminated = is_failed or (is_end and self.legacy_done)
        return GymStepOutput(self._get_obs(), float(outcome.total[0]), terminated, is_end and not terminated, info)

    def get_episode_outputs(self) -> list[EpisodeOutputGym]:
        """Return the outcome of the scene so far, in a list.

        Raises:
            EpisodeEndedError: There is no episode yet.
        """
        if self.frame_index < 0:
            raise EpisodeEndedError("there is no episode yet; call reset() before")
        return [self._make_output()]

    def render(self) -> UInt8Array | None:
        """Return a picture of the surroundings of the AV, RGB (H, W, 3); None without a render mode.

        Raises:
            EpisodeEndedError: There is no episode yet.
        """
        if self.render_mode is None:
            return None
        if self.frame_index < 0:
            raise EpisodeEndedError("no episode yet; call reset() before render()")
        seen = self.ego_input_dict
        if "image" not in seen:
            frame = np.array([self.frame_index])
            seen = _arrays_of(self._scene_slot.look(np.zeros(1, np.int64), frame, dataset=self.dataset))
        picture: UInt8Array = self.rasterizer.to_rgb(one_picture(seen["image"])[0].transpose(1, 2, 0))
        return picture

    def _draw(self, requested: Mapping[str, int]) -> EpisodeStart:
        """Return the start of the next episode, and advance ``reset_scene_id``."""
        usual, set_last = self._starts
        if self.sim_cfg.start_frame_index != set_last:  # it was changed from outside
            usual = self.sim_cfg.start_frame_index
        self._choice.first_frame, self._starts = usual, (usual, set_last)
        self._choice.num_frames = self.sim_cfg.num_simulation_steps
        start = self._choice.draw(self.np_random, requested, next_id=self.reset_scene_id)
        # advance in the order of scenes, past those that were skipped
        if self.reset_scene_id is not None and not self.overfit and "scene_id" not in requested:
            num_damaged = start.scene - min(self.reset_scene_id, self.max_scene_id - 1)
            self.reset_scene_id += 1 + num_damaged
        return start

    def _make_actions(self, parts: EnvironmentParts, kin_model: KinematicModel | None) -> ActionKind:
        """Return the kind of actions, and keep its scales as attributes."""
        if self.use_kinematic:
            self.kin_model = UnicycleModel() if kin_model is None else kin_model
            options = self.options
            self.kin_rescale = kinematic_scales(self.step_time, acceleration_per_step=options.acceleration_per_step)
            scales = self.kin_rescale if self.rescale_action else None
            return KinematicModelActions(self.kin_model, self.step_time, scales)
        if self.options.actions == "poses":
            self.non_kin_rescale = measure_scales(self.dataset, self._choice, self.sim_cfg)
            return PoseActions(self.non_kin_rescale if self.rescale_action else None)
        return parts.actions(1)

    def _make_output(self) -> EpisodeOutputGym:
        """Return the output of the episode so far."""
        return EpisodeOutputGym(self.scene_index, self._scene_slot.simulation, self.ego_ins_outs, self.agents_ins_outs)

    def _get_obs(self) -> Observation:
        memory = self._episodes.parts.view.memory
        if not isinstance(memory, dict):
            return memory[0].copy()
        return {key: np.array(value[0]) for key, value in memory.items()}


def _arrays_of(columns: SampleColumns | None) -> dict[str, NumericArray]:
    """Return columns as a dictionary of arrays; empty for None."""
    return {} if columns is None else {key: np.asarray(value) for key, value in columns.arrays.items()}
