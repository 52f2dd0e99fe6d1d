"""Scene slots: episodes of many environments whose agents one network drives in one batch, or that hide agents."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array, RecordArray
from l5kit.dataset.base import BaseEgoDataset
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.traffic.traffic_slots import DrivenRows
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.unroll import ClosedLoopSimulator, UnrollInputOutput


class SceneSlot(LogSlots):
    """Single episode over a log.

    It is as fast as :class:`LogSlots` while its agents are replayed and ``simulation`` is not read. After that
    observations are those of the simulation dataset.

    Args:
        seen: Dataset of the observed samples.
        dataset: Dataset of the simulated scenes.
        num_frames: Frames of the longest episode.
        sim_cfg: Options of the simulation; start and length are replaced by those of each episode.
        simulator: Simulator of agents; None if they are driven elsewhere.
        moves_ego: Whether the AV leaves the log.

    Attributes:
        agents_ins_outs: Inputs and outputs of the network for agents, a list for each step.
    """

    def __init__(
        self,
        seen: BaseEgoDataset,
        dataset: BaseEgoDataset,
        num_frames: int,
        *,
        sim_cfg: SimulationConfig,
        simulator: ClosedLoopSimulator | None,
        moves_ego: bool,
    ) -> None:
        super().__init__(seen, 1, num_frames)
        self.agents_ins_outs: list[list[UnrollInputOutput]] = []
        self._simulated, self._sim_cfg, self._simulator = dataset, sim_cfg, simulator
        self._moves_ego = moves_ego
        self._needs_simulation = not sim_cfg.use_agents_gt or sim_cfg.disable_new_agents
        self._simulation: SimulationDataset | None = None
        self._scene, self._first_frame, self._length = -1, 0, 0
        self._written: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    @property
    def simulation(self) -> SimulationDataset:
        """Current state of the episode."""
        if self._simulation is None:
            sim_cfg = replace(self._sim_cfg, start_frame_index=self._first_frame, num_simulation_steps=self._length)
            self._simulation = SimulationDataset.from_dataset_indices(self._simulated, [self._scene], sim_cfg)
            # replay all changes since the start of the episode
            for write, arguments in self._written:
                write(self._simulation, *arguments)
        return self._simulation

    def start(self, slot: int, scene: int, first_frame: int, num_frames: int) -> None:
        """Begin an episode; see :class:`LogSlots`."""
        super().start(slot, scene, first_frame, num_frames)
        self._scene, self._first_frame, self._length = scene, first_frame, num_frames
        self._written, self._simulation, self.agents_ins_outs = [], None, []
        if self._needs_simulation:
            _ = self.simulation

    def look(
        self,
        slots: Int64Array,
        frames: Int64Array,
        memory: ColumnMemory | None = None,
        *,
        dataset: BaseEgoDataset | None = None,
    ) -> SampleColumns:
        """Return the sample of the AV in a frame; see :class:`LogSlots`."""
        if self._simulation is None or dataset is not None:
            columns = super().look(slots, frames, memory, dataset=dataset)
            return SampleColumns({**columns.arrays, "scene_index": np.array([self._scene])}, columns.is_made)
        batch = self._simulation.ego_batch(int(frames[0]))
        return SampleColumns.of_all({key: value.numpy() for key, value in batch.items()}, 1)

    def set_ego(self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Move the agents by the network, then put the AV into a frame; see :class:`LogSlots`."""
        frame = int(frames[0])
        if self._simulator is not None and not self._sim_cfg.use_agents_gt:
            with torch.no_grad():
                seen = self._simulator.step_agents(self.simulation, frame - 1, frame if self._moves_ego else None)
            self.agents_ins_outs.append(seen.get(self._scene, []))
        if self._moves_ego:
            super().set_ego(slots, frames, positions_m, yaws_rad)
            self._write(SimulationDataset.set_ego, frame, 0, positions_m[:, None], yaws_rad[:, None])

    def set_others(self, slots: Int64Array, frames: Int64Array, driven: DrivenRows) -> None:
        """Write driven and hidden agents into a frame; see :class:`LogSlots`."""
        frame = int(frames[0])
        logged = self.agents_of_frame(0, frame)
        super().set_others(slots, frames, driven)
        now = self.agents_of_frame(0, frame)
        hidden = logged[np.isin(logged["track_id"], driven.track_ids[driven.is_hidden])]
        hidden["label_probabilities"] = 0  # hides the agent, as rows cannot be removed
        moved = now[np.isin(now["track_id"], driven.track_ids[~driven.is_hidden])]
        agents = {
            (self._scene, int(each["track_id"][row])): each[row : row + 1]
            for each in (moved, hidden)
            for row in range(len(each))
        }
        self._write(SimulationDataset.set_agents, frame, agents)

    def _write(self, write: Callable[..., None], *arguments: object) -> None:
        """Change the records of the simulation, now or, if it does not exist yet, when it is created."""
        self._written.append((write, arguments))
        if self._simulation is not None:
            write(self._simulation, *arguments)


