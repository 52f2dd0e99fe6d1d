"""Environment of one scene: actions drive the AV, and steps are worth more the nearer it stays to the log."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import ArrayLike

from l5kit._types import NumericArray, UInt8Array
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset.ego import EgoDataset
from l5kit.environment.actions import (
    MAX_ACC,
    MAX_STEER,
    checked_actions,
    kinematic_scales,
    scaled_controls,
    scaled_poses,
)
from l5kit.environment.episode import EpisodeOutputGym, EpisodeSoFar
from l5kit.environment.episode_choice import FEWEST_FRAMES, FIRST_FRAME, EpisodeChoice, read_options
from l5kit.environment.kinematic_model import KinematicModel, UnicycleModel
from l5kit.environment.reward import L2DisplacementYawReward, Reward
from l5kit.environment.setup import EnvironmentParts
from l5kit.environment.utils import NonKinematicActionRescaleParams, calculate_non_kinematic_rescale_params
from l5kit.errors import EpisodeEndedError, InvalidArgumentError
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.unroll import ClosedLoopSimulator, ClosedLoopSimulatorModes, UnrollInputOutput

__all__ = [
    "MAX_ACC",
    "MAX_STEER",
    "EpisodeOutputGym",
    "GymStepOutput",
    "L5Env",
    "SimulationConfigGym",
    "measure_scales",
]

Observation = dict[str, NumericArray]


@dataclass
class SimulationConfigGym(SimulationConfig):
    """What is simulated in an episode: of its frames the first tells the speed, and actions begin in the second.

    Attributes:
        num_simulation_steps: Number of frames; None for all of the scene. An episode has two steps less.
    """

    use_agents_gt: bool = True
    num_simulation_steps: int | None = 33


class GymStepOutput(NamedTuple):
    """What a step returns, a tuple of five as Gymnasium has it.

    Attributes:
        obs: What is seen in the next frame.
        reward: What the step was worth.
        terminated: Whether the task has ended.
        truncated: Whether the episode has ended with the log.
        info: ``reward_tot``, ``reward_dist`` and ``reward_yaw``; at the end ``sim_outs`` if it was asked for.
    """

    obs: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def done(self) -> bool:
        """Whether the episode has ended in either way."""
        return self.terminated or self.truncated


class L5Env(gymnasium.Env[Any, NumericArray]):
    """Environment in which the AV of a logged scene is driven, while the others do what the log or a network says.

    What is seen is the raster of the configuration, ``{"image": (C, H, W)}``, float32 from 0 to 1. An action has three
    values: the next pose as seen from the AV, x and y in metres and heading in radians, or in kinematic mode steering
    and acceleration, the third one unused. With ``rescale_action`` values from -1 to 1 stand for what is usual.
    Actions beyond the space are scaled like others. The episode is truncated at the end of its frames.

    Args:
        env_config_path: YAML file with ``model_params``, ``raster_params``, ``train_data_loader.key``,
            ``val_data_loader.key`` and ``gym_params``.
        dmg: Finds data; None for the folder of ``L5KIT_DATA_FOLDER``.
        sim_cfg: What is simulated, copied; None for :class:`SimulationConfigGym`.
        train: Whether episodes are of the training data; those of validation start where ``sim_cfg`` says.
        reward: What steps are worth; None for :class:`~l5kit.environment.reward.L2DisplacementYawReward`.
        cle: Whether actions move the AV. Else it stays on the log, and each step is worth what the action says.
        rescale_action: Whether actions are scaled.
        use_kinematic: Whether actions are steering and acceleration.
        kin_model: What moves the AV by them; None for :class:`~l5kit.environment.kinematic_model.UnicycleModel`.
        reset_scene_id: Scene of the next episode, from which on the scenes come in their order; None for random ones.
        return_info: Whether ``info`` has the output of the episode at its end, as evaluation callbacks need it.
        randomize_start: Whether episodes of training start anywhere; None for ``gym_params.randomize_start_frame``.
        simnet_model_path: TorchScript file that moves agents; needed where ``sim_cfg.use_agents_gt`` is False.
        render_mode: ``rgb_array``, or None.
        legacy_done: Whether the end of the log is ``terminated``, with the first frame as the last observation, as in
            L5Kit 1.5.
        acceleration_per_step: Whether acceleration is scaled by the square of the step time, so that 1 stands for
            ``MAX_ACC``; in 1.5 it stands for ten times that, as speeds are metres per step.

    Attributes:
        cfg: The configuration.
        dataset: Dataset that episodes are of.
        sim_cfg: As above, with the start of the episode.
        sim_dataset: The episode as it is now.
        simulator: Drives the agents.
        frame_index: The current frame of the episode.
        scene_index: Its scene.
        eps_length: Number of its frames.
        ego_input_dict: What was seen last, one array (1, ...) for each key.
        ego_output_dict: What was done last, ``positions`` (1, 1, 2) and ``yaws`` (1, 1, 1).
        ego_ins_outs: What was seen and done, by scene.
        agents_ins_outs: What the network has seen and done of agents, by scene, a list for each step.
        kin_rescale: Scales of actions in kinematic mode.
        non_kin_rescale: Scales of actions otherwise.
        step_time: Seconds of a step.

    Raises:
        InvalidArgumentError: There is no configuration, or an argument does not fit it.
        ConfigError: A key is missing or wrong.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 as Gymnasium has it

    def __init__(
        self,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        reward: Reward | None = None,
        cle: bool = True,
        rescale_action: bool = True,
        use_kinematic: bool = False,
        kin_model: KinematicModel | None = None,
        reset_scene_id: int | None = None,
        return_info: bool = False,
        randomize_start: bool | None = None,
        simnet_model_path: str | None = None,
        *,
        render_mode: str | None = None,
        legacy_done: bool = False,
        acceleration_per_step: bool = False,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidArgumentError(f"render_mode is {render_mode!r}; it must be 'rgb_array' or None")
        parts = EnvironmentParts.open(env_config_path, dmg, train=train)
        self.cfg, params = parts.cfg, parts.params
        self.render_mode, self.legacy_done = render_mode, legacy_done
        self.train, self.overfit = train, params.overfit
        self.cle, self.rescale_action, self.use_kinematic = cle, rescale_action, use_kinematic
        self.return_info = return_info
        self.step_time = parts.step_time_s
        self.device = torch.device("cpu")
        self.reward = L2DisplacementYawReward() if reward is None else reward
        self.sim_cfg = SimulationConfigGym() if sim_cfg is None else replace(sim_cfg)

        self.rasterizer, self.dataset = parts.rasterizer, parts.dataset
        self.simulator = ClosedLoopSimulator(
            self.sim_cfg,
            self.dataset,
            self.device,
            model_agents=self._load_agents(simnet_model_path),
            mode=ClosedLoopSimulatorModes.GYM,
        )
        self._choice = parts.episode_choice(
            train=train, randomize_start=randomize_start, num_frames=self.sim_cfg.num_simulation_steps
        )
        self.reset_scene_id = params.overfit_id if self.overfit else reset_scene_id

        self.observation_space: spaces.Dict = parts.observation_space
        self.action_space = spaces.Box(-1, 1, (3,), np.float32)
        if use_kinematic:
            self.kin_model = UnicycleModel() if kin_model is None else kin_model
            self.kin_rescale = kinematic_scales(self.step_time, acceleration_per_step=acceleration_per_step)
        else:
            self.non_kin_rescale = measure_scales(self.dataset, self._choice, self.sim_cfg)

        self.scene_index, self.frame_index = 0, -1
        self._starts = self.sim_cfg.start_frame_index, self.sim_cfg.start_frame_index
        self.sim_dataset: SimulationDataset | None = None
        self.ego_input_dict: dict[str, NumericArray] = {}
        self.ego_output_dict: dict[str, NumericArray] = {}
        self.seed()

    @property
    def max_scene_id(self) -> int:
        """Scenes that episodes are drawn from: those before this one."""
        return self._choice.max_scene_id

    @max_scene_id.setter
    def max_scene_id(self, value: int) -> None:
        self._choice.max_scene_id = value

    @property
    def randomize_start_frame(self) -> bool:
        """Whether episodes start anywhere in their scene."""
        return self._choice.is_anywhere

    @randomize_start_frame.setter
    def randomize_start_frame(self, value: bool) -> None:
        self._choice.is_anywhere = value

    def seed(self, seed: int | None = None) -> list[int]:
        """Seed what is drawn in later episodes, and return the seed; None for a random one."""
        self.np_random, np_seed = seeding.np_random(seed)
        return [int(np_seed)]

    def set_reset_id(self, reset_id: int | None = None) -> None:
        """Set the scene of the next episode; None for random ones. Behind wrappers call it on ``env.unwrapped``."""
        self.reset_scene_id = reset_id

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds what is drawn from here on; None goes on.
            options: ``scene_id`` and ``start_frame_index`` of this episode; what is missing is drawn as usual.

        Returns:
            What is seen, and an empty dictionary.

        Raises:
            InvalidArgumentError: There is no such scene or option, or the scene has too few frames.
        """
        if seed is not None:
            self.seed(seed)
        asked = read_options(options)
        self.sim_dataset = None  # until the next episode stands
        self.ego_ins_outs: defaultdict[int, list[UnrollInputOutput]] = defaultdict(list)
        self.agents_ins_outs: defaultdict[int, list[list[UnrollInputOutput]]] = defaultdict(list)
        self.scene_index = self._choice.draw_scene(
            self.np_random, asked=asked.get("scene_id"), next_id=self.reset_scene_id
        )
        if self.reset_scene_id is not None and not self.overfit and "scene_id" not in asked:
            self.reset_scene_id += 1
        start = self._choice.draw_start(self.np_random, self.scene_index, asked=asked.get("start_frame_index"))
        self._set_start(start)
        sim_dataset = SimulationDataset.from_dataset_indices(self.dataset, [self.scene_index], self.sim_cfg)
        self.eps_length = len(sim_dataset)
        if self.eps_length < FEWEST_FRAMES:
            raise InvalidArgumentError(
                f"an episode needs {FEWEST_FRAMES} frames or more, got {self.eps_length} of scene {self.scene_index}; "
                "change num_simulation_steps or start_frame_index of sim_cfg"
            )
        self.sim_dataset = sim_dataset
        self._make_output = partial(
            EpisodeOutputGym, self.scene_index, sim_dataset, self.ego_ins_outs, self.agents_ins_outs
        )
        recorded = sim_dataset.recorded_scene_dataset_batch[self.scene_index].dataset.frames
        self._episode = EpisodeSoFar(self.scene_index, recorded, self._make_output)
        self.reward.reset()
        self.frame_index = FIRST_FRAME
        self.ego_input_dict = self._look(sim_dataset, FIRST_FRAME)
        if self.use_kinematic:
            speed = self.step_time * float(self.ego_input_dict["curr_speed"][0])
            self.kin_model.reset(np.array([0.0, 0.0, 0.0, speed]))
        return self._get_obs(), {}

    def step(self, action: ArrayLike) -> GymStepOutput:
        """Drive to the next frame.

        Args:
            action: (3,); float32 stays so.

        Raises:
            EpisodeEndedError: There is no episode, or it has ended; call ``reset``.
            InvalidArgumentError: The action has another shape, or a value that is not finite.
        """
        sim_dataset = self._require_running()
        values = checked_actions(action, (3,))
        self._step_agents(sim_dataset)
        self.ego_output_dict = self._convert_action_to_ego_output(self._rescale_action(values))
        self._drive_ego(sim_dataset)
        pairs = self.simulator.get_ego_in_out(self.ego_input_dict, self.ego_output_dict, self.simulator.keys_to_exclude)
        self.ego_ins_outs[self.scene_index].append(pairs[self.scene_index])
        worth = self.reward.get_reward(self.frame_index, [self._episode])
        is_end = self.frame_index + 1 == len(sim_dataset) - 1
        info: dict[str, Any] = {
            "reward_tot": worth["total"],
            "reward_dist": worth["distance"],
            "reward_yaw": worth["yaw"],
        }
        if is_end and self.return_info:
            info["sim_outs"] = self.get_episode_outputs()
        self.frame_index += 1
        self.ego_input_dict = self._look(sim_dataset, 0 if is_end and self.legacy_done else self.frame_index)
        terminated, truncated = (is_end, False) if self.legacy_done else (False, is_end)
        return GymStepOutput(self._get_obs(), float(worth["total"]), terminated, truncated, info)

    def get_episode_outputs(self) -> list[EpisodeOutputGym]:
        """Return what has become of the scene so far, in a list.

        Raises:
            EpisodeEndedError: There is no episode yet.
        """
        if self.sim_dataset is None:
            raise EpisodeEndedError("there is no episode yet; call reset() before")
        return [self._make_output()]

    def render(self) -> UInt8Array | None:
        """Return what is seen as a picture, RGB (H, W, 3); None without a render mode.

        Raises:
            EpisodeEndedError: There is no episode yet.
        """
        if self.render_mode is None:
            return None
        if self.sim_dataset is None:
            raise EpisodeEndedError("there is nothing to be seen yet; call reset() before render()")
        picture: UInt8Array = self.rasterizer.to_rgb(self._get_obs()["image"].transpose(1, 2, 0))
        return picture

    def _load_agents(self, path: str | None) -> torch.nn.Module | None:
        """Return the network that moves agents, where they do not do what the log says."""
        if self.sim_cfg.use_agents_gt:
            return None
        if path is None:
            raise InvalidArgumentError("simnet_model_path is None, but agents are simulated; pass a TorchScript file")
        model: torch.nn.Module = torch.jit.load(path, map_location=self.device).eval()  # type: ignore[no-untyped-call]
        return model

    def _set_start(self, start: int | None) -> None:
        """Set the first frame of the next episode only; None for that which ``sim_cfg`` had before somebody asked."""
        usual, asked = self._starts
        if self.sim_cfg.start_frame_index != asked:  # somebody has set another one
            usual = self.sim_cfg.start_frame_index
        self.sim_cfg.start_frame_index = usual if start is None else start
        self._starts = usual, self.sim_cfg.start_frame_index

    def _require_running(self) -> SimulationDataset:
        if self.sim_dataset is None:
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        if self.frame_index + 1 >= len(self.sim_dataset):
            raise EpisodeEndedError(f"the episode of scene {self.scene_index} has ended; call reset() before step()")
        return self.sim_dataset

    def _look(self, sim_dataset: SimulationDataset, frame_index: int) -> dict[str, NumericArray]:
        """Return what is seen in a frame, one array (1, ...) for each key."""
        return {key: value.numpy() for key, value in sim_dataset.ego_batch(frame_index).items()}

    def _get_obs(self) -> Observation:
        return {"image": self.ego_input_dict["image"][0]}

    def _step_agents(self, sim_dataset: SimulationDataset) -> None:
        """Let the network move the agents, where they do not do what the log says."""
        if self.sim_cfg.use_agents_gt:
            return
        with torch.no_grad():
            seen = self.simulator.step_agents(sim_dataset, self.frame_index, self.frame_index + 1 if self.cle else None)
        self.agents_ins_outs[self.scene_index].append(seen.get(self.scene_index, []))

    def _drive_ego(self, sim_dataset: SimulationDataset) -> None:
        """Put the AV where the action leads."""
        position_m, yaw_rad = self.simulator.first_poses(self.ego_input_dict, self.ego_output_dict)
        if self.cle:
            sim_dataset.set_ego(self.frame_index + 1, 0, position_m[:, None], yaw_rad[:, None])
        self._episode.note_ego(self.frame_index + 1, position_m[0], float(yaw_rad[0]))

    def _rescale_action(self, action: NumericArray) -> NumericArray:
        """Return what an action stands for, in its own type."""
        if not self.rescale_action:
            return action
        if self.use_kinematic:
            return scaled_controls(action, self.kin_rescale)
        return scaled_poses(action, self.non_kin_rescale)

    def _convert_action_to_ego_output(self, action: NumericArray) -> dict[str, NumericArray]:
        """Return where an action leads, as networks say it."""
        if self.use_kinematic:
            return self.kin_model.update(action[:2])
        return {"positions": action[:2].reshape(1, 1, 2), "yaws": action[2:3].reshape(1, 1, 1)}


def measure_scales(
    dataset: EgoDataset, choice: EpisodeChoice, sim_cfg: SimulationConfig
) -> NonKinematicActionRescaleParams:
    """Return the scales of poses in some scenes of an environment, of the frames that a configuration names."""
    replayed = replace(sim_cfg, use_agents_gt=True, disable_new_agents=False)
    return calculate_non_kinematic_rescale_params(
        SimulationDataset.from_dataset_indices(dataset, choice.measured_scenes, replayed)
    )
