"""Dataset of a simulation: scenes of a batch that change frame by frame, and the samples of what they are now."""

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
    """What is simulated, and whom a model of agents controls.

    Attributes:
        use_ego_gt: Whether the AV is replayed from the log.
        use_agents_gt: Whether the agents are replayed from the log.
        disable_new_agents: Whether every agent is hidden that would not be controlled in the first frame: also those
            that are no cars, and with replayed agents too. The recorded scenes lack them as well.
        distance_th_far: A car that is controlled stays so while it is closer to the AV than this, metres.
        distance_th_close: A car that is not controlled yet becomes so when it is closer than this, metres.
        start_frame_index: First frame of each scene; those before are cut off, so that nothing has a past there.
        num_simulation_steps: Number of frames; None for all up to the end of the shortest scene.
        show_info: Whether a bar is shown.
        controlled_classes: Who may be controlled: ``cars`` by the label of each row, as in L5Kit 1.5; all ``vehicles``,
            or ``all`` road users, by the class that most rows of a track have.
        keep_labels_and_velocities: Whether agents that are controlled keep label and class and get the velocity of
            their last step; else they are cars for sure that have none, as in 1.5.
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
    """Scenes of a batch that a simulation changes frame by frame, and samples of what they are now.

    The scenes lie together in one record buffer; the datasets that are passed in become faces of it, and are cut to
    the frames that are simulated (``dataset`` and ``cumulative_sizes`` of each are replaced).

    Args:
        scene_dataset_batch: A dataset of one scene in memory for each scene index, as ``get_scene_dataset`` of the
            datasets of :mod:`l5kit.dataset` returns it, or anything with ``dataset``, ``cfg``, ``cumulative_sizes``,
            indexing and ``get_frame``. A perturbation is left out, with a ``RuntimeWarning``.
        sim_cfg: What is simulated.

    Attributes:
        scene_dataset_batch: The datasets, by scene index, as they are now.
        recorded_scene_dataset_batch: The datasets as they were at the start, after agents were hidden.
        sim_cfg: What is simulated.

    Raises:
        InvalidArgumentError: There is no scene, or one of them does not have the frames.
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

        # routes are those of the scenes as a whole, before these are cut
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
        self._is_known = False  # tracks are read when somebody first asks who is controlled
        self._take_up_tracks([], set())

        # the datasets become faces of the buffer; copies of them keep the scenes as they were
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
        """Return the dataset of some scenes.

        Args:
            dataset: A dataset of :mod:`l5kit.dataset`, or one like it; it is not changed.
            scene_indices: The scenes, in the order of the batch.
            sim_cfg: What is simulated.

        Raises:
            InvalidArgumentError: A scene is named twice, or is not there.
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
        """Return the sample of the AV in a frame of each scene, in the order of the scenes.

        Args:
            state_index: The frame; a negative one is counted from the end.

        Raises:
            IndexOutOfRangeError: There is no such frame.
            SampleError: A dataset that makes its samples one by one cannot make one.
        """
        state_index += len(self) if state_index < 0 else 0
        columns = self._ego_columns(state_index)
        if columns is not None:
            return SampleBatch(columns)
        samples = [each[state_index] for each in self.scene_dataset_batch.values()]
        return [self._of_scene(sample, scene) for sample, scene in zip(samples, self._position, strict=True)]

    def ego_batch(self, state_index: int) -> "dict[str, torch.Tensor]":
        """Return what ``collate`` makes of :meth:`rasterise_frame_batch`, without single samples where possible.

        Raises:
            IndexOutOfRangeError: There is no such frame.
            SampleError: A dataset that makes its samples one by one cannot make one.
        """
        columns = self._ego_columns(state_index)
        batch: dict[str, torch.Tensor] = (
            collate(self.rasterise_frame_batch(state_index)) if columns is None else tensors_of(columns)
        )
        return batch

    def ego_targets(self, state_index: int) -> dict[str, NumericArray]:
        """Return :meth:`ego_batch` as arrays, without pictures, which are not even drawn where that can be avoided.

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
        """Return the samples of the agents that are controlled in a frame, by scene and track; they are tracked then.

        Raises:
            IndexOutOfRangeError: There is no such frame.
        """
        keys, columns = self._agent_columns(state_index)
        if columns is not None:
            return dict(zip(keys, SampleBatch(columns), strict=True))
        return {key: self._single(key, state_index) for key in keys}

    def agents_batch(self, state_index: int) -> "dict[str, torch.Tensor] | None":
        """Return what ``collate`` makes of :meth:`rasterise_agents_frame_batch`; None if no agent is controlled.

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
        """Return the samples of the AV in a frame as columns; None where they are made one by one."""
        self._require_frame(state_index)
        self._take_over_logs()
        maker = self._maker()
        if maker is None:
            return None
        return self._make_columns(maker, state_index, np.arange(len(self._faces)))

    def _agent_columns(self, state_index: int) -> tuple[list[Controlled], dict[str, Column] | None]:
        """Return the agents that are controlled in a frame, which are tracked then, and their samples as columns.

        There are no columns where there are no agents, or their samples are made one by one.
        """
        self._require_frame(state_index)
        agents, chosen = self._find_controlled(state_index)
        keys = self._keys_of(agents.track_rows[chosen])
        maker = self._maker() if keys else None
        of_chosen = agents.scenes_of_rows[chosen], agents.buffer_rows[chosen]
        columns = None if maker is None else self._make_columns(maker, state_index, *of_chosen)
        self._driven.note(agents.track_rows[chosen])
        return keys, columns

    @property
    def _agents_tracked(self) -> set[Controlled]:
        """Scene and track of the agents that were controlled last, under the name that 1.5 has."""
        return set(self._keys_of(np.flatnonzero(self._driven.is_driven)))

    def _keys_of(self, tracks: Int64Array) -> list[Controlled]:
        """Return scene and track id of rows (K,) of the table of tracks."""
        scenes = self._scene_ids[self._tracks.scenes_of_tracks[tracks]]
        return list(zip(scenes.tolist(), self._tracks.track_ids[tracks].tolist(), strict=True))

    def set_ego(
        self, state_index: int, output_index: int, ego_translations: NumericArray, ego_yaws: NumericArray
    ) -> None:
        """Write the pose of the AV into a frame of each scene; z stays, and the rotation becomes one about z.

        Args:
            state_index: The frame.
            output_index: Which of the T poses is written.
            ego_translations: World x and y, (S, T, 2).
            ego_yaws: World headings, (S, T).

        Raises:
            InvalidArgumentError: There are other numbers of poses than scenes, or no such frame.
        """
        if len(ego_translations) != len(ego_yaws):
            raise InvalidArgumentError(
                f"ego_translations and ego_yaws must be of as many scenes, got {len(ego_translations)} and "
                f"{len(ego_yaws)}"
            )
        if len(ego_yaws) != len(self._faces):
            raise InvalidArgumentError(
                f"ego_translations and ego_yaws must be of all {len(self._faces)} scenes, got {len(ego_yaws)}"
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
        """Put agents into a frame: over the row of their track, or behind the other agents.

        Args:
            state_index: The frame.
            agents_infos: One record, ``AGENT_DTYPE``, (1,), by scene and track.

        Raises:
            InvalidArgumentError: There is no such scene or frame, or a value is not one record.
        """
        self._require_frame(state_index, InvalidArgumentError)
        for (scene, _), agent in agents_infos.items():
            if scene not in self._position:
                raise InvalidArgumentError(f"agents_infos has scene {scene}; there are {list(self._position)}")
            if np.shape(agent) != (1,):
                raise InvalidArgumentError(f"agents_infos must hold records of shape (1,), got {np.shape(agent)}")
        if self.sim_cfg.keep_labels_and_velocities and state_index > 0:
            # copies of them get the labels that they had in the frame before, and the velocity of their step
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

        # where arrays were handed out they hold the scene, and the buffer gets it later; all others at once
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
        """Return the frames that are simulated of each scene."""
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
        """Read which tracks scenes have, and who of them may be controlled and is."""
        self._tracks = TrackTable.of_scenes(scenes, threshold=self._threshold)
        self._driven = DrivenTracks.of(self._tracks.is_of_classes(self.sim_cfg.controlled_classes), self._threshold)
        self._driven.is_driven[:] = [key in tracked for key in self._keys_of(np.arange(len(self._tracks)))]

    def _hide_new_agents(self, subsets: Mapping[int, ChunkedDataset]) -> None:
        """Hide all who would not be controlled in the first frames, in the buffer and in what was recorded."""
        agents, chosen = self._find_controlled(0)
        is_hidden = np.ones(len(self._tracks), np.bool_)
        is_hidden[agents.track_rows[chosen]] = False
        buffer, tracks = self._buffer, self._tracks
        for index, subset in enumerate(subsets.values()):
            part = slice(*tracks.starts[index : index + 2])
            track_ids, is_away = tracks.track_ids[part], is_hidden[part]

            # the rows of all frames of the scene in the buffer, by the rule of disable_agents
            intervals = buffer.frames[AGENT_INTERVAL][buffer.scene_starts[index] : buffer.scene_stops[index]]
            rows = expand_ranges(intervals[:, 0], intervals[:, 1] - intervals[:, 0])
            hide_records(buffer.agents, rows[np.isin(buffer.agents["track_id"][rows], track_ids[is_away])])
            disable_agents(subset, track_ids[~is_away])

    def _find_controlled(self, state_index: int) -> tuple[AgentsNow, Int64Array]:
        """Return the agents of a frame of all scenes, and which of them are controlled."""
        self._put_back()
        frames = self._buffer.frames[self._frame_rows(state_index)]
        if not self._is_known:
            logs = [each.dataset for each in self.recorded_scene_dataset_batch.values()]
            self._take_up_tracks([SceneRecords.of_scene_dataset(log) for log in logs], set())
            self._is_known = True
        agents = self._agents_of(frames)
        if (agents.track_rows < 0).any():  # somebody has put in tracks that the log does not have
            scenes = [self._buffer.scene(index) for index in range(len(frames))]
            self._take_up_tracks(scenes, self._agents_tracked)
            agents = self._agents_of(frames)
        positions_m = frames["ego_translation"][:, :2]
        return agents, self._control.choose(agents, positions_m, records=self._buffer.agents, tracks=self._driven)

    def _agents_of(self, frames: RecordArray) -> AgentsNow:
        scenes = np.arange(len(frames))
        return read_agents(self._buffer.agents, frames, self._tracks, scenes, self._threshold)

    def _maker(self) -> BaseEgoDataset | None:
        """Return a dataset that makes the samples of all scenes at once; None if they are made one by one."""
        first, *others = self.scene_dataset_batch.values()
        if not isinstance(first, BaseEgoDataset) or not first.makes_columns:
            return None
        same = (type(each) is type(first) and each.sample_function is first.sample_function for each in others)
        return first if all(same) and all(each.cfg is first.cfg for each in others) else None

    def _make_columns(
        self, maker: BaseEgoDataset, state_index: int, scene_indices: Int64Array, rows: Int64Array | None = None
    ) -> dict[str, Column]:
        """Return samples of a frame of scenes (B,), those of the AV or of rows of agents (B,)."""
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
        """Copy what somebody may have written into datasets of scenes to the buffer."""
        self._take_over_logs()
        for face in self._faces:
            face.put_back()

    def _take_over_logs(self) -> None:
        """Take the arrays of logs that somebody has put in the place of the simulation's own."""
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