class SceneSlots:
    """Episodes of N environments, each a simulation dataset; a substitute for ``LogSlots``.

    The network gets the agents of all of them in one batch. Results can differ in the last bits with the batch size.

    Args:
        num_slots: N.
        make_slot: Function that creates the episode of one environment, without a simulator.
        simulator: Simulator with the network; None to replay agents.

    Attributes:
        dataset: Dataset of the observed samples.
        recorded: Logged world x, y and heading of the AVs, float64 (N, F, 3).
    """

    def __init__(
        self, num_slots: int, make_slot: Callable[[], SceneSlot], simulator: ClosedLoopSimulator | None
    ) -> None:
        self._slots = [make_slot() for _ in range(num_slots)]
        self._simulator = simulator
        self.dataset = self._slots[0].dataset
        self.recorded: Float64Array = np.concatenate([slot.recorded for slot in self._slots])

    def start(self, slot: int, scene: int, first_frame: int, num_frames: int) -> None:
        """Begin an episode; see ``LogSlots``."""
        self._slots[slot].start(0, scene, first_frame, num_frames)
        self.recorded[slot] = self._slots[slot].recorded[0]

    def look(
        self,
        slots: Int64Array,
        frames: Int64Array,
        memory: ColumnMemory | None = None,  # noqa: ARG002 samples are built one by one
    ) -> SampleColumns:
        """Return samples of the AVs of slots (B,) in frames (B,); see ``LogSlots``."""
        none = np.zeros(1, np.int64)
        parts = [
            self._slots[slot].look(none, none + frame)
            for slot, frame in zip(slots.tolist(), frames.tolist(), strict=True)
        ]
        columns = {key: np.concatenate([np.asarray(part[key]) for part in parts]) for key in parts[0]}
        return SampleColumns.of_all(columns, len(parts))

    def set_ego(self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Move the agents of slots (B,) by the network, then put their AVs into frames (B,); see ``LogSlots``."""
        if self._simulator is not None:
            with torch.no_grad():
                self._move_agents(slots, frames)
        none = np.zeros(1, np.int64)
        for index, (slot, frame) in enumerate(zip(slots.tolist(), frames.tolist(), strict=True)):
            part = slice(index, index + 1)
            self._slots[slot].set_ego(none, none + frame, positions_m[part], yaws_rad[part])

    def recorded_frames(self, slot: int, num_frames: int) -> RecordArray:
        """Return a copy of the first frames of an episode; see ``LogSlots``."""
        return self._slots[slot].recorded_frames(0, num_frames)

    def _move_agents(self, slots: Int64Array, frames: Int64Array) -> None:
        """Move the agents of slots into frames (B,), by the outputs of the network for the frames before."""
        assert self._simulator is not None
        seen: list[tuple[SimulationDataset, int, dict[str, torch.Tensor]]] = []
        for slot, frame in zip(slots.tolist(), frames.tolist(), strict=True):
            simulation = self._slots[slot].simulation
            batch = simulation.agents_batch(frame - 1)
            if batch is not None:
                seen.append((simulation, frame, batch))
        if not seen:
            return

        # one call of the network for all of them
        whole = {key: torch.cat([batch[key] for _, _, batch in seen]) for key in seen[0][2]}
        inputs, outputs = self._simulator.ask_agents(whole)
        bounds = np.cumsum([0, *(len(batch["track_id"]) for _, _, batch in seen)]).tolist()
        for (simulation, frame, _), (begin, end) in zip(seen, pairwise(bounds), strict=True):
            of_slot = ({key: value[begin:end] for key, value in each.items()} for each in (inputs, outputs))
            self._simulator.update_agents(simulation, frame, *of_slot)
