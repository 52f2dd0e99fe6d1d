"""Set-up of environments: opened inputs of a configuration, and the arguments that override it."""

import math
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import get_args

import numpy as np
import torch
from gymnasium import spaces

from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from l5kit.configs.environment import EndName, EnvironmentParams
from l5kit.configs.parameters import RasterGeometry
from l5kit.configs.texts import did_you_mean, require_regular_file
from l5kit.data.index.log_index import require_readable_scene
from l5kit.data.jobs.scene_jobs import count_workers
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.opened import maps_of_cfg
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.ego_vectorized import EgoDatasetVectorized
from l5kit.dataset.sample_indices import ego_extent_of
from l5kit.device.opening import open_backend
from l5kit.environment.action_kinds import ActionKind, PoseActions, UnicycleActions, kinematic_scales
from l5kit.environment.actors import ActorEpisode, ActorRoads
from l5kit.environment.episode_choice import EpisodeChoice, frames_of_scenes
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.episodes import EpisodeParts
from l5kit.environment.kinematic_model import UnicycleModel
from l5kit.environment.model_actions import MODEL_ACTIONS, ROUTE_ACTIONS, ModelActions, RouteActions, model_actions
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.observations.views import LogView, vector_space
from l5kit.environment.rewards.driving_reward import DrivingReward, DrivingWeights
from l5kit.environment.rewards.step_reward import DisplacementReward, StepReward
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.slots.scene_slots import SceneSlot, SceneSlots
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.environment.utils import NonKinematicActionRescaleParams, calculate_non_kinematic_rescale_params
from l5kit.errors import CorruptedDataError, InvalidArgumentError, UnsupportedValueError
from l5kit.evaluation.driving.record_faults import RecordFault, find_pose_fault, find_record_fault
from l5kit.rasterization import Rasterizer, build_rasterizer
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.drivers.intelligent import POPULATIONS, POPULATIONS_BY_PARAMETERS, IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.unroll import ClosedLoopSimulator, ClosedLoopSimulatorModes
from l5kit.vectorization.vectorizer_builder import build_vectorizer

OBSERVATIONS = ("raster", "vectors", "compact")
ACTIONS = ("poses", "kinematic", *MODEL_ACTIONS)
REWARDS = ("displacement", "driving")
OTHERS = ("log", *POPULATIONS_BY_PARAMETERS)
SELF_PLAY = "policy"
"""Value of ``others`` in training configurations: the policy in training also drives other vehicles."""
BESIDE_POLICY = "idm"
"""Driver of vehicles that the policy does not drive with ``SELF_PLAY``: those waiting for it, or with AVs alone."""
ENDS = get_args(EndName)
_NO_PICTURE = {
    "raster_size": [1, 1],
    "pixel_size": [1.0, 1.0],
    "ego_center": [0.5, 0.5],
    "set_origin_to_bottom": True,
}
_METHODS = {"actions": ("space", "checked", "begin", "move"), "reward": ("terms", "begin", "of_step")}


@dataclass
class SimulationConfigGym(SimulationConfig):
    """Options of the simulation of an episode; its first frame only gives the speed, actions begin in the second.

    Attributes:
        num_simulation_steps: Number of frames; None for all of the scene. An episode has two steps fewer.
    """

    use_agents_gt: bool = True
    num_simulation_steps: int | None = 33


