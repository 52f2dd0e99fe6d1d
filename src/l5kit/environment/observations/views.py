"""Views of samples in environments: observations of many episodes, one array for each key."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array
from numpy.typing import DTypeLike

from l5kit._types import Int64Array, NumericArray
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.dataset.base import BaseEgoDataset
from l5kit.environment.gym_types import AnySpace
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.slots.scene_slots import SceneSlots
from l5kit.errors import L5KitError
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns

VECTOR_KEYS = (
    "extent",
    "type",
    "history_positions",
    "history_yaws",
    "history_extents",
    "history_availabilities",
    "all_other_agents_history_positions",
    "all_other_agents_history_yaws",
    "all_other_agents_history_extents",
    "all_other_agents_history_availability",
    "all_other_agents_types",
    "agent_trajectory_polyline",
    "agent_polyline_availability",
    "other_agents_polyline",
    "other_agents_polyline_availability",
    "lanes",
    "lanes_availabilities",
    "lanes_mid",
    "lanes_mid_availabilities",
    "crosswalks",
    "crosswalks_availabilities",
)
"""Keys of vector samples about the present and the past, in the frame of the AV."""

# Policies keep a module for each key of an observation in an ``nn.ModuleDict``, which does not allow names of
# attributes of torch modules.
_OBSERVED_AS = {"type": "ego_type"}
_SAMPLED_AS = {observed: sampled for sampled, observed in _OBSERVED_AS.items()}

_Array = TypeVar("_Array", NumericArray, torch.Tensor)


class LogView:
    """View of the samples that a dataset builds from frames of episodes: rasters or vectors.

    Args:
        log: Episodes of N environments.
        space: Space of one environment; its keys are those of samples, except those that :func:`as_samples` renames.
    """

    def __init__(self, log: LogSlots | SceneSlots, space: spaces.Dict) -> None:
        self.log, self.space = log, space
        self._num_slots = len(log.recorded)
        made: Any = create_empty_array(space, self._num_slots)
        self.memory: dict[str, NumericArray] = made

    def look(self, slots: Int64Array, frames: Int64Array) -> SampleColumns:
        """Write the observations of slots (B,) in frames (B,), counted in their episodes, and return the samples."""
        # samples of all environments are written in place; those of some are copied
        is_all = len(slots) == self._num_slots
        columns = self.log.look(
            slots, frames, ColumnMemory(self.memory.keys(), self._memory_of_all) if is_all else None
        )
        for key, memory in self.memory.items():
            column = columns.arrays[_SAMPLED_AS.get(key, key)]
            if column is not memory:
                memory.reshape(len(memory), *column.shape[1:])[slots] = column
        return columns

    def _memory_of_all(self, key: str, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray | None:
        """Return the array for samples of all environments; None if shape or dtype differ."""
        memory = self.memory[key]
        return memory if memory.shape == shape and memory.dtype == dtype else None


def vector_space(dataset: BaseEgoDataset) -> spaces.Dict:
    """Return the space of vector samples, with the keys about the present and the past only.

    A scalar becomes an array (1,), as policies concatenate arrays along an axis.

    Args:
        dataset: Dataset of the samples; the shapes are those of the first undamaged sample among the first frames of
            its scenes.

    Raises:
        L5KitError: The first frames of all scenes are damaged, or there is no scene.
    """
    starts = [0, *(end for end in dataset.cumulative_sizes.tolist() if 0 < end < len(dataset))]
    for start in starts:
        try:
            sample: Mapping[str, Any] = dataset[start]
            break
        except L5KitError:
            if start == starts[-1]:
                raise
    observed: dict[str, AnySpace] = {}
    for key in VECTOR_KEYS:
        value = np.atleast_1d(sample[key])
        low, high = -np.inf, np.inf
        if value.dtype == np.bool_:
            low, high = 0, 1
        elif value.dtype.kind == "i":
            low, high = 0, len(PERCEPTION_LABELS) - 1
        observed[_OBSERVED_AS.get(key, key)] = spaces.Box(low, high, value.shape, value.dtype.type)
    return spaces.Dict(observed)


def as_samples(observation: Mapping[str, _Array]) -> dict[str, _Array]:
    """Return vector observations of N environments with the keys and shapes of samples, for networks on samples.

    Args:
        observation: Arrays or tensors (N, ...) of ``observation="vectors"``, with ``ego_type`` (N, 1).

    Returns:
        The same arrays, with ``type`` (N,).
    """
    return {
        _SAMPLED_AS.get(key, key): value[..., 0] if key in _SAMPLED_AS else value for key, value in observation.items()
    }
