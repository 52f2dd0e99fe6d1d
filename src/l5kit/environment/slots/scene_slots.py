"""Scene slots: episodes of many environments whose agents a network drives, all of them in one call, or are hidden."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array, RecordArray
from l5kit.dataset.base import BaseEgoDataset
from l5kit.environment.slots.scene_slot import SceneSlot
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns
from l5kit.simulation.dataset import SimulationDataset
from l5kit.simulation.unroll import ClosedLoopSimulator


class SceneSlots:
    """Episodes of N environments, each a simulation dataset; in the place of ``LogSlots``.

    The network sees the agents of all of them as one batch. Where rounding hangs on the size of a batch, so do they.

    Args:
        num_slots: N.
        make_slot: Makes the episode of one environment, whose agents stay where they are.
        simulator: Has the network; None to replay agents.

    Attributes:
        dataset: Makes the samples of what is seen.
        recorded: World x, y and heading of the AVs as logged, float64 (N, F, 3).
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
        memory: ColumnMemory | None = None,  # noqa: ARG002 samples are made one by one
        *,
        dataset: BaseEgoDataset | None = None,
    ) -> SampleColumns:
        """Return samples of the AVs of slots (B,) in frames (B,); see ``LogSlots``."""
        none = np.zeros(1, np.int64)
        parts = [
            self._slots[slot].look(none, none + frame, dataset=dataset)
            for slot, frame in zip(slots.tolist(), frames.tolist(), strict=True)
        ]
        columns = {key: np.concatenate([np.asarray(part[key]) for part in parts]) for key in parts[0]}
        return SampleColumns.of_all(columns, len(parts))

    def set_ego(self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Let the network move the agents of slots (B,), then put their AVs into frames (B,); see ``LogSlots``."""
        if self._simulator is not None:
            with torch.no_grad():
                self._move_agents(slots, frames)
        none = np.zeros(1, np.int64)
        for index, (slot, frame) in enumerate(zip(slots.tolist(), frames.tolist(), strict=True)):
            part = slice(index, index + 1)
            self._slots[slot].set_ego(none, none + frame, positions_m[part], yaws_rad[part])

    def recorded_frames(self, slot: int, num_frames: int) -> RecordArray:
        """Return the first frames of an episode, a copy; see ``LogSlots``."""
        return self._slots[slot].recorded_frames(0, num_frames)

    def _move_agents(self, slots: Int64Array, frames: Int64Array) -> None:
        """Ask the network for the agents of all slots in the frames before, and write where they are in these."""
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