@dataclass(frozen=True)
class EnvironmentOptions:
    """Options of an environment besides its data; None means the value of the configuration.

    Attributes:
        observation: ``raster``, ``vectors`` or ``compact``.
        actions: ``poses``, ``kinematic``, ``bicycle``, ``curvature``, ``pose_change``, ``grid``, ``route``,
            ``route_emergency``, or an object.
        reward: ``displacement`` or ``driving``, or an object.
        others: Driver of other vehicles: ``log``, ``idm``, ``cautious`` or ``assertive``.
        ends_at: Failures that end an episode early: ``collision``, ``off_road``, ``red_light``, ``time_to_collision``.
        rescale_action: Whether poses and kinematic actions are scaled.
        acceleration_per_step: Whether kinematic acceleration is scaled by the square of the step time.
        kin_model: Limits of the unicycle that kinematic actions move.
        randomize_start: Whether training episodes start at a random frame; None for the configuration.
        strict: Whether a damaged scene is an error. Else it is skipped with a warning.
        draws: Whether pictures are drawn in addition to the observations.
        has_actors: Whether logged vehicles may receive actions.

    Raises:
        InvalidArgumentError: A value is not supported.
    """

    observation: str | None = None
    actions: str | ActionKind | None = None
    reward: str | StepReward | None = None
    others: str | None = None
    ends_at: Collection[str] | None = None
    rescale_action: bool = True
    acceleration_per_step: bool = False
    kin_model: UnicycleModel | None = None
    randomize_start: bool | None = None
    strict: bool = False
    draws: bool = False
    has_actors: bool = False

    def __post_init__(self) -> None:
        for name, known in (
            ("observation", OBSERVATIONS),
            ("actions", ACTIONS),
            ("reward", REWARDS),
            ("others", OTHERS),
        ):
            value = getattr(self, name)
            if name == "others" and value == SELF_PLAY:
                raise InvalidArgumentError(
                    f"others={SELF_PLAY!r} is only for `l5kit train-rl`; in an environment use {BESIDE_POLICY!r} or "
                    f"another of {', '.join(OTHERS)}, or L5ParallelEnv where other vehicles act, too"
                )
            methods = _METHODS.get(name)
            is_own = methods is not None and all(hasattr(value, method) for method in methods)
            if value not in (None, *known) if isinstance(value, str | None) else not is_own:
                own = f", or an object with {', '.join(methods)}" if methods else ""
                if name == "others" and isinstance(value, str) and value in POPULATIONS:
                    own += "; drivers that give way or change lanes are only supported in simulations"
                raise InvalidArgumentError(
                    f"{name} is {value!r}{did_you_mean(value, known)}; it must be one of {', '.join(known)}{own}"
                )
        ends_at = () if self.ends_at is None else self.ends_at
        if isinstance(ends_at, str) or not isinstance(ends_at, Collection) or not all(each in ENDS for each in ends_at):
            raise InvalidArgumentError(f"ends_at is {self.ends_at!r}; pass a list of some of {', '.join(ENDS)}")

    @property
    def driver(self) -> IntelligentDriver | None:
        """Driver of other vehicles; None for the log."""
        return None if self.others in (None, "log") else POPULATIONS[str(self.others)]

    @property
    def is_legacy(self) -> bool:
        """Whether the completed options are the environment of L5Kit 1.5, which only offered a choice of actions."""
        is_usual = (self.observation, self.reward, self.others) == ("raster", "displacement", "log")
        return is_usual and self.actions in ("poses", "kinematic")


