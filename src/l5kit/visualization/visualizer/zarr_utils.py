"""Frame contents of a log, of a simulation and of an episode of the gym environment."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from l5kit._types import Config, Float64Array, NumericArray, RecordArray
from l5kit.configs.parameters import read_filter_agents_threshold
from l5kit.data.filter import (
    filter_agents_by_frames,
    filter_agents_by_labels,
    filter_tl_faces_by_frames,
)
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import compute_box_corners
from l5kit.geometry.transform import rotation33_as_yaw, transform_points
from l5kit.visualization.visualizer.common import (
    AgentVisualization,
    EgoVisualization,
    FrameVisualization,
    MovingAgentVisualization,
    TrajectoryVisualization,
)
from l5kit.visualization.visualizer.map_layers import LIGHT_TONES, MapLayers

__all__ = [
    "COLORS",
    "episode_out_to_visualizer_scene_gym_cle",
    "simulation_out_to_visualizer_scene",
    "zarr_to_visualizer_scene",
]

COLORS = {
    **LIGHT_TONES,
    "PERCEPTION_LABEL_CAR": "#1F77B4",
    "PERCEPTION_LABEL_CYCLIST": "#CC33FF",
    "PERCEPTION_LABEL_PEDESTRIAN": "#66CCFF",
}
"""Colours of lanes by the state of their light, and of agents by class; other classes get the colour of cars."""

_EGO_TRACK_ID = -1
_LOG_AGENTS_THRESHOLD = 0.1
_AGENT_TRAJECTORY_FRAMES = 20
_EGO_TRAJECTORY_FRAMES = 100
_EPISODE_STEP_SCALE = 10.0


class InOut(Protocol):
    """Protocol of the inputs and outputs of an ego or agents model for one track in one frame, without a batch axis.

    ``inputs`` has ``target_positions`` (T, 2), ``target_availabilities`` (T,) and ``world_from_agent`` (3, 3),
    ``outputs`` has ``positions`` (M, 2); positions are in metres in the frame of the agent.
    """

    @property
    def track_id(self) -> int: ...
    @property
    def inputs(self) -> Mapping[str, NumericArray]: ...
    @property
    def outputs(self) -> Mapping[str, NumericArray]: ...


class SimulatedScene(Protocol):
    """Protocol of a simulated scene; road users that were replayed from the log have no items."""

    @property
    def simulated_ego(self) -> RecordArray:
        """Frames, records of ``FRAME_DTYPE``, (F,)."""
        ...

    @property
    def simulated_agents(self) -> RecordArray:
        """Their agents, records of ``AGENT_DTYPE``."""
        ...

    @property
    def ego_ins_outs(self) -> Sequence[InOut]:
        """One item per simulated frame."""
        ...

    @property
    def agents_ins_outs(self) -> Sequence[Sequence[InOut]]:
        """For each simulated frame, one item per agent."""
        ...


class SimulatedLog(Protocol):
    """Protocol of the log and the configuration of a simulation."""

    @property
    def dataset(self) -> ChunkedDataset: ...
    @property
    def cfg(self) -> Config: ...


class SimulationOutput(SimulatedScene, Protocol):
    """Protocol of the result of ``l5kit.simulation`` for a scene."""

    @property
    def simulated_dataset(self) -> SimulatedLog:
        """Its ``dataset`` has the lights, its ``cfg`` the label threshold of agents."""
        ...


class EpisodeOutput(SimulatedScene, Protocol):
    """Protocol of the result of ``l5kit.environment`` for an episode."""

    @property
    def tls_frames(self) -> RecordArray:
        """Traffic light faces of the simulated scene, records of ``TL_FACE_DTYPE``."""
        ...

    @property
    def agents_th(self) -> float:
        """Label threshold of agents."""
        ...


def zarr_to_visualizer_scene(
    scene_dataset: ChunkedDataset,
    mapAPI: MapAPI | None,  # noqa: N803
    with_trajectories: bool = True,
) -> list[FrameVisualization]:
    """Return the contents of each frame of a log of one scene.

    Agents have a summed probability of the road user classes above 0.1. Trajectories are the positions of each of these
    tracks in this and the next 19 frames (``agent_trajectory``, blue), whatever their probability there, and of the AV
    in this and the next 99 frames (``ego_trajectory``, red).

    Args:
        scene_dataset: A dataset of one scene, such as ``dataset.get_scene_dataset(3)``.
        mapAPI: The map; None for no lanes and crosswalks.
        with_trajectories: Whether trajectories are included.

    Raises:
        InvalidArgumentError: The dataset does not have one scene (a ``ValueError``).
        CorruptedDataError: A file of the scene is damaged or missing.
    """
    if len(scene_dataset.scenes) != 1:
        raise InvalidArgumentError(
            f"scene_dataset has {len(scene_dataset.scenes)} scenes; give a dataset of one, such as "
            "scene_dataset.get_scene_dataset(0)"
        )
    scene = scene_dataset.get_scene_dataset(0)  # all rows of the scene, read once
    # keep all agents: the trajectory of a displayed track includes frames in which its probability is low
    all_agents_frames = filter_agents_by_frames(scene.frames, scene.agents)
    faces_frames = filter_tl_faces_by_frames(scene.frames, scene.tl_faces)
    layers = _layers_of(mapAPI)
    shown = []
    for index, (frame, all_agents, faces) in enumerate(zip(scene.frames, all_agents_frames, faces_frames, strict=True)):
        agents = filter_agents_by_labels(all_agents, _LOG_AGENTS_THRESHOLD)
        content = _frame_data(layers, frame, agents, faces, facts=scene.facts)
        if with_trajectories:
            track_ids = agents["track_id"].tolist()
            trajectories = _get_frame_trajectories(scene.frames, all_agents_frames, track_ids, index)
            content = content._replace(trajectories=trajectories)
        shown.append(content)
    return shown


def simulation_out_to_visualizer_scene(
    sim_out: SimulationOutput,
    mapAPI: MapAPI | None,  # noqa: N803
) -> list[FrameVisualization]:
    """Return the contents of each frame of a simulated scene.

    Agents are above ``raster_params.filter_agents_threshold``. If the AV was simulated, the trajectories are its logged
    path (``ego_replay``, blue) and the predicted one (``ego_simulated``, red); if agents were simulated, the same for
    each of them (``agent_replay``, orange, and ``agent_simulated``, purple). The speed of simulated agents is unknown.

    Args:
        sim_out: A result of ``ClosedLoopSimulator.unroll``.
        mapAPI: The map; None for no lanes and crosswalks.

    Raises:
        InvalidArgumentError: There are inputs and outputs, but not for every frame.
        ConfigError: The configuration lacks the threshold.
    """
    threshold = read_filter_agents_threshold(sim_out.simulated_dataset.cfg)
    frames, log = sim_out.simulated_ego, sim_out.simulated_dataset.dataset
    egos, agents_of_frames = _in_outs_of(sim_out, len(frames))
    layers = _layers_of(mapAPI)
    shown = _simulated_frames(sim_out, layers, log.tl_faces, threshold, facts=log.facts, first_simulated=0)
    for index, content in enumerate(shown):
        if egos:
            replay, simulated = _get_in_out_as_trajectories(egos[index])
            content.trajectories.append(_trajectory(replay, "blue", "ego_replay", _EGO_TRACK_ID))
            content.trajectories.append(_trajectory(simulated, "red", "ego_simulated", _EGO_TRACK_ID))
        if agents_of_frames:
            content.trajectories.extend(_agent_trajectories(agents_of_frames[index]))
    return shown


def episode_out_to_visualizer_scene_gym_cle(
    sim_out: EpisodeOutput,
    mapAPI: MapAPI | None,  # noqa: N803
) -> list[FrameVisualization]:
    """Return the contents of each frame of an episode with an action: all except the first and the last.

    The next step of the AV is drawn from its centre at ten times its length, as chosen by the policy
    (``ego_simulated (10x scale)``, green) and as logged (``ego_replay (10x scale)``, yellow; omitted if the log lacks
    it). Agents are as in :func:`simulation_out_to_visualizer_scene`, above ``agents_th``.

    Args:
        sim_out: The result of an episode.
        mapAPI: The map; None for no lanes and crosswalks.

    Raises:
        InvalidArgumentError: The AV was not simulated in all of these frames.
    """
    num_steps = max(len(sim_out.simulated_ego) - 2, 0)
    egos, agents_of_frames = _in_outs_of(sim_out, num_steps)
    if len(egos) != num_steps:
        raise InvalidArgumentError(f"sim_out.ego_ins_outs is empty; an episode has one item per step, {num_steps} here")
    layers, threshold, facts = _layers_of(mapAPI), sim_out.agents_th, getattr(sim_out, "facts", LogFacts())
    shown = _simulated_frames(sim_out, layers, sim_out.tls_frames, threshold, facts=facts, first_simulated=1)
    shown = shown[1 : 1 + num_steps]
    for index, content in enumerate(shown):
        center_m = np.array([content.ego.center_x, content.ego.center_y])
        replay, simulated = (positions[:1] for positions in _get_in_out_as_trajectories(egos[index]))
        for positions_m, color, name in ((simulated, "green", "ego_simulated"), (replay, "yellow", "ego_replay")):
            if len(positions_m):
                line_m = np.vstack([center_m, center_m + _EPISODE_STEP_SCALE * (positions_m - center_m)])
                content.trajectories.append(_trajectory(line_m, color, f"{name} (10x scale)", _EGO_TRACK_ID))
        if agents_of_frames:
            content.trajectories.extend(_agent_trajectories(agents_of_frames[index]))
    return shown


def _get_frame_data(
    mapAPI: MapAPI | None,  # noqa: N803
    frame: RecordArray,
    agents_frame: RecordArray,
    tls_frame: RecordArray,
) -> FrameVisualization:
    """Return the contents of one frame, without trajectories.

    Args:
        mapAPI: The map; None for no lanes and crosswalks.
        frame: A record of ``FRAME_DTYPE``.
        agents_frame: Displayed agents, records of ``AGENT_DTYPE``; those hidden by a simulation are omitted.
        tls_frame: Traffic light faces of the frame, records of ``TL_FACE_DTYPE``.
    """
    return _frame_data(_layers_of(mapAPI), frame, agents_frame, tls_frame, facts=LogFacts())


def _get_frame_trajectories(
    frames: RecordArray, agents_frames: Sequence[RecordArray], track_ids: Iterable[int], frame_index: int
) -> list[TrajectoryVisualization]:
    """Return the trajectories of tracks from a frame on, followed by that of the AV.

    Args:
        frames: Frames of the scene.
        agents_frames: Agents of each frame, whatever their probabilities.
        track_ids: The tracks; frames without a track are omitted from its trajectory.
        frame_index: The frame, counted in ``frames``.
    """
    track_ids = np.array(list(track_ids), dtype=np.uint64)
    agents = np.concatenate(agents_frames[frame_index : frame_index + _AGENT_TRAJECTORY_FRAMES])
    order = np.argsort(agents["track_id"], kind="stable")  # by track and time
    sorted_ids, centroids_m = agents["track_id"][order], agents["centroid"][order]
    starts, ends = np.searchsorted(sorted_ids, track_ids), np.searchsorted(sorted_ids, track_ids, side="right")
    trajectories = [
        _trajectory(centroids_m[start:end], "blue", "agent_trajectory", track_id)
        for start, end, track_id in zip(starts.tolist(), ends.tolist(), track_ids.tolist(), strict=True)
    ]
    ego_m = frames["ego_translation"][frame_index : frame_index + _EGO_TRAJECTORY_FRAMES, :2]
    return [*trajectories, _trajectory(ego_m, "red", "ego_trajectory", _EGO_TRACK_ID)]


def _get_in_out_as_trajectories(in_out: InOut) -> tuple[Float64Array, Float64Array]:
    """Return the world positions of the log, only available steps, and of the model, (T, 2) and (M, 2)."""
    world_from_agent = in_out.inputs["world_from_agent"]
    replay_m = transform_points(in_out.inputs["target_positions"], world_from_agent)
    simulated_m = transform_points(in_out.outputs["positions"], world_from_agent)
    return replay_m[in_out.inputs["target_availabilities"] > 0], simulated_m


def _simulated_frames(
    sim_out: SimulatedScene,
    layers: MapLayers | None,
    tl_faces: RecordArray,
    threshold: float,
    *,
    facts: LogFacts,
    first_simulated: int,
) -> list[FrameVisualization]:
    """Return the contents of each frame, without trajectories.

    The action of the first item of ``agents_ins_outs`` was taken in the frame ``first_simulated``, so that the next
    frame is the first with simulated agents.
    """
    frames, agents_ins_outs = sim_out.simulated_ego, sim_out.agents_ins_outs
    all_agents_frames = filter_agents_by_frames(frames, sim_out.simulated_agents)
    agents_frames = [filter_agents_by_labels(agents, threshold) for agents in all_agents_frames]
    faces_frames = filter_tl_faces_by_frames(frames, tl_faces)
    moved_by_frame: list[set[int]] = [set() for _ in range(len(frames) + 1)]
    for index, in_outs in enumerate(agents_ins_outs, start=first_simulated + 1):
        moved_by_frame[index].update(int(in_out.track_id) for in_out in in_outs)
    rows = zip(frames, agents_frames, faces_frames, moved_by_frame[:-1], strict=True)
    return [_frame_data(layers, frame, agents, faces, moved, facts=facts) for frame, agents, faces, moved in rows]


def _in_outs_of(sim_out: SimulatedScene, num_frames: int) -> tuple[Sequence[InOut], Sequence[Sequence[InOut]]]:
    """Return the inputs and outputs of the AV and of agents, each for all frames or empty."""
    for name, items in (("ego_ins_outs", sim_out.ego_ins_outs), ("agents_ins_outs", sim_out.agents_ins_outs)):
        if len(items) not in (0, num_frames):
            raise InvalidArgumentError(
                f"sim_out.{name} has {len(items)} items; allowed are {num_frames}, one per frame, or none"
            )
    return sim_out.ego_ins_outs, sim_out.agents_ins_outs


def _layers_of(map_api: MapAPI | None) -> MapLayers | None:
    return None if map_api is None else MapLayers(map_api.arrays)


def _frame_data(
    layers: MapLayers | None,
    frame: RecordArray,
    agents: RecordArray,
    tl_faces: RecordArray,
    moved: Collection[int] = (),
    *,
    facts: LogFacts,
) -> FrameVisualization:
    """Return the contents of one frame, without trajectories; the speed of tracks in ``moved`` is unknown."""
    center_m = frame["ego_translation"][:2]
    ego_m = compute_box_corners(center_m, rotation33_as_yaw(frame["ego_rotation"]), facts.ego_extent_m[:2])
    ego = EgoVisualization(ego_m[:, 0], ego_m[:, 1], "red", float(center_m[0]), float(center_m[1]))
    # agents hidden by a simulation have no extent or negative probabilities
    is_hidden = (agents["extent"][:, :2] == 0).all(axis=1) | (agents["label_probabilities"] < 0).any(axis=1)
    agents = agents[~is_hidden]
    corners_m = compute_box_corners(agents["centroid"], agents["yaw"], agents["extent"])
    columns = zip(
        corners_m,
        agents["track_id"].tolist(),
        agents["label_probabilities"].argmax(axis=1).tolist(),
        agents["label_probabilities"].max(axis=1).tolist(),
        np.linalg.norm(agents["velocity"], axis=1).tolist(),
        strict=True,
    )
    shown: list[AgentVisualization] = []
    for corners, track_id, label, prob, speed_mps in columns:
        agent = MovingAgentVisualization(
            xs=corners[:, 0],
            ys=corners[:, 1],
            color=COLORS.get(PERCEPTION_LABELS[label], COLORS["PERCEPTION_LABEL_CAR"]),
            track_id=track_id,
            agent_type=PERCEPTION_LABELS[label],
            prob=prob,
        )
        agent.speed_mps = math.nan if track_id in moved else speed_mps
        shown.append(agent)
    return FrameVisualization(
        ego=ego,
        agents=shown,
        lanes=layers.lanes_around(center_m, tl_faces) if layers else [],
        crosswalks=layers.crosswalks_around(center_m) if layers else [],
        trajectories=[],
    )


def _agent_trajectories(in_outs: Sequence[InOut]) -> list[TrajectoryVisualization]:
    trajectories = []
    for in_out in in_outs:
        replay_m, simulated_m = _get_in_out_as_trajectories(in_out)
        trajectories.append(_trajectory(replay_m, "orange", "agent_replay", int(in_out.track_id)))
        trajectories.append(_trajectory(simulated_m, "purple", "agent_simulated", int(in_out.track_id)))
    return trajectories


def _trajectory(positions_m: Float64Array, color: str, label: str, track_id: int) -> TrajectoryVisualization:
    return TrajectoryVisualization(positions_m[:, 0], positions_m[:, 1], color, label, track_id)
