"""Dataset of a simulation: a batch of scenes that change frame by frame, and samples of their current state."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from l5kit._types import Column, Int64Array, NumericArray, RecordArray, Sample
from l5kit.configs.parameters import read_filter_agents_threshold
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.record_bytes import join_records
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import SampleBatch, collate, tensors_of
from l5kit.dataset.sample_indices import SampleIndices
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError, L5KitError
from l5kit.geometry.transform import yaw_as_rotation33
from l5kit.lanes.routes import FollowedRoutes
from l5kit.simulation.buffered_scene import BufferedScene
from l5kit.simulation.engine.agent_control import AgentControl, DrivenTracks
from l5kit.simulation.engine.agent_rows import AgentsNow, read_agents
from l5kit.simulation.engine.buffer_samples import samples_of_buffer, unperturbed
from l5kit.simulation.engine.track_table import Classes, TrackTable, require_classes
from l5kit.simulation.utils import disable_agents, get_frames_subset, hide_records, insert_agent

if TYPE_CHECKING:
    import torch

__all__ = ["SimulationConfig", "SimulationDataset"]

Controlled = tuple[int, int]
"""Scene and track of an agent."""


@dataclass
class SimulationConfig:
    """Options of a simulation.

    Attributes:
        use_ego_gt: Whether the AV is replayed from the log.
        use_agents_gt: Whether the agents are replayed from the log.
        disable_new_agents: Whether agents that would not be controlled in the first frame are hidden, in the recorded
            scenes as well. This includes agents that are not cars, and applies to replayed agents, too.
        distance_th_far: A controlled car stays controlled while it is closer to the AV than this, metres.
        distance_th_close: An uncontrolled car becomes controlled when it is closer to the AV than this, metres.
        start_frame_index: First frame of each scene; earlier frames are cut off and not available as history.
        num_simulation_steps: Number of frames; None for all up to the end of the shortest scene.
        show_info: Whether to show a progress bar.
        controlled_classes: Agents that may be controlled: ``cars`` by the label of each row, as in L5Kit 1.5; all
            ``vehicles`` or ``all`` road users by the majority class of their track.
        keep_labels_and_velocities: Whether controlled agents keep label and class and get the velocity of their last
            step; otherwise they become cars without velocity, as in 1.5.
    """

    use_ego_gt: bool = False
    use_agents_gt: bool = False
    disable_new_agents: bool = False
    distance_th_far: float = 30.0
    distance_th_close: float = 15.0
    start_frame_index: int = 0
    num_simulation_steps: int | None = None
    show_info: bool = False
    controlled_classes: Classes = "cars"
    keep_labels_and_velocities: bool = False

    def __post_init__(self) -> None:
        require_classes("controlled_classes", self.controlled_classes)


class SimulationDataset:
    """Batch of scenes that a simulation changes frame by frame, with samples of their current state.

    All scenes share one record buffer. The datasets that are passed in become views of it, cut to the simulated frames
    (their ``dataset`` and ``cumulative_sizes`` are replaced).

    Args:
        scene_dataset_batch: A dataset with one scene in memory for each scene index, as returned by
            ``get_scene_dataset`` of the datasets of :mod:`l5kit.dataset`, or anything with ``dataset``, ``cfg``,
            ``cumulative_sizes``, indexing and ``get_frame``. Perturbations are skipped, with a ``RuntimeWarning``.
        sim_cfg: Simulation options.

    Attributes:
        scene_dataset_batch: Datasets by scene index, in their current state.
        recorded_scene_dataset_batch: Datasets at the start of the simulation, after agents were hidden.
        sim_cfg: Simulation options.

    Raises:
        InvalidArgumentError: There are no scenes, or a scene lacks the requested frames.
    """

    def __init__(self, scene_dataset_batch: Mapping[int, Any], sim_cfg: SimulationConfig) -> None:
        if len(scene_dataset_batch) == 0:
            raise InvalidArgumentError("scene_dataset_batch must hold at least one scene, got none")
        self.sim_cfg = sim_cfg
        self.scene_dataset_batch = dict(scene_dataset_batch)
        for scene, each in scene_dataset_batch.items():
            self.scene_dataset_batch[scene] = unperturbed(each, stacklevel=3)
        thresholds = {read_filter_agents_threshold(each.cfg) for each in self.scene_dataset_batch.values()}
        if len(thresholds) > 1:
            raise InvalidArgumentError(
                f"filter_agents_threshold of scene_dataset_batch is {sorted(thresholds)}; simulate scenes of one value "
                "at a time"
            )
        self._threshold = float(thresholds.pop())
        near_m, far_m = (max(0.0, each) for each in (sim_cfg.distance_th_close, sim_cfg.distance_th_far))
        self._control = AgentControl(sim_cfg.controlled_classes, near_m, far_m)

        # routes are computed from the whole scenes, before these are cut
        maker = self._maker()
        self._routes: FollowedRoutes | None = None
        if maker is not None and maker.route_map is not None:
            self._routes = FollowedRoutes.of_scenes(
                [np.asarray(each.dataset.frames) for each in self.scene_dataset_batch.values()],
                first_frame=sim_cfg.start_frame_index,
                route_map=maker.route_map,
                step_time_s=maker.route_step_time_s,
            )
        subsets = self._cut()
        facts = next(iter(subsets.values())).facts
        self._buffer = RecordBuffer([SceneRecords.of_scene_dataset(each) for each in subsets.values()], facts=facts)
        self._scene_ids = np.array(list(subsets), np.int64)
        self._is_known = False  # tracks are read on the first query for controlled agents
        self._take_up_tracks([], set())

        # the datasets become views of the buffer; copies of them keep the scenes as recorded
        self._position = {scene: index for index, scene in enumerate(subsets)}
        self._faces: list[BufferedScene] = []
        self.recorded_scene_dataset_batch: dict[int, Any] = {}
        for index, (scene, dataset) in enumerate(self.scene_dataset_batch.items()):
            recorded = copy.copy(dataset)
            _set_log(recorded, subsets[scene])
            self.recorded_scene_dataset_batch[scene] = recorded
            self._faces.append(BufferedScene(self._buffer, index))
            _set_log(dataset, self._faces[-1])
        if sim_cfg.disable_new_agents:
            self._hide_new_agents(subsets)

    @staticmethod
    def from_dataset_indices(
        dataset: Any, scene_indices: Sequence[int], sim_cfg: SimulationConfig
    ) -> "SimulationDataset":
        """Return a simulation dataset of some scenes.

        Args:
            dataset: A dataset of :mod:`l5kit.dataset`, or a compatible one; it is not changed.
            scene_indices: Indices of the scenes, in the order of the batch.
            sim_cfg: Simulation options.

        Raises:
            InvalidArgumentError: A scene is listed twice, or does not exist.
        """
        if len(set(scene_indices)) != len(scene_indices):
            raise InvalidArgumentError(f"scene_indices must name each scene once, got {list(scene_indices)}")
        num_scenes = len(dataset.dataset.scenes)
        for scene in scene_indices:
            if not 0 <= scene < num_scenes:
                raise InvalidArgumentError(f"scene_indices has {scene}; there are scenes 0 to {num_scenes - 1}")
        plain = unperturbed(dataset, stacklevel=4)
        take = plain.view_scene if isinstance(plain, BaseEgoDataset) else plain.get_scene_dataset
        return SimulationDataset({scene: take(scene) for scene in scene_indices}, sim_cfg)  # copies what it changes

    def get_min_len(self) -> int:
        """Return the number of frames of the shortest scene."""
        return int((self._buffer.scene_stops - self._buffer.scene_starts).min())

    def __len__(self) -> int:
        return self.get_min_len()

    def rasterise_frame_batch(self, state_index: int) -> list[Sample]:
        """Return the AV sample of a frame for each scene, in the order of the scenes.

        Args:
            state_index: Frame index; a negative one counts from the end.

        Raises:
            IndexOutOfRangeError: There is no such frame.
            SampleError: A dataset without batched samples fails to build one.
        """
        state_index += len(self) if state_index < 0 else 0
        columns = self._ego_columns(state_index)
        if columns is not None:
            return SampleBatch(columns)
        samples = [each[state_index] for each in self.scene_dataset_batch.values()]
        return [self._of_scene(sample, scene) for sample, scene in zip(samples, self._position, strict=True)]

    def ego_batch(self, state_index: int) -> "dict[str, torch.Tensor]":
        """Return the collated :meth:`rasterise_frame_batch`; single samples are avoided where possible.

        Raises:
            IndexOutOfRangeError: There is no such frame.
            SampleError: A dataset without batched samples fails to build one.
        """
        columns = self._ego_columns(state_index)
        batch: dict[str, torch.Tensor] = (
            collate(self.rasterise_frame_batch(state_index)) if columns is None else tensors_of(columns)
        )
        return batch

    def ego_targets(self, state_index: int) -> dict[str, NumericArray]:
        """Return :meth:`ego_batch` as arrays, without images; where possible these are not even drawn.

        Raises:
            IndexOutOfRangeError: There is no such frame.
        """
        self._require_frame(state_index)
        maker = self._maker()
        if maker is None:
            batch = self.ego_batch(state_index)
            return {key: value.numpy() for key, value in batch.items() if key != "image"}
        columns = self._make_columns(maker.without_pictures(), state_index, np.arange(len(self._faces)))
        return {key: np.asarray(value) for key, value in columns.items()}

    def rasterise_agents_frame_batch(self, state_index: int) -> dict[Controlled, Sample]:
        """Return samples of the agents controlled in a frame, by scene and track, and record these as controlled.

        Raises:
            IndexOutOfRangeError: There is no such frame.
        """
        keys, columns = self._agent_columns(state_index)
        if columns is not None:
            return dict(zip(keys, SampleBatch(columns), strict=True))
        return {key: self._single(key, state_index) for key in keys}

    def agents_batch(self, state_index: int) -> "dict[str, torch.Tensor] | None":
        """Return the collated :meth:`rasterise_agents_frame_batch`; None if no agent is controlled.

        Raises:
            IndexOutOfRangeError: There is no such frame.
        """
        keys, columns = self._agent_columns(state_index)
        if columns is not None:
            return tensors_of(columns)
        batch: dict[str, torch.Tensor] | None = (
            collate([self._single(key, state_index) for key in keys]) if keys else None
        )
        return batch

    def _ego_columns(self, state_index: int) -> dict[str, Column] | None:
        """Return AV samples of a frame as columns; None if samples are built one by one."""
        self._require_frame(state_index)
        self._take_over_logs()
        maker = self._maker()
        if maker is None:
            return None
        return self._make_columns(maker, state_index, np.arange(len(self._faces)))

    def _agent_columns(self, state_index: int) -> tuple[list[Controlled], dict[str, Column] | None]:
        """Return the agents controlled in a frame, and their samples as columns; record these agents as controlled.

        The columns are None if there are no agents, or samples are built one by one.
        """
        self._require_frame(state_index)
        agents, chosen = self._find_controlled(state_index)
        keys = self._keys_of(agents.track_rows[chosen])
        maker = self._maker() if keys else None
        chosen_rows = agents.scenes_of_rows[chosen], agents.buffer_rows[chosen]
        columns = None if maker is None else self._make_columns(maker, state_index, *chosen_rows)
        self._driven.note(agents.track_rows[chosen])
        return keys, columns

    @property
    def _agents_tracked(self) -> set[Controlled]:
        """Scene and track of the agents that were controlled last; the name is that of 1.5."""
        return set(self._keys_of(np.flatnonzero(self._driven.is_driven)))

    def _keys_of(self, tracks: Int64Array) -> list[Controlled]:
        """Return scene and track id of rows (K,) of the track table."""
        scenes = self._scene_ids[self._tracks.scenes_of_tracks[tracks]]
        return list(zip(scenes.tolist(), self._tracks.track_ids[tracks].tolist(), strict=True))

    def set_ego(
        self, state_index: int, output_index: int, ego_translations: NumericArray, ego_yaws: NumericArray
    ) -> None:
        """Write the pose of the AV into a frame of each scene; z is kept, and the rotation becomes one about z.

        Args:
            state_index: Frame to write.
            output_index: Index of the pose to write, of T.
            ego_translations: World x and y, (S, T, 2).
            ego_yaws: World headings, (S, T).

        Raises:
            InvalidArgumentError: The number of poses differs from that of scenes, or there is no such frame.
        """
        if len(ego_translations) != len(ego_yaws):
            raise InvalidArgumentError(
                f"ego_translations and ego_yaws must have one entry per scene each, got {len(ego_translations)} and "
                f"{len(ego_yaws)}"
            )
        if len(ego_yaws) != len(self._faces):
            raise InvalidArgumentError(
                f"ego_translations and ego_yaws must cover all {len(self._faces)} scenes, got {len(ego_yaws)}"
            )
        self._require_frame(state_index, InvalidArgumentError)
        positions_m = np.asarray(ego_translations)[:, output_index, :2].astype(np.float64)
        yaws_rad = np.asarray(ego_yaws)[:, output_index].astype(np.float64)
        self._take_over_logs()
        self._buffer.set_ego(self._frame_rows(state_index), positions_m, yaws_rad)
        for index, face in enumerate(self._faces):
            if face.is_taken:
                face.frames["ego_translation"][state_index, :2] = positions_m[index]
                face.frames["ego_rotation"][state_index] = yaw_as_rotation33(float(yaws_rad[index]))

    def set_agents(self, state_index: int, agents_infos: Mapping[Controlled, RecordArray]) -> None:
        """Put agents into a frame: over the row of their track, or after the other agents.

        Args:
            state_index: Frame to write.
            agents_infos: One record, ``AGENT_DTYPE``, (1,), by scene and track.

        Raises:
            InvalidArgumentError: There is no such scene or frame, or a value is not a single record.
        """
        self._require_frame(state_index, InvalidArgumentError)
        for (scene, _), agent in agents_infos.items():
            if scene not in self._position:
                raise InvalidArgumentError(f"agents_infos has scene {scene}; there are {list(self._position)}")
            if np.shape(agent) != (1,):
                raise InvalidArgumentError(f"agents_infos must hold records of shape (1,), got {np.shape(agent)}")
        if self.sim_cfg.keep_labels_and_velocities and state_index > 0:
            # copies of the records get the label of the previous frame, and the velocity of their step
            self._put_back()
            keys = list(agents_infos)
            before = self._buffer.frame_rows([self._position[scene] for scene, _ in keys], state_index - 1)
            rows = self._buffer.find_agents(before, np.array([track for _, track in keys], np.uint64))
            agents_infos = {key: agent.copy() for key, agent in agents_infos.items()}
            for agent, row in zip(agents_infos.values(), rows.tolist(), strict=True):
                if row >= 0:
                    last, step_time_s = self._buffer.agents[row], self._buffer.facts.step_time_s
                    agent["label_probabilities"] = last["label_probabilities"]
                    agent["velocity"] = (agent["centroid"] - last["centroid"]) / step_time_s
        self._take_over_logs()

        # Scenes with handed out arrays are written there and copied to the buffer later; all others are written at
        # once.
        buffered: list[int] = []
        records: list[RecordArray] = []
        for (scene, _), agent in agents_infos.items():
            face = self._faces[self._position[scene]]
            if face.is_taken:
                insert_agent(agent, state_index, face)
            else:
                buffered.append(self._position[scene])
                records.append(agent)
        if buffered:
            self._buffer.put_agents(self._buffer.frame_rows(buffered, state_index), join_records(records))

    def _cut(self) -> dict[int, Any]:
        """Return the simulated frames of each scene."""
        logs = {scene: each.dataset for scene, each in self.scene_dataset_batch.items()}
        shortest = min(len(log.frames) for log in logs.values())
        start, num_steps = self.sim_cfg.start_frame_index, self.sim_cfg.num_simulation_steps
        end = shortest if num_steps is None else start + num_steps
        if end > shortest:
            raise InvalidArgumentError(
                f"start_frame_index {start} and num_simulation_steps {num_steps} end at frame {end}, but the shortest "
                f"scene has {shortest} frames"
            )
        return {scene: get_frames_subset(log, start, end) for scene, log in logs.items()}

    def _take_up_tracks(self, scenes: Sequence[SceneRecords], tracked: set[Controlled]) -> None:
        """Read the tracks of scenes, those that may be controlled, and those that are controlled now."""
        self._tracks = TrackTable.of_scenes(scenes, threshold=self._threshold)
        self._driven = DrivenTracks.of(self._tracks.is_of_classes(self.sim_cfg.controlled_classes), self._threshold)
        self._driven.is_driven[:] = [key in tracked for key in self._keys_of(np.arange(len(self._tracks)))]

    def _hide_new_agents(self, subsets: Mapping[int, ChunkedDataset]) -> None:
        """Hide agents that would not be controlled in the first frame, in the buffer and in the recorded scenes."""
        agents, chosen = self._find_controlled(0)
        is_hidden = np.ones(len(self._tracks), np.bool_)
        is_hidden[agents.track_rows[chosen]] = False
        buffer, tracks = self._buffer, self._tracks
        for index, subset in enumerate(subsets.values()):
            part = slice(*tracks.starts[index : index + 2])
            track_ids, is_away = tracks.track_ids[part], is_hidden[part]

            # rows of all frames of the scene in the buffer, selected like in disable_agents
            intervals = buffer.frames[AGENT_INTERVAL][buffer.scene_starts[index] : buffer.scene_stops[index]]
            rows = expand_ranges(intervals[:, 0], intervals[:, 1] - intervals[:, 0])
            hide_records(buffer.agents, rows[np.isin(buffer.agents["track_id"][rows], track_ids[is_away])])
            disable_agents(subset, track_ids[~is_away])

    def _find_controlled(self, state_index: int) -> tuple[AgentsNow, Int64Array]:
        """Return the agents of a frame of all scenes, and the rows of those that are controlled."""
        self._put_back()
        frames = self._buffer.frames[self._frame_rows(state_index)]
        if not self._is_known:
            logs = [each.dataset for each in self.recorded_scene_dataset_batch.values()]
            self._take_up_tracks([SceneRecords.of_scene_dataset(log) for log in logs], set())
            self._is_known = True
        agents = self._agents_of(frames)
        if (agents.track_rows < 0).any():  # a user has inserted tracks that the log lacks
            scenes = [self._buffer.scene(index) for index in range(len(frames))]
            self._take_up_tracks(scenes, self._agents_tracked)
            agents = self._agents_of(frames)
        positions_m = frames["ego_translation"][:, :2]
        return agents, self._control.choose(agents, positions_m, records=self._buffer.agents, tracks=self._driven)

    def _agents_of(self, frames: RecordArray) -> AgentsNow:
        scenes = np.arange(len(frames))
        return read_agents(self._buffer.agents, frames, self._tracks, scenes, self._threshold)

    def _maker(self) -> BaseEgoDataset | None:
        """Return a dataset that builds samples of all scenes at once; None if they are built one by one."""
        first, *others = self.scene_dataset_batch.values()
        if not isinstance(first, BaseEgoDataset) or not first.makes_columns:
            return None
        same = (type(each) is type(first) and each.sample_function is first.sample_function for each in others)
        return first if all(same) and all(each.cfg is first.cfg for each in others) else None

    def _make_columns(
        self, maker: BaseEgoDataset, state_index: int, scene_indices: Int64Array, rows: Int64Array | None = None
    ) -> dict[str, Column]:
        """Return samples (B,) of one frame: of the AV of each scene, or of agents if their rows (B,) are given."""
        self._put_back()
        samples = SampleIndices(scene_indices, np.full(len(scene_indices), state_index), rows)
        names, routes = self._scene_ids, self._routes
        return dict(samples_of_buffer(maker, self._buffer, samples, scene_indices=names, routes=routes).arrays)

    def _single(self, key: Controlled, state_index: int) -> Sample:
        scene, track_id = key
        sample = self.scene_dataset_batch[scene].get_frame(scene_index=0, state_index=state_index, track_id=track_id)
        return self._of_scene(sample, scene)

    @staticmethod
    def _of_scene(sample: Sample, scene: int) -> Sample:
        return sample | {"scene_index": scene}

    def _put_back(self) -> None:
        """Copy changes that users may have made to datasets of scenes to the buffer."""
        self._take_over_logs()
        for face in self._faces:
            face.put_back()

    def _take_over_logs(self) -> None:
        """Take over logs that a user has assigned to the datasets of scenes."""
        for face, dataset in zip(self._faces, self.scene_dataset_batch.values(), strict=True):
            log = dataset.dataset
            if log is not face:
                face.frames, face.agents, face.tl_faces = log.frames, log.agents, log.tl_faces
                dataset.dataset = face

    def _frame_rows(self, state_index: int) -> Int64Array:
        rows: Int64Array = self._buffer.scene_starts + state_index
        return rows

    def _require_frame(self, state_index: int, error: type[L5KitError] = IndexOutOfRangeError) -> None:
        if not 0 <= state_index < len(self):
            raise error(f"state_index is {state_index}; there are frames 0 to {len(self) - 1}")


def _set_log(dataset: Any, log: ChunkedDataset) -> None:
    dataset.dataset = log
    dataset.cumulative_sizes = log.scenes[FRAME_INTERVAL][:, 1].copy()