@dataclass(frozen=True)
class EnvironmentParts:
    """Parts that all environments of a configuration share.

    Attributes:
        cfg: The configuration.
        params: Its parameters of scenes and starts.
        options: Observation, action and reward options.
        sim_cfg: Episode length, default start frame and simulated agents.
        train: Whether episodes are of the training data; validation episodes start at the requested frame.
        data_manager: The data manager.
        log: Log of the episodes.
    """

    cfg: JsonObject
    params: EnvironmentParams
    options: EnvironmentOptions
    sim_cfg: SimulationConfig
    train: bool
    data_manager: LocalDataManager
    log: ChunkedDataset

    @classmethod
    def open(
        cls,
        env_config_path: str | None,
        dmg: LocalDataManager | None,
        sim_cfg: SimulationConfig | None = None,
        *,
        train: bool,
        options: EnvironmentOptions | None = None,
    ) -> "EnvironmentParts":
        """Open the inputs of a configuration.

        Args:
            env_config_path: YAML file.
            dmg: The data manager; None for the folder of ``L5KIT_DATA_FOLDER``.
            sim_cfg: Options of the simulation, copied; None for the defaults and the number of frames of the
                configuration.
            train: Whether episodes are of the training data; always true with ``gym_params.overfit``.
            options: Options that override the configuration.

        Raises:
            InvalidArgumentError: The configuration is missing, or options do not fit each other.
            UnsupportedValueError: Options cannot be combined.
            ConfigError: A key is missing or wrong.
        """
        if env_config_path is None:
            raise InvalidArgumentError("env_config_path is None; pass the YAML file of the environment")
        cfg: JsonObject = load_config_data(env_config_path)
        params = EnvironmentParams.from_cfg(cfg)
        data_manager = LocalDataManager(None) if dmg is None else dmg
        if not hasattr(data_manager, "require"):
            raise InvalidArgumentError(f"dmg is {dmg!r}; pass LocalDataManager({str(dmg)!r})")
        loader = "train_data_loader" if train or params.overfit else "val_data_loader"
        log = ChunkedDataset(data_manager.require(cfg[loader]["key"])).open()

        # options that are None take the values of the configuration
        requested = options or EnvironmentOptions()
        names = ("observation", "actions", "reward", "others", "ends_at")
        missing = {name: getattr(params, name) for name in names if getattr(requested, name) is None}
        completed = replace(requested, **missing)
        if completed.ends_at and completed.reward != "driving":
            raise InvalidArgumentError(
                f"ends_at is {completed.ends_at!r}, but only the reward 'driving' ends episodes early, and reward is "
                f"{completed.reward!r}; pass reward='driving' or ends_at=()"
            )
        usual = SimulationConfigGym(num_simulation_steps=params.num_simulation_steps)
        copied = usual if sim_cfg is None else replace(sim_cfg)
        return cls(cfg, params, completed, copied, train, data_manager, log)

    @cached_property
    def rasterizer(self) -> Rasterizer:
        """Rasterizer of observations; a stub if they are not images."""
        return build_rasterizer(self._picture_cfg, self.data_manager)

    @cached_property
    def dataset(self) -> EgoDataset:
        """Samples of the log with images."""
        return EgoDataset(self._picture_cfg, self.log, self.rasterizer)

    @property
    def _picture_cfg(self) -> JsonObject:
        """The configuration; if no raster is needed, with a stub of 1x1 pixels by default."""
        if self.options.observation == "raster" or self.options.draws:
            return self.cfg
        of_nothing = {**_NO_PICTURE, **self.cfg["raster_params"], "map_type": "stub_debug"}
        return {
            **self.cfg,
            "raster_params": of_nothing,
            "model_params": {**(self.cfg.get("model_params") or {}), "route": False},
        }

    @cached_property
    def road(self) -> RoadMap | None:
        """The semantic map, or the joined maps of the scenes of the log; None if the configuration has none.

        Raises:
            InvalidArgumentError: The scenes are on too many maps.
        """
        if not self.cfg["raster_params"].get("semantic_map_key"):
            return None
        maps = maps_of_cfg(self.data_manager, self.cfg)
        return RoadMap(maps.of_scenes(self.log, range(len(self.log.scenes))))

    @cached_property
    def bank(self) -> SceneBank | None:
        """Scenes as arrays; None if no part needs road users or routes."""
        options = self.options
        # rasters and vectors of logged traffic with the displacement reward need no arrays of scenes, unless actions
        # follow the route
        is_logged = options.reward == "displacement" or isinstance(options.reward, DisplacementReward)
        needs_no_route = options.actions not in ROUTE_ACTIONS and not isinstance(options.actions, RouteActions)
        if options.observation != "compact" and options.others == "log" and is_logged and needs_no_route:
            return None
        threshold = float(self.cfg["raster_params"]["filter_agents_threshold"])
        logged_s = self.log.facts.step_time_s
        if not math.isclose(logged_s, self.step_time_s):
            raise InvalidArgumentError(
                f"model_params.step_time is {self.step_time_s}, but {self.log.path!r} says that {logged_s} s lie "
                "between its frames; set step_time to that"
            )
        drives_agents = options.has_actors or options.driver is not None
        return SceneBank(self.log, road=self.road, threshold=threshold, drives_agents=drives_agents)

    @property
    def layout(self) -> CompactLayout:
        """Layout of compact observations."""
        return CompactLayout(**vars(self.params.compact))

    @property
    def step_time_s(self) -> float:
        """Seconds of a step."""
        return float(self.cfg["model_params"]["step_time"])

    @cached_property
    def seen(self) -> BaseEgoDataset:
        """Dataset of the observed samples."""
        if self.options.observation == "vectors":
            return EgoDatasetVectorized(self.cfg, self.log, build_vectorizer(self.cfg, self.data_manager))
        return self.dataset

    @cached_property
    def choice(self) -> EpisodeChoice:
        """Rules for drawing episodes.

        Raises:
            InvalidArgumentError: The log does not have enough scenes.
        """
        params, lengths, wanted = self.params, frames_of_scenes(self.log), self.options.randomize_start
        requested = params.max_scene_id if self.train else params.max_val_scene_id
        num_scenes = len(lengths) if requested is None else requested
        if not 1 <= num_scenes <= len(lengths):
            raise InvalidArgumentError(f"gym_params asks for {num_scenes} scenes, but the log has {len(lengths)}")
        if params.overfit and params.overfit_id >= len(lengths):
            raise InvalidArgumentError(
                f"gym_params.overfit_id is {params.overfit_id}; there are scenes 0 to {len(lengths) - 1}"
            )
        return EpisodeChoice(
            lengths,
            num_scenes,
            params.overfit_id if params.overfit else None,
            is_anywhere=self.train and bool(params.randomize_start_frame if wanted is None else wanted),
            num_frames=self.sim_cfg.num_simulation_steps,
            first_frame=self.sim_cfg.start_frame_index,
            check_scene=self._require_sound,
            strict=self.options.strict,
        )

    def _require_sound(self, scene: int) -> None:
        """Raise if a scene is damaged: its records cannot be read or, with a bank, its road users are invalid.

        Raises:
            CorruptedDataError: There are no frames, an interval is wrong, a file is damaged or missing, or a pose of
                the AV is not finite or too far away. With a bank also: a value of a road user is not finite or out of
                range, a frame has a track twice, or timestamps do not increase.
        """
        log = self.log
        require_readable_scene(log, scene)
        (record,) = rows_of(log.scenes, slice(scene, scene + 1), strict=True)
        frames = rows_of(log.frames, slice(*record[FRAME_INTERVAL].tolist()), strict=True)
        if len(frames) == 0:
            raise CorruptedDataError("it has no frames")
        for name, array in ((AGENT_INTERVAL, log.agents), (FACE_INTERVAL, log.tl_faces)):
            if len(array):
                rows_of(array, slice(int(frames[name][:, 0].min()), int(frames[name][:, 1].max())), strict=True)
        _refuse(find_pose_fault(frames))
        if self.bank is not None:
            _refuse(find_record_fault(SceneRecords.read(log, scene)))
            self.bank.prepare(np.array([scene]))

    def simulator(self, simnet_model_path: str | None) -> ClosedLoopSimulator:
        """Return the simulator of agents that leave the log.

        Args:
            simnet_model_path: TorchScript file of the network that drives them; required if there are any.

        Raises:
            InvalidArgumentError: The file is missing, or the AV is to be replayed.
            UnsupportedValueError: The observation or reward does not support such agents.
        """
        sim_cfg, device, model = self.sim_cfg, torch.device("cpu"), None
        if self.bank is not None:
            require_logged_agents(sim_cfg)
        if not sim_cfg.use_agents_gt:
            if simnet_model_path is None:
                raise InvalidArgumentError(
                    "simnet_model_path is None, but agents are simulated; pass a TorchScript file"
                )
            require_regular_file(simnet_model_path, called="TorchScript file")
            model = torch.jit.load(simnet_model_path, map_location=device).eval()  # type: ignore[no-untyped-call]
        return ClosedLoopSimulator(sim_cfg, self.dataset, device, model_agents=model, mode=ClosedLoopSimulatorModes.GYM)

    def scene_slot(self, simulator: ClosedLoopSimulator | None, *, moves_ego: bool) -> SceneSlot:
        """Return the frames of one episode, for simulation.

        Args:
            simulator: Simulator of agents; None if they are driven elsewhere.
            moves_ego: Whether the AV leaves the log.
        """
        return SceneSlot(
            self.seen,
            self.seen if self.options.observation == "vectors" else self.dataset,
            int(self.choice.lengths.max()),
            sim_cfg=self.sim_cfg,
            simulator=simulator,
            moves_ego=moves_ego,
        )

    def slots(self, num_envs: int, simnet_model_path: str | None) -> LogSlots | SceneSlots | None:
        """Return the frames of N episodes, None if no part reads records; arguments as in :meth:`simulator`."""
        is_logged = self.sim_cfg.use_agents_gt
        if is_logged and not self.sim_cfg.disable_new_agents:
            is_seen = self.options.observation != "compact"
            return LogSlots(self.seen, num_envs, self.choice.longest) if is_seen else None
        simulator = self.simulator(simnet_model_path)
        make_slot = partial(self.scene_slot, None, moves_ego=True)
        return SceneSlots(num_envs, make_slot, None if is_logged else simulator)

    def actions(self, num_envs: int) -> ActionKind:
        """Return the kind of actions; poses with scales that are measured in the log."""
        kind, options = self.options.actions, self.options
        if not isinstance(kind, str):
            assert kind is not None
            return kind
        if kind == "poses":
            scales = measure_scales(self.dataset, self.choice, self.sim_cfg) if options.rescale_action else None
            return PoseActions(scales)
        if kind == "kinematic":
            of_steps = kinematic_scales(self.step_time_s, acceleration_per_step=options.acceleration_per_step)
            model = options.kin_model or UnicycleModel()
            return UnicycleActions(num_envs, model, of_steps if options.rescale_action else None)
        return model_actions(kind)

    def reward(self) -> StepReward:
        """Return the reward of steps."""
        reward = self.options.reward
        if reward == "driving":
            return DrivingReward(DrivingWeights(**vars(self.params.driving)), ends_at=self.options.ends_at or ())
        if isinstance(reward, str) or reward is None:
            return DisplacementReward()
        return deepcopy(reward) if isinstance(reward, DrivingReward) else reward  # it keeps state of its slots

    @property
    def ego_size_m(self) -> tuple[float, float]:
        """Length and width of the AV."""
        length_m, width_m, _ = ego_extent_of(self.log)
        return length_m, width_m

    def episode_parts(
        self,
        num_envs: int,
        actions: ActionKind,
        reward: StepReward,
        log: LogSlots | SceneSlots | None,
        *,
        num_threads: int = 1,
    ) -> EpisodeParts:
        """Return the parts of the episodes of N environments.

        Args:
            num_envs: N.
            actions: Actions that move the AVs.
            reward: The reward of steps.
            log: Frames of the episodes; None if no part reads records.
            num_threads: Number of threads for kernels.
        """
        roads = None
        if self.bank is not None:
            backend = open_backend("cpu", num_threads=num_threads)
            roads = EpisodeRoads(self.bank, num_envs, drives=self.options.driver, backend=backend)
        view: LogView | CompactView
        if self.options.observation == "compact":
            assert roads is not None
            view = CompactView(roads, self.layout)
        elif self.options.observation == "vectors":
            assert log is not None
            view = LogView(log, vector_space(log.dataset))
        else:
            # images (C, H, W), float32 from 0 to 1, or bytes if the rasterizer returns these
            assert log is not None
            width, height = RasterGeometry.from_cfg(self.cfg).raster_size_px
            shape = (self.rasterizer.num_channels(), height, width)
            is_bytes = getattr(self.rasterizer, "image_dtype", "float32") == "uint8"
            picture = spaces.Box(0, 255, shape, np.uint8) if is_bytes else spaces.Box(0, 1, shape, np.float32)
            view = LogView(log, spaces.Dict({"image": picture}))
        frames = self.params.frames_per_action
        if frames > 1 and not isinstance(actions, ModelActions):
            raise UnsupportedValueError(
                f"gym_params.frames_per_action is {frames}, but poses and kinematic actions are those of one frame; "
                f"set actions to one of {', '.join(MODEL_ACTIONS)}, or frames_per_action to 1"
            )
        return EpisodeParts(view, actions, reward, log, roads, self.ego_size_m, self.step_time_s, frames)

    def actor_episode(
        self,
        kind: ModelActions,
        num_vehicles: int,
        *,
        layout: CompactLayout | None = None,
        traffic: TrafficSlots | None = None,
        slot: int = 0,
        frames_per_action: int = 1,
    ) -> ActorEpisode:
        """Return an episode with the AV and other vehicles as actors; it has not begun.

        Args:
            kind: Actions of all actors.
            num_vehicles: Limit on the vehicles that act.
            layout: Layout of observations; None for that of the configuration.
            traffic: Road users of several scenes that are driven together; None for those of one scene.
            slot: Slot of this scene in ``traffic``.
            frames_per_action: Frames that an action is held for.
        """
        assert self.bank is not None
        roads = ActorRoads(self.bank, num_vehicles, drives=self.options.driver, traffic=traffic, slot=slot)
        view = CompactView(roads, self.layout if layout is None else layout)
        of_all = (self.ego_size_m, self.step_time_s, frames_per_action)
        return ActorEpisode(EpisodeParts(view, kind, self.reward(), None, roads, *of_all), roads)


