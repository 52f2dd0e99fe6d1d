"""Unrolling of scenes: models drive the AV and the agents frame by frame; their inputs and outputs are recorded."""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import torch

from l5kit._types import Float64Array, NumericArray, RecordArray
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.progress import show_progress
from l5kit.data.records import AGENT_DTYPE
from l5kit.dataset.utils import move_to_device
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.scene_states import ego_states_of_poses
from l5kit.geometry.transform import rotations33_as_yaws, round_world, transform_points
from l5kit.planning.network_inputs import warn_of_training
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset

__all__ = [
    "ClosedLoopSimulator",
    "ClosedLoopSimulatorModes",
    "SimulationConfig",
    "SimulationDataset",
    "SimulationOutput",
    "SimulationOutputCLE",
    "TrajectoryStateIndices",
    "UnrollInputOutput",
]

_CAR = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]


class TrajectoryStateIndices(IntEnum):
    """Columns of the AV states."""

    X = 0
    Y = 1
    THETA = 2
    SPEED = 3
    ACCELERATION = 4
    CURVATURE = 5
    TIME = 6


class UnrollInputOutput(NamedTuple):
    """Input and output of a model for the AV or one agent in one frame.

    Attributes:
        track_id: Track id; -1 for the AV.
        inputs: Sample, one array or number for each key.
        outputs: Model output, likewise.
    """

    track_id: int
    inputs: dict[str, NumericArray]
    outputs: dict[str, NumericArray]


class ClosedLoopSimulatorModes(IntEnum):
    """Source of the actions: models that are passed in, or an environment."""

    L5KIT = 0
    GYM = 1


class SimulationOutputCLE:
    """Result of one simulated scene and its recording, in the form that closed-loop metrics take.

    Args:
        scene_id: Index of the scene.
        sim_dataset: Dataset of the finished simulation.
        ego_ins_outs: Inputs and outputs of the AV model by scene, one for each frame.
        agents_ins_outs: Inputs and outputs of the agent model by scene, a list for each frame.

    Attributes:
        scene_id: Index of the scene.
        simulated_agents: Agents of the simulated scene, ``AGENT_DTYPE``.
        recorded_agents: Agents of the recorded scene.
        simulated_ego: Frames of the simulated scene, ``FRAME_DTYPE``.
        recorded_ego: Frames of the recorded scene.
        simulated_ego_states: AV state in each simulated frame, (N, 7); see :meth:`build_trajectory_states`.
        recorded_ego_states: AV state in each recorded frame, likewise.
        facts: Properties of the log, such as its step time and the size of the AV.
        ego_ins_outs: Entries of this scene; empty if the AV was replayed.
        agents_ins_outs: Entries of this scene; empty if the agents were replayed.

    Raises:
        InvalidArgumentError: The dataset does not have the scene.
    """

    def __init__(
        self,
        scene_id: int,
        sim_dataset: SimulationDataset,
        ego_ins_outs: Mapping[int, list[UnrollInputOutput]],
        agents_ins_outs: Mapping[int, list[list[UnrollInputOutput]]],
    ) -> None:
        if scene_id not in sim_dataset.scene_dataset_batch:
            raise InvalidArgumentError(
                f"scene_id is {scene_id}, but the simulation has scenes {list(sim_dataset.scene_dataset_batch)}"
            )
        self.scene_id = scene_id
        simulated = sim_dataset.scene_dataset_batch[scene_id].dataset
        recorded = sim_dataset.recorded_scene_dataset_batch[scene_id].dataset
        self.simulated_agents, self.recorded_agents = simulated.agents, recorded.agents
        self.simulated_ego, self.recorded_ego = simulated.frames, recorded.frames
        self.facts: LogFacts = simulated.facts
        step_time_s = self.facts.step_time_s
        self.simulated_ego_states = self.build_trajectory_states(self.simulated_ego, step_time_s=step_time_s)
        self.recorded_ego_states = self.build_trajectory_states(self.recorded_ego, step_time_s=step_time_s)
        self.ego_ins_outs = ego_ins_outs[scene_id]
        self.agents_ins_outs = agents_ins_outs[scene_id]

    def get_scene_id(self) -> int:
        """Return the index of the scene."""
        return self.scene_id

    @property
    def simulated_ego_speeds_mps(self) -> Float64Array:
        """Speed of the simulated AV in each frame, (N,), from positions; the states keep 0, as in L5Kit 1.5."""
        return self._speeds_mps(self.simulated_ego)

    @property
    def recorded_ego_speeds_mps(self) -> Float64Array:
        """Speed of the recorded AV in each frame, likewise, (N,)."""
        return self._speeds_mps(self.recorded_ego)

    def _speeds_mps(self, frames: RecordArray) -> Float64Array:
        times_s = np.arange(len(frames), dtype=np.float64) * self.facts.step_time_s
        yaws_rad = rotations33_as_yaws(frames["ego_rotation"])
        states = ego_states_of_poses(frames["ego_translation"][None, :, :2], yaws_rad[None], timestamps_s=times_s[None])
        speeds_mps: Float64Array = states.speeds_mps[0]
        return speeds_mps

    @staticmethod
    def build_trajectory_states(frames: RecordArray, *, step_time_s: float = LogFacts.step_time_s) -> torch.Tensor:
        """Return the AV states of frames: position, heading and time; speed, acceleration and curvature are 0.

        Args:
            frames: ``FRAME_DTYPE``, (N,).
            step_time_s: Seconds between two frames; the timestamps of the frames are ignored.

        Returns:
            float32 (N, 7), columns as in :class:`TrajectoryStateIndices`; float64 if float32 is too coarse for the
            positions, see :func:`~l5kit.geometry.transform.round_world`.
        """
        positions_m = round_world(frames["ego_translation"][:, :2])
        states = np.zeros((len(frames), len(TrajectoryStateIndices)), positions_m.dtype)
        states[:, [TrajectoryStateIndices.X, TrajectoryStateIndices.Y]] = positions_m
        states[:, TrajectoryStateIndices.THETA] = rotations33_as_yaws(frames["ego_rotation"])
        states[:, TrajectoryStateIndices.TIME] = step_time_s * np.arange(len(frames))
        return torch.from_numpy(states)


