"""Datasets in simulations: removal of perturbations, and samples of the current state of scenes."""

import copy
import warnings
from typing import TYPE_CHECKING, Any, Literal

from l5kit._types import Int64Array
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.record_buffer import RecordBuffer
from l5kit.lanes.routes import RouteSource
from l5kit.sampling.sample_columns import SampleColumns

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset
    from l5kit.dataset.sample_indices import SampleIndices


def unperturbed(dataset: Any, *, stacklevel: int) -> Any:
    """Return a dataset without perturbation, which would move the AV away from its simulated pose.

    Args:
        dataset: A dataset of :mod:`l5kit.dataset`, or a compatible one; it is not changed.
        stacklevel: Stack level of the ``RuntimeWarning``, 2 for the caller of this function.
    """
    from l5kit.dataset.base import BaseEgoDataset  # imported here, as datasets import torch

    if getattr(dataset, "perturbation", None) is None:
        return dataset
    warnings.warn("the perturbation of the dataset is left out in simulation", RuntimeWarning, stacklevel=stacklevel)
    if isinstance(dataset, BaseEgoDataset):
        return dataset.with_draws(None)
    other = copy.copy(dataset)
    other.perturbation = None
    return other


def samples_of_buffer(
    dataset: "BaseEgoDataset",
    buffer: RecordBuffer,
    sample_indices: "SampleIndices",
    *,
    scene_indices: Int64Array,
    missing: Literal["error", "mask"] = "error",
    routes: RouteSource | None = None,
) -> SampleColumns:
    """Return samples of a buffer in the format of a dataset, a column (B, ...) for each key and ``scene_index``.

    Args:
        dataset: Builds the samples; its log is not used.
        buffer: Current records of S scenes.
        sample_indices: Indices of the samples in the buffer.
        scene_indices: Values of ``scene_index`` for the scenes, (S,).
        missing: Handling of agents that do not pass the label filter of the dataset: ``error``, or ``mask`` for a
            False in ``is_made``.
        routes: Routes of the AVs of the buffer, for samples with routes.

    Raises:
        UnsupportedValueError: The dataset makes its samples one by one.
        TrackNotFoundError: An agent does not pass the label filter of the dataset, and ``missing`` is ``error``.
    """
    from l5kit.dataset.sample_indices import LogArrays  # imported here, as datasets import torch

    tl_faces = buffer.tl_faces[:0] if read_disable_traffic_light_faces(dataset.cfg) else buffer.tl_faces
    log = LogArrays(buffer.scenes, buffer.frames, buffer.agents, tl_faces, buffer.facts.ego_extent_m, routes)
    columns = dataset.columns_of_log(log, sample_indices, missing=missing)
    sample_scenes = scene_indices[sample_indices.scene_indices]
    return SampleColumns({**columns.arrays, "scene_index": sample_scenes}, columns.is_made)