def named_actions(actions: str | ActionKind | None, *, use_kinematic: bool) -> str | ActionKind | None:
    """Return the actions chosen by the argument, or by the argument of L5Kit 1.5.

    Raises:
        InvalidArgumentError: The two arguments contradict each other.
    """
    if use_kinematic and actions not in (None, "kinematic"):
        raise InvalidArgumentError(f"use_kinematic is True, but actions is {actions!r}; pass one of them")
    return "kinematic" if use_kinematic else actions


def require_num_envs(num_envs: object) -> int:
    """Return the number of environments as an integer.

    Raises:
        InvalidArgumentError: It is not a whole number, or below 1.
    """
    if not isinstance(num_envs, int | np.integer) or isinstance(num_envs, bool) or num_envs < 1:
        raise InvalidArgumentError(f"num_envs is {num_envs!r}; it must be 1 or more, and a whole number")
    return int(num_envs)


def require_num_threads(num_threads: object) -> int:
    """Return the number of threads for environments; one per core for 0.

    Raises:
        InvalidArgumentError: It is not a whole number, or below 0.
    """
    if not isinstance(num_threads, int | np.integer) or isinstance(num_threads, bool) or num_threads < 0:
        raise InvalidArgumentError(
            f"num_threads is {num_threads!r}; it must be a whole number: 1 runs in the calling thread, 0 uses one "
            "thread per core"
        )
    return count_workers(int(num_threads))


