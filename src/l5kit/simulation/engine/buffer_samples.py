"""Datasets in simulations: without their perturbation, and the samples that they make of scenes as they are now."""

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
    """Return a dataset without its perturbation, which would move the AV away from where the simulation puts it.

    Args:
        dataset: A dataset of :mod:`l5kit.dataset`, or one like it; it is not changed.
        stacklevel: Whose line the ``RuntimeWarning`` names, 2 for that of whoever calls this.
    """
    from l5kit.dataset.base import BaseEgoDataset  # here, as datasets bring torch

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
    """Return samples as a dataset makes them of its own log, a column (B, ...) for each key and ``scene_index``.

    Args:
        dataset: Makes the samples; of its log nothing is read.
        buffer: The records of S scenes as they are now.
        sample_indices: Where the samples lie in the buffer.
        scene_indices: What the scenes are called in ``scene_index``, (S,).
        missing: What becomes of agents that do not pass the label filter of the dataset: ``error``, or ``mask`` for a
            False in ``is_made``.
        routes: Knows the routes of the AVs of the buffer, where samples tell of them.

    Raises:
        UnsupportedValueError: The dataset makes its samples one by one.
        TrackNotFoundError: An agent does not pass the label filter of the dataset, and ``missing`` is ``error``.
    """
    from l5kit.dataset.sample_indices import LogArrays  # here, as datasets bring torch

    tl_faces = buffer.tl_faces[:0] if read_disable_traffic_light_faces(dataset.cfg) else buffer.tl_faces
    log = LogArrays(buffer.scenes, buffer.frames, buffer.agents, tl_faces, buffer.facts.ego_extent_m, routes)
    columns = dataset.columns_of_log(log, sample_indices, missing=missing)
    of_samples = scene_indices[sample_indices.scene_indices]
    return SampleColumns({**columns.arrays, "scene_index": of_samples}, columns.is_made)