class SimulationOutput(SimulationOutputCLE):
    """Result of one simulated scene, including its datasets.

    Attributes:
        simulated_dataset: Dataset of the simulated scene, with ``dataset`` and ``cfg``.
        recorded_dataset: Dataset of the recorded scene, likewise.
    """

    def __init__(
        self,
        scene_id: int,
        sim_dataset: SimulationDataset,
        ego_ins_outs: Mapping[int, list[UnrollInputOutput]],
        agents_ins_outs: Mapping[int, list[list[UnrollInputOutput]]],
    ) -> None:
        super().__init__(scene_id, sim_dataset, ego_ins_outs, agents_ins_outs)
        self.simulated_dataset = sim_dataset.scene_dataset_batch[scene_id]
        self.recorded_dataset = sim_dataset.recorded_scene_dataset_batch[scene_id]


class ClosedLoopSimulator:
    """Simulator that drives scenes of a dataset with a model of the AV, a model of the agents, or both.

    Args:
        sim_cfg: Simulation options.
        dataset: Dataset of the scenes and their samples.
        device: Device of the models.
        model_ego: Takes a batch of AV samples as a dictionary of tensors and returns one with ``positions``
            (B, T, 2) and ``yaws`` (B, T, 1) in the frame of the AV; only the first step is driven.
        model_agents: The same for agents.
        keys_to_exclude: Keys that are not recorded from inputs and outputs of the models.
        mode: ``L5KIT``, or ``GYM`` if an environment gives the actions; models are then optional.

    Attributes:
        sim_cfg: Simulation options.
        dataset: Dataset of the scenes and their samples.
        device: Device of the models.
        model_ego: The model on the device; an empty ``torch.nn.Sequential`` for None.
        model_agents: Likewise.
        keys_to_exclude: The argument as a set.

    Raises:
        InvalidArgumentError: A model is missing, or the AV would be replayed in an environment.
    """

    def __init__(
        self,
        sim_cfg: SimulationConfig,
        dataset: Any,
        device: torch.device,
        model_ego: torch.nn.Module | None = None,
        model_agents: torch.nn.Module | None = None,
        keys_to_exclude: tuple[str, ...] = ("image",),
        mode: int = ClosedLoopSimulatorModes.L5KIT,
    ) -> None:
        if mode == ClosedLoopSimulatorModes.L5KIT:
            if not sim_cfg.use_ego_gt and model_ego is None:
                raise InvalidArgumentError("model_ego is None; pass a model of the AV, or replay it with use_ego_gt")
            if not sim_cfg.use_agents_gt and model_agents is None:
                raise InvalidArgumentError(
                    "model_agents is None; pass a model of the agents, or replay them with use_agents_gt"
                )
        elif mode == ClosedLoopSimulatorModes.GYM and sim_cfg.use_ego_gt:
            raise InvalidArgumentError("use_ego_gt is True, but in an environment the AV is driven by actions")
        self.sim_cfg = sim_cfg
        self.dataset = dataset
        self.device = device
        self.model_ego = (torch.nn.Sequential() if model_ego is None else model_ego).to(device)
        self.model_agents = (torch.nn.Sequential() if model_agents is None else model_agents).to(device)
        self.keys_to_exclude = set(keys_to_exclude)

    def unroll(self, scene_indices: list[int]) -> list[SimulationOutput]:
        """Drive scenes from their first to their last frame, all scenes at once.

        In each frame the agents move first, then the AV; both models see the frame before the move. Gradients are off.
        A model in training mode stays in it, with a ``RuntimeWarning``.

        Args:
            scene_indices: Indices of the scenes.

        Returns:
            One result for each scene, in the same order.

        Raises:
            InvalidArgumentError: A scene is listed twice, does not exist, or has too few frames.
        """
        if not self.sim_cfg.use_ego_gt:
            warn_of_training("model_ego", self.model_ego, stacklevel=3)
        if not self.sim_cfg.use_agents_gt:
            warn_of_training("model_agents", self.model_agents, stacklevel=3)
        cfg = getattr(self.dataset, "cfg", None)
        stride = cfg.get("model_params", {}).get("future_step_size", 1) if isinstance(cfg, Mapping) else 1
        if stride != 1:
            warnings.warn(
                f"future_step_size is {stride}, so the first pose of a model is {stride} frames ahead; here it is "
                "reached within one frame, as in L5Kit 1.5, and thus too fast; l5kit simulate uses the times of plans",
                RuntimeWarning,
                stacklevel=2,
            )
        sim_dataset = SimulationDataset.from_dataset_indices(self.dataset, scene_indices, self.sim_cfg)
        agents_ins_outs: defaultdict[int, list[list[UnrollInputOutput]]] = defaultdict(list)
        ego_ins_outs: defaultdict[int, list[UnrollInputOutput]] = defaultdict(list)
        num_frames = len(sim_dataset)
        with torch.no_grad(), show_progress("frames", visible=self.sim_cfg.show_info) as progress:
            for frame in range(num_frames):
                next_frame = frame + 1 if frame + 1 < num_frames else None
                if not self.sim_cfg.use_agents_gt:
                    seen = self.step_agents(sim_dataset, frame, next_frame)
                    for scene in scene_indices:
                        agents_ins_outs[scene].append(seen.get(scene, []))
                if not self.sim_cfg.use_ego_gt:
                    inputs, outputs = self._ask(self.model_ego, sim_dataset.ego_batch(frame))
                    if next_frame is not None:
                        self.update_ego(sim_dataset, next_frame, inputs, outputs)
                    for scene, each in self.get_ego_in_out(inputs, outputs, self.keys_to_exclude).items():
                        ego_ins_outs[scene].append(each)
                progress(frame + 1, num_frames)
        return [SimulationOutput(scene, sim_dataset, ego_ins_outs, agents_ins_outs) for scene in scene_indices]

    def step_agents(
        self, sim_dataset: SimulationDataset, frame: int, next_frame: int | None
    ) -> dict[int, list[UnrollInputOutput]]:
        """Move the agents that the agent model controls.

        Args:
            sim_dataset: Dataset of the simulation.
            frame: Frame that the model sees.
            next_frame: Frame to write; None to write nothing.

        Returns:
            Input and output of the model for each agent, by scene; scenes without agents are missing.
        """
        batch = sim_dataset.agents_batch(frame)
        if batch is None:
            return {}
        inputs, outputs = self.ask_agents(batch)
        if next_frame is not None:
            self.update_agents(sim_dataset, next_frame, inputs, outputs)
        return self.get_agents_in_out(inputs, outputs, self.keys_to_exclude)

    def ask_agents(self, batch: dict[str, torch.Tensor]) -> tuple[dict[str, NumericArray], dict[str, NumericArray]]:
        """Return a batch of agent samples and the output of the agent model, both as arrays."""
        return self._ask(self.model_agents, batch)

    def _ask(self, model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a batch and the output of a model for it, both as arrays."""
        if self.device.type != "cpu":
            batch = move_to_device(batch, self.device)
        outputs = model(batch)
        return _as_arrays(batch), _as_arrays(outputs)

    @staticmethod
    def first_poses(
        input_dict: Mapping[str, NumericArray], output_dict: Mapping[str, NumericArray]
    ) -> tuple[Float64Array, NumericArray]:
        """Return the first pose of each output in the world frame: positions (N, 2) and headings (N,)."""
        positions_m = transform_points(output_dict["positions"][:, :1], input_dict["world_from_agent"])
        return positions_m[:, 0], input_dict["yaw"] + output_dict["yaws"][:, 0, 0]

    @staticmethod
    def update_agents(
        dataset: SimulationDataset,
        frame_idx: int,
        input_dict: Mapping[str, NumericArray],
        output_dict: Mapping[str, NumericArray],
    ) -> None:
        """Move agents to the first pose of a model output; velocities are 0, and all agents become cars.

        Args:
            dataset: Dataset of the simulation.
            frame_idx: Frame to write.
            input_dict: ``world_from_agent`` (N, 3, 3), ``yaw`` (N,), ``track_id`` (N,), ``extent`` (N, 3) and
                ``scene_index`` (N,).
            output_dict: ``positions`` (N, T, 2) and ``yaws`` (N, T, 1).
        """
        positions_m, yaws_rad = ClosedLoopSimulator.first_poses(input_dict, output_dict)
        agents = np.zeros(len(yaws_rad), AGENT_DTYPE)
        agents["centroid"], agents["yaw"] = positions_m, yaws_rad
        agents["track_id"], agents["extent"] = input_dict["track_id"], input_dict["extent"]
        agents["label_probabilities"][:, _CAR] = 1
        keys = zip(input_dict["scene_index"].tolist(), agents["track_id"].tolist(), strict=True)
        dataset.set_agents(frame_idx, {key: agents[index : index + 1] for index, key in enumerate(keys)})

    @staticmethod
    def update_ego(
        dataset: SimulationDataset,
        frame_idx: int,
        input_dict: Mapping[str, NumericArray],
        output_dict: Mapping[str, NumericArray],
    ) -> None:
        """Move the AV of each scene to the first pose of a model output.

        Args:
            dataset: Dataset of the simulation.
            frame_idx: Frame to write.
            input_dict: ``world_from_agent`` (S, 3, 3) and ``yaw`` (S,).
            output_dict: ``positions`` (S, T, 2) and ``yaws`` (S, T, 1).
        """
        positions_m, yaws_rad = ClosedLoopSimulator.first_poses(input_dict, output_dict)
        dataset.set_ego(frame_idx, 0, positions_m[:, None], yaws_rad[:, None])

    @staticmethod
    def get_agents_in_out(
        input_dict: Mapping[str, NumericArray],
        output_dict: Mapping[str, NumericArray],
        keys_to_exclude: Iterable[str] | None = None,
    ) -> dict[int, list[UnrollInputOutput]]:
        """Return input and output of a model for each agent, by scene; scenes without agents are missing.

        Args:
            input_dict: Batch, arrays (N, ...).
            output_dict: Model output, arrays (N, ...).
            keys_to_exclude: Keys to drop from both.

        Raises:
            InvalidArgumentError: ``track_id`` or ``scene_index`` is missing or excluded.
        """
        by_scene: dict[int, list[UnrollInputOutput]] = {}
        for scene, each in _split(input_dict, output_dict, keys_to_exclude):
            by_scene.setdefault(scene, []).append(each)
        return by_scene

    @staticmethod
    def get_ego_in_out(
        input_dict: Mapping[str, NumericArray],
        output_dict: Mapping[str, NumericArray],
        keys_to_exclude: Iterable[str] | None = None,
    ) -> dict[int, UnrollInputOutput]:
        """Return input and output of a model for the AV, by scene; arguments as in :meth:`get_agents_in_out`.

        Raises:
            InvalidArgumentError: ``track_id`` or ``scene_index`` is missing or excluded, or a scene appears twice.
        """
        pairs = _split(input_dict, output_dict, keys_to_exclude)
        by_scene = dict(pairs)
        if len(by_scene) != len(pairs):
            raise InvalidArgumentError(
                f"input_dict must hold each scene once, got scene_index {input_dict['scene_index'].tolist()}"
            )
        return by_scene


def _split(
    input_dict: Mapping[str, NumericArray],
    output_dict: Mapping[str, NumericArray],
    keys_to_exclude: Iterable[str] | None,
) -> list[tuple[int, UnrollInputOutput]]:
    """Return scene, inputs and outputs of each item of a batch."""
    excluded = set() if keys_to_exclude is None else set(keys_to_exclude)
    for key in ("track_id", "scene_index"):
        if key not in input_dict:
            raise InvalidArgumentError(f"input_dict must have the key {key!r}, got {sorted(input_dict)}")
        if key in excluded:
            raise InvalidArgumentError(f"keys_to_exclude must not have {key!r}, which identifies the items")
    inputs = {key: values for key, values in input_dict.items() if key not in excluded}
    outputs = {key: values for key, values in output_dict.items() if key not in excluded}
    return [
        (scene, UnrollInputOutput(track, dict(zip(inputs, seen, strict=True)), dict(zip(outputs, said, strict=True))))
        for scene, track, seen, said in zip(
            input_dict["scene_index"],
            input_dict["track_id"],
            _items_of(inputs, len(input_dict["track_id"])),
            _items_of(outputs, len(input_dict["track_id"])),
            strict=True,
        )
    ]


def _items_of(batch: Mapping[str, NumericArray], num_items: int) -> Iterable[tuple[NumericArray, ...]]:
    """Return the values of each item of a batch, in the order of the keys."""
    return zip(*batch.values(), strict=True) if batch else [()] * num_items


def _as_arrays(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors of a batch as arrays."""
    return {key: value.cpu().numpy() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