def require_driven_avs(sim_cfg: object) -> None:
    """Raise if AVs are to be replayed, or if the argument is not a configuration of simulations.

    Raises:
        InvalidArgumentError: AVs are to be replayed, or the type is wrong.
    """
    if not isinstance(sim_cfg, SimulationConfig):
        raise InvalidArgumentError(f"sim_cfg is {sim_cfg!r}; pass a SimulationConfigGym")
    if sim_cfg.use_ego_gt:
        raise InvalidArgumentError("use_ego_gt is True, but in an environment the AV is driven by actions")


def require_logged_agents(sim_cfg: SimulationConfig) -> None:
    """Raise if a network drives agents, or agents are hidden, as a bank supports neither.

    Raises:
        UnsupportedValueError: ``sim_cfg`` asks for one of these.
    """
    if not sim_cfg.use_agents_gt or sim_cfg.disable_new_agents:
        raise UnsupportedValueError(
            "sim_cfg.use_agents_gt=False and disable_new_agents=True need observation 'raster' or 'vectors' with "
            "reward 'displacement' and others 'log'; use these, or leave both keys and pass others='idm'"
        )


def measure_scales(
    dataset: EgoDataset, choice: EpisodeChoice, sim_cfg: SimulationConfig
) -> NonKinematicActionRescaleParams:
    """Return the scales of poses, measured in the first scenes of an environment from its configured start frames."""
    replayed = replace(sim_cfg, use_agents_gt=True, disable_new_agents=False)
    return calculate_non_kinematic_rescale_params(
        SimulationDataset.from_dataset_indices(dataset, choice.measured_scenes, replayed)
    )


def _refuse(fault: RecordFault | None) -> None:
    """Raise a ``CorruptedDataError`` for a fault in the records of a scene; do nothing for None."""
    if fault is not None:
        track = "" if fault.track_id is None else f", track {fault.track_id}"
        raise CorruptedDataError(f"frame {fault.frame} of it{track}: {fault.message}")
