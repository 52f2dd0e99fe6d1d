"""Device vector environment: many environments stepped in one call on a device, with tensors in and out."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from l5kit._types import Int64Array
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.device.backend import DeviceArray
from l5kit.device.opening import open_backend
from l5kit.device.tensors import HostCopy, as_device_array
from l5kit.environment.action_kinds import ActionMover, moves_in_kernels
from l5kit.environment.episode_choice import FIRST_FRAME, EpisodeDraws
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.gym_types import Infos, ResetOptions, read_masked_options, set_spaces
from l5kit.environment.model_actions import MODEL_ACTIONS, ModelActions, model_actions
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.rewards.driving_reward import DrivingReward
from l5kit.environment.rewards.episode_judge import GOES_ON, IS_BAD, IS_FAILED, EpisodeArrays, EpisodeJudge
from l5kit.environment.rewards.step_judge import FAILURES, OutcomeArrays
from l5kit.environment.setup import EnvironmentOptions, EnvironmentParts, require_driven_avs, require_num_envs
from l5kit.environment.slots.av_slots import AvSlots
from l5kit.environment.step_infos import reward_infos
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError
from l5kit.simulation.dataset import SimulationConfig

_ELSEWHERE = "or use L5VectorEnv, which runs on the processor"


class DeviceVectorEnv(VectorEnv[torch.Tensor, torch.Tensor, torch.Tensor]):
    """N environments of logged scenes that are stepped in one call on a device, for policies on the same device.

    Counterpart of :class:`~l5kit.environment.envs.vector_env.L5VectorEnv` with ``NextStep``: the same arguments and
    seeds give the same episodes, observations and rewards; on a GPU up to the rounding of functions such as the sine.
    Actions, observations, rewards and ends are tensors on the device. All scenes that episodes are drawn from are kept
    in its memory.

    An environment whose episode has ended only begins the next one in the next step: its action is ignored and its
    reward is 0. A flag of one byte for each environment marks ended episodes; it is copied to the host while the policy
    computes, and is all that the next step waits for. All calls must be made in the same torch stream.

    Args:
        num_envs: Number of environments, N.
        env_config_path: As for ``L5VectorEnv``, like the next ones.
        dmg: The data manager.
        sim_cfg: Number of frames of episodes; None for that of the configuration.
        train: Whether episodes are of the training data.
        observation: ``compact``; None if the configuration says so.
        reward: ``driving`` or a ``DrivingReward``; None if the configuration says ``driving``.
        actions: ``bicycle``, ``curvature``, ``grid``, ``route``, ``route_emergency``, or ``ModelActions`` with a model
            that moves AVs on a device; None if the configuration names one of the first five.
        others: Driver of other vehicles: ``log``, ``idm``, ``cautious`` or ``assertive``; None for that of the
            configuration.
        ends_at: Failures that end an episode early, such as ``collision``; None for those of the configuration.
        randomize_start: Whether training episodes start at a random frame.
        strict: Whether a damaged scene is an error. Else it is left out with a warning.
        copy: Whether a step returns copies. Else all calls write into the same tensors.
        device: ``cuda``, the current GPU of torch, or ``cpu``, which runs the same kernels on one core.

    Attributes:
        device: The device, with its number.
        avs: AVs on the device, with their surroundings.
        scene_indices: Scene of each episode, in host memory, int64 (N,).
        first_frames: First frame of each episode, counted in its scene, in host memory, int64 (N,).

    Raises:
        InvalidArgumentError: An argument does not fit the configuration, or the device does not exist.
        UnsupportedValueError: An option is not supported on a device.
        MissingDependencyError: The device is a GPU, and a package that it needs is missing.
        CorruptedDataError: All scenes are damaged, or one is and ``strict`` is set.
    """

    def __init__(
        self,
        num_envs: int = 1,
        env_config_path: str | None = None,
        dmg: LocalDataManager | None = None,
        *,
        sim_cfg: SimulationConfig | None = None,
        train: bool = True,
        observation: str | None = None,
        reward: str | DrivingReward | None = None,
        actions: str | ModelActions | None = None,
        others: str | None = None,
        ends_at: Collection[str] | None = None,
        randomize_start: bool | None = None,
        strict: bool = False,
        copy: bool = True,
        device: object = "cuda",
    ) -> None:
        num_envs = require_num_envs(num_envs)
        if sim_cfg is not None:
            require_driven_avs(sim_cfg)
        options = EnvironmentOptions(
            observation=observation,
            actions=actions,
            reward=reward,
            others=others,
            ends_at=ends_at,
            randomize_start=randomize_start,
            strict=strict,
        )
        parts = EnvironmentParts.open(env_config_path, dmg, sim_cfg, train=train, options=options)
        self.sim_cfg = parts.sim_cfg
        _require_supported(parts.options, self.sim_cfg)
        backend = open_backend(device)
        self.num_envs, self.copy, self.render_mode, self.device = num_envs, copy, None, backend.device
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        kind, step_reward = parts.actions(num_envs), parts.reward()
        assert isinstance(kind, ModelActions)
        assert isinstance(step_reward, DrivingReward)
        assert parts.bank is not None
        parts.bank.prepare(np.array(parts.choice.sound_scenes, np.int64))
        self._roads = roads = EpisodeRoads(parts.bank, num_envs, drives=parts.options.driver, backend=backend)
        self._mover = ActionMover(num_envs, kind, step_time_s=parts.step_time_s, backend=backend, refuses=False)
        self.avs = AvSlots(
            num_envs, self._mover, size_m=parts.ego_size_m, step_time_s=parts.step_time_s, roads=roads, backend=backend
        )
        self._view = CompactView(roads, parts.layout)
        self._judge = EpisodeJudge(step_reward, self.avs)
        self._outcome = OutcomeArrays(*map(backend.tensor, self._judge.outcome))
        self._episodes = EpisodeArrays(*map(backend.tensor, self._judge.episodes))
        self._names, self._grid, self._num_frames = step_reward.terms, kind.grid, parts.params.frames_per_action
        self._seen = backend.tensor(self._view.memory)
        self._states = HostCopy(self._episodes.states)
        self._draws = EpisodeDraws(parts.choice, num_envs, failed_share=parts.params.failed_share if train else 0.0)
        self.scene_indices, self.first_frames, self._last_frames = np.zeros((3, num_envs), np.int64)
        self._last_on_device: DeviceArray = backend.zeros(num_envs, np.int64)
        self._has_begun = False
        set_spaces(self, self._view.space, kind.space)
        backend.wait()  # for data that other streams may read

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: ResetOptions | None = None
    ) -> tuple[torch.Tensor, Infos]:
        """Start episodes in all environments.

        Args:
            seed: One for each environment, or a number for the first one and the next numbers for the rest; None keeps
                the generators.
            options: ``scene_id`` and ``start_frame_index`` of all episodes.

        Returns:
            Observations, float32 (N, ``layout.size``) on the device, and an empty dictionary.

        Raises:
            InvalidArgumentError: The number of seeds is wrong, an option is invalid, or the scene is not on the device.
            UnsupportedValueError: Only some environments are to be reset.
        """
        mask, wanted = read_masked_options(options)
        if mask is not None:
            raise UnsupportedValueError(
                "options has 'reset_mask', but environments on a device start by themselves in the step after the end; "
                "leave it out"
            )
        scene, known = wanted.get("scene_id"), self._roads.bank.scenes
        if scene is not None and scene not in known.tolist():
            raise InvalidArgumentError(
                f"options['scene_id'] is {scene}; on {self.device} are scenes {known.tolist()}, by gym_params"
            )
        every = np.arange(self.num_envs)
        self._draws.seed(every, seed)
        self._start(every, wanted)
        self._judge_frame(self._roads.every, begins=True)
        self._has_begun = True
        return self._looked(), {}

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Infos]:
        """Drive each environment for the frames of an action, or start its next episode.

        Args:
            actions: From -1 to 1, float32 or float64 (N, A), or grid numbers, int64 (N,), on the device; ignored for
                environments that start an episode.

        Returns:
            Observations, float32 (N, ``layout.size``), rewards, float64 (N,), terminated and truncated, bool (N,), and
            infos, all on the device. Infos are ``reward_tot`` and ``reward_<term>`` of the step, float64 (N,),
            ``is_<failure>``, bool (N,), and ``reward_sums``, the sums of the rewards over the episodes so far, complete
            in the step of an end; zeros and False for environments that have just started.

        Raises:
            EpisodeEndedError: ``reset`` has not been called.
            InvalidArgumentError: The actions have another shape or dtype, or are on another device; or those of the
                step before were not finite or not in the grid, which is only known now. Call ``reset`` after that.
        """
        if not self._has_begun:
            raise EpisodeEndedError("there is no episode yet; call reset() before step()")
        given = self._actions_of(actions)

        # episodes that ended in the last step; waits for the copy of the flags
        states = self._states.read()
        if (states == IS_BAD).any():
            first = int(np.argmax(states == IS_BAD))
            wrong = "not finite" if self._grid is None else f"not in {self.single_action_space}"
            raise InvalidArgumentError(
                f"action of environment {first} in the step before this one was {wrong}; check the policy and call "
                "reset()"
            )
        is_over = states != GOES_ON
        self._draws.note(self.scene_indices[is_over], states[is_over] == IS_FAILED)

        # the first frame of an action also starts episodes, which are not driven in this step
        for frame in range(self._num_frames):
            going = self.avs.choose_going(self._judge.episodes.states, begins=frame == 0)
            self.avs.move(going, given)
            if frame == 0 and is_over.any():
                self._start(np.flatnonzero(is_over), {})
            self._judge_frame(self._roads.every if frame == 0 else going, begins=frame == 0)
        ends = self._handed(self._episodes.is_terminated), self._handed(self._episodes.is_truncated)
        return self._looked(), self._handed(self._outcome.totals), *ends, self._infos()

    def _actions_of(self, actions: torch.Tensor) -> DeviceArray:
        """Return actions as arrays for kernels."""
        if not isinstance(actions, torch.Tensor):
            name, shape = type(actions).__name__, self.action_space.shape
            raise InvalidArgumentError(f"actions is a {name}; pass a tensor of torch on {self.device}, {shape}")
        dtype, backend = actions.dtype, self.avs.backend
        if self._grid is not None:
            dtype = torch.int64
        elif dtype != torch.float64:
            dtype = torch.float32
        return as_device_array("actions", actions.detach(), self.action_space.shape or (), backend, dtype=dtype)

    def _start(self, slots: Int64Array, wanted: Mapping[str, int]) -> None:
        """Start episodes in slots (B,)."""
        scenes, first_frames, num_frames = self._draws.draw(slots, wanted)
        rows = self._roads.start(slots, scenes, first_frames + FIRST_FRAME)
        poses = self._roads.bank.ego_poses
        self.avs.start(slots, poses[rows - 1], poses[rows])
        self.scene_indices[slots], self.first_frames[slots] = scenes, first_frames
        self._last_frames[slots] = first_frames + num_frames - 1
        self.avs.backend.put(self._last_on_device, 0, self._last_frames)

    def _judge_frame(self, slots: DeviceArray, *, begins: bool) -> None:
        """Judge the last step of slots; see :meth:`EpisodeJudge.judge`."""
        self._judge.judge(slots, self._last_on_device, self._mover.is_bad, begins=begins)

    def _looked(self) -> torch.Tensor:
        """Start to copy the flags of all environments, and return their observations."""
        self._states.begin()
        self._view.look(self._roads.every, self.avs.arrays)
        return self._handed(self._seen)

    def _infos(self) -> Infos:
        """Return the infos of a step."""
        outcome, sums = self._outcome, self._handed(self._episodes.sums)
        terms, failures = self._handed(outcome.terms), self._handed(outcome.failures)
        failed = dict(zip(FAILURES, failures.T, strict=True))
        infos = reward_infos(self._names, self._handed(outcome.totals), terms.T, failed)
        return infos | {"reward_sums": dict(zip(("tot", *self._names), sums.T, strict=True))}

    def _handed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone() if self.copy else tensor


def _require_supported(options: EnvironmentOptions, sim_cfg: SimulationConfig) -> None:
    """Raise if an option is not supported on a device.

    Raises:
        UnsupportedValueError: An option is not supported.
        InvalidArgumentError: Actions have other controls than their model.
    """
    if options.observation != "compact":
        raise UnsupportedValueError(
            f"observation is {options.observation!r}, but a device only has compact observations; pass "
            f"observation='compact', {_ELSEWHERE}"
        )
    if options.reward != "driving" and type(options.reward) is not DrivingReward:
        raise UnsupportedValueError(
            f"reward is {options.reward!r}, but a device only has the driving reward; pass "
            f"reward='driving' or a DrivingReward, {_ELSEWHERE}"
        )
    kind = options.actions
    if not moves_in_kernels(model_actions(kind) if isinstance(kind, str) and kind in MODEL_ACTIONS else kind):
        raise UnsupportedValueError(
            f"actions is {kind!r}, but on a device vehicle models move the AVs; pass actions='bicycle', 'curvature', "
            "'grid', 'route' or 'route_emergency', or ModelActions for Unicycle, InvertibleBicycle or KinematicBicycle"
            f", {_ELSEWHERE}"
        )
    if not sim_cfg.use_agents_gt or sim_cfg.disable_new_agents:
        raise UnsupportedValueError(
            "sim_cfg.use_agents_gt=False and disable_new_agents=True are not supported on a device; leave both keys "
            f"and pass others='log' or 'idm', {_ELSEWHERE}"
        )
