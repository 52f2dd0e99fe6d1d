"""Vector environment: many environments that step in one call, each as if it were alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, DTypeLike

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.actions import checked_actions, kinematic_scales, scaled_controls, scaled_poses
from l5kit.environment.envs.l5_env import SimulationConfigGym, measure_scales
from l5kit.environment.episode_choice import FIRST_FRAME, read_options
from l5kit.environment.kinematic_model import UnicycleModel
from l5kit.environment.log_slots import LogSlots
from l5kit.environment.reward import L2DisplacementYawReward
from l5kit.environment.setup import EnvironmentParts
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError
from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.unroll import ClosedLoopSimulator

__all__ = ["L5VectorEnv"]

_INFOS = {"reward_tot": "total", "reward_dist": "distance", "reward_yaw": "yaw"}


class L5VectorEnv(VectorEnv[dict[str, NumericArray], NumericArray, NumericArray]):
    """N environments of logged scenes, all of which step in one call, by the rules of Gymnasium's vector environments.

    Each gives what an :class:`~l5kit.environment.envs.l5_env.L5Env` with the same arguments and seed gives, to the bit.
    All agents are replayed.

    Args:
        num_envs: Number of environments, N.
        env_config_path: As for ``L5Env``, like the next ones.
        dmg: Finds data.
        sim_cfg: What is simulated; agents are replayed, and new ones are not hidden.
        train: Whether episodes are of the training data.
        reward: What steps are worth.
        rescale_action: Whether actions are scaled.
        use_kinematic: Whether actions are steering and acceleration.
        kin_model: Limits of the unicycle that they move.
        randomize_start: Whether episodes of training start anywhere.
        acceleration_per_step: Whether acceleration is scaled by the square of the step time.
        autoreset_mode: What becomes of an environment whose episode has ended: the next step begins the next episode
            and does nothing else (``NextStep``), the same step does (``SameStep``), or ``reset`` is called with
            ``options={"reset_mask": ...}`` (``Disabled``).
        copy: Whether observations are copies. Else each call writes into the same array.
        render_mode: None; single environments draw.

    Attributes:
        frame_indices: Current frame of each episode, int64 (N,).

    Raises:
        InvalidArgumentError: An argument does not fit the configuration.
        UnsupportedValueError: An argument is only for single environments.
    """

    def __init__(
        self,
        num_envs: int = 1,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        reward: L2DisplacementYawReward | None = None,
        rescale_action: bool = True,
        use_kinematic: bool = False,
        kin_model: UnicycleModel | None = None,
        randomize_start: bool | None = None,
        *,
        acceleration_per_step: bool = False,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise InvalidArgumentError(f"num_envs is {num_envs}; it must be 1 or more")
        self.sim_cfg = SimulationConfigGym() if sim_cfg is None else replace(sim_cfg)
        self.reward = L2DisplacementYawReward() if reward is None else reward
        kinematic = UnicycleModel() if kin_model is None else kin_model
        _require_supported(self.sim_cfg, self.reward, kinematic, render_mode)
        parts = EnvironmentParts.open(env_config_path, dmg, train=train)
        self.num_envs, self.copy, self.render_mode = num_envs, copy, None
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.rescale_action, self.use_kinematic = rescale_action, use_kinematic
        self.kin_model, self.step_time = kinematic, parts.step_time_s
        self.dataset = parts.dataset
        num_frames = self.sim_cfg.num_simulation_steps
        self._choice = parts.episode_choice(train=train, randomize_start=randomize_start, num_frames=num_frames)
        self.single_observation_space: spaces.Dict = parts.observation_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        if use_kinematic:
            self.kin_rescale = kinematic_scales(self.step_time, acceleration_per_step=acceleration_per_step)
        else:
            self.non_kin_rescale = measure_scales(self.dataset, self._choice, self.sim_cfg)

        longest = int(self._choice.lengths.max()) if num_frames is None else num_frames
        self._slots = LogSlots(self.dataset, num_envs, longest)
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]
        image = self.single_observation_space["image"]
        self._image: NumericArray = np.zeros((num_envs, *(image.shape or ())), image.dtype)
        self.frame_indices: Int64Array = np.full(num_envs, -1, np.int64)
        self._is_over: BoolArray = np.ones(num_envs, np.bool_)
        self._speeds: Float64Array = np.zeros(num_envs)
        self._world_from_agent: Float64Array = np.zeros((num_envs, 3, 3))
        self._yaws_rad: Float64Array = np.zeros(num_envs)

    @property
    def scene_indices(self) -> Int64Array:
        """Scene of each episode, (N,)."""
        return self._slots.scene_indices

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, NumericArray], dict[str, Any]]:
        """Start episodes.

        Args:
            seed: One for each environment, a number for this one and those that follow it, or None to go on.
            options: ``scene_id`` and ``start_frame_index`` of all episodes, and ``reset_mask``, bool (N,), for those
                that start; None for all.

        Returns:
            What is seen, ``{"image": (N, C, H, W)}``, and an empty dictionary.

        Raises:
            InvalidArgumentError: There are other numbers of seeds, or an option is not possible.
        """
        asked = dict(options or {})
        is_starting = self._masked(asked.pop("reset_mask", None))
        wanted, seeds = read_options(asked), self._seeds(seed)
        for slot in np.flatnonzero(is_starting).tolist():
            each = seeds[slot]
            if each is not None:
                self._generators[slot] = seeding.np_random(each)[0]
            self._start(slot, wanted)
        self._look(is_starting, is_starting=is_starting)
        return self._observation(), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[dict[str, NumericArray], Float64Array, BoolArray, BoolArray, dict[str, Any]]:
        """Drive each environment to its next frame, or start its next episode.

        Args:
            actions: (N, 3); float32 stays so. Those of environments that start an episode are not looked at.

        Returns:
            What is seen, rewards float64 (N,), terminated and truncated (N,), and infos as arrays (N,) and masks.

        Raises:
            EpisodeEndedError: An episode has ended, or not begun, and is not started by itself.
            InvalidArgumentError: The actions have another shape, or a value is not finite.
        """
        self._require_running()
        is_starting = self._is_over.copy()
        is_driven = ~is_starting
        values = checked_actions(actions, (self.num_envs, 3), of=is_driven)
        rewards, infos = self._drive(is_driven, values)
        truncated = is_driven & (self.frame_indices + 1 == self._slots.lengths)
        goes_on_at_once = self.autoreset_mode is AutoresetMode.SAME_STEP
        if goes_on_at_once:
            is_starting = truncated
            if truncated.any():
                self._look(truncated)
                infos = self._with_ends(infos, truncated)
        for slot in np.flatnonzero(is_starting).tolist():
            self._start(slot, {})
        self._is_over = np.zeros(self.num_envs, np.bool_) if goes_on_at_once else truncated.copy()
        self._look(np.ones(self.num_envs, np.bool_), is_starting=is_starting)
        return self._observation(), rewards, np.zeros(self.num_envs, np.bool_), truncated, infos

    def _require_running(self) -> None:
        if (self.frame_indices < 0).any():
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        if self._is_over.any() and self.autoreset_mode is AutoresetMode.DISABLED:
            over = np.flatnonzero(self._is_over).tolist()
            raise EpisodeEndedError(
                f"the episodes of environments {over} have ended; call reset(options={{'reset_mask': ...}})"
            )

    def _drive(self, is_driven: BoolArray, actions: NumericArray) -> tuple[Float64Array, dict[str, Any]]:
        """Move the AVs of some environments (N,) by actions (N, 3), and return what that was worth, and the infos."""
        slots = np.flatnonzero(is_driven)
        positions_m, yaws_rad = self._poses(slots, actions[slots])
        ahead = self.frame_indices[slots] + 1
        simulated = self._slots.set_ego(slots, ahead, positions_m, yaws_rad)
        worth = self.reward.of_states(*simulated, *self._slots.recorded(slots, ahead))
        self.frame_indices[slots] = ahead
        of_all = {name: np.zeros(self.num_envs) for name in _INFOS}
        for name, key in _INFOS.items():
            of_all[name][slots] = worth[key]
        return of_all["reward_tot"].copy(), _masked_infos(of_all, is_driven)

    def _poses(self, slots: Int64Array, actions: NumericArray) -> tuple[Float64Array, NumericArray]:
        """Return where actions (B, 3) lead, in the world: x and y (B, 2) and headings (B,)."""
        if self.use_kinematic:
            controls = scaled_controls(actions, self.kin_rescale) if self.rescale_action else actions
            positions_m, yaws_rad, self._speeds[slots] = self.kin_model.moved(self._speeds[slots], controls)
            said = {"positions": positions_m[:, None], "yaws": yaws_rad[:, None, None]}
        else:
            poses = scaled_poses(actions, self.non_kin_rescale) if self.rescale_action else actions
            said = {"positions": poses[:, None, :2], "yaws": poses[:, None, 2:]}
        seen = {"world_from_agent": self._world_from_agent[slots], "yaw": self._yaws_rad[slots]}
        return ClosedLoopSimulator.first_poses(seen, said)

    def _start(self, slot: int, wanted: Mapping[str, int]) -> None:
        """Start an episode in a slot."""
        generator = self._generators[slot]
        scene = self._choice.draw_scene(generator, asked=wanted.get("scene_id"))
        start = self._choice.draw_start(generator, scene, asked=wanted.get("start_frame_index"))
        first = self.sim_cfg.start_frame_index if start is None else start
        self._slots.start(slot, scene, first, self.sim_cfg.num_simulation_steps)
        self.frame_indices[slot], self._is_over[slot] = FIRST_FRAME, False

    def _look(self, is_wanted: BoolArray, is_starting: BoolArray | None = None) -> None:
        """Write what some environments (N,) see now, and the speeds of those whose episodes begin."""
        slots = np.flatnonzero(is_wanted)
        memory = self._memory_of_all if len(slots) == self.num_envs else None
        columns: Mapping[str, Any] = self._slots.look(slots, self.frame_indices[slots], memory)
        if columns["image"] is not self._image:
            self._image[slots] = columns["image"]
        self._world_from_agent[slots], self._yaws_rad[slots] = columns["world_from_agent"], columns["yaw"]
        if is_starting is not None and self.use_kinematic:
            begins = is_starting[slots]
            self._speeds[slots[begins]] = self.step_time * columns["curr_speed"][begins].astype(np.float64)

    def _memory_of_all(self, key: str, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray | None:
        """Return the array that pictures of all environments are drawn into."""
        return self._image if key == "image" and shape == self._image.shape and dtype == self._image.dtype else None

    def _observation(self) -> dict[str, NumericArray]:
        return {"image": self._image.copy() if self.copy else self._image}

    def _with_ends(self, infos: dict[str, Any], is_end: BoolArray) -> dict[str, Any]:
        """Return infos of the episodes that begin, with what was seen and told at the ends of some (N,)."""
        seen = np.full(self.num_envs, None, object)
        for slot in np.flatnonzero(is_end).tolist():
            seen[slot] = {"image": self._image[slot].copy()}
        final, kept = (
            _masked_infos({name: np.where(mask, infos[name], 0.0) for name in _INFOS}, mask)
            for mask in (is_end, infos["_reward_tot"] & ~is_end)
        )
        ends = {"final_obs": seen, "_final_obs": is_end.copy(), "final_info": final, "_final_info": is_end.copy()}
        return kept | ends

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + place for place in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise InvalidArgumentError(f"seed must be one for each of {self.num_envs} environments, got {len(seed)}")
        return seed

    def _masked(self, mask: Any) -> BoolArray:
        """Return which environments are marked; all of them without a mask."""
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


def _masked_infos(values: Mapping[str, Float64Array], mask: BoolArray) -> dict[str, Any]:
    """Return values (N,) with the mask of those that mean something; nothing where none does, as Gymnasium has it."""
    if not mask.any():
        return {}
    return {key: each for name, value in values.items() for key, each in ((name, value), (f"_{name}", mask.copy()))}


def _require_supported(
    sim_cfg: SimulationConfig, reward: L2DisplacementYawReward, kinematic: UnicycleModel, render_mode: str | None
) -> None:
    """Refuse what only single environments do.

    Raises:
        UnsupportedValueError: Something is asked for that needs single environments.
    """
    alone = "use single environments, gymnasium.make_vec(..., vectorization_mode='sync')"
    if not sim_cfg.use_agents_gt or sim_cfg.disable_new_agents:
        raise UnsupportedValueError(f"sim_cfg wants agents that are driven or hidden; {alone}")
    if sim_cfg.use_ego_gt:
        raise InvalidArgumentError("use_ego_gt is True, but in an environment the AV is driven by actions")
    if type(reward) is not L2DisplacementYawReward or not reward.has_usual_metrics:
        raise UnsupportedValueError(f"reward is {reward!r}, which looks at one scene after the other; {alone}")
    if type(kinematic) is not UnicycleModel:
        raise UnsupportedValueError(f"kin_model is {kinematic!r}, which moves one AV after the other; {alone}")
    if render_mode is not None:
        raise UnsupportedValueError(f"render_mode is {render_mode!r}, but many environments are not drawn; {alone}")
