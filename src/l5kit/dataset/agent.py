"""Dataset of raster samples of agents that qualify as training targets."""

from l5kit._types import JsonObject, NumericArray
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.masked_agents import AgentRowsDataset
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import Rasterizer, WindowRasterizer

MIN_FRAME_HISTORY = AGENT_MIN_FRAME_HISTORY
"""Name of ``AGENT_MIN_FRAME_HISTORY`` in releases before 1.5."""

MIN_FRAME_FUTURE = AGENT_MIN_FRAME_FUTURE
"""Name of ``AGENT_MIN_FRAME_FUTURE`` in releases before 1.5."""


class AgentDataset(AgentRowsDataset, EgoDataset):
    """Raster samples of agents, one for each selected agent row.

    An agent row is selected if its track is valid in enough frames before and after it, according to the agents mask
    (:mod:`l5kit.dataset.select_agents`).

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        rasterizer: Draws the rasters; None for samples without one.
        perturbation: Must be None; agents are not perturbed.
        agents_mask: Rows to select instead of those of the agents mask, bool or 0 and 1, (N,); gives a
            ``RuntimeWarning``. Rows that fail the label filter are dropped, as they have no samples; another
            ``RuntimeWarning`` counts them.
        min_frame_history: Minimum number of valid frames before the sample.
        min_frame_future: Minimum number of valid frames after the sample.
        strict_mask: Select all rows of ``agents_mask`` without reading their probabilities; samples of rows that fail
            the label filter then raise a ``SampleError``.

    Attributes:
        agents_mask: Selected rows, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    def __init__(
        self,
        cfg: JsonObject,
        zarr_dataset: ChunkedDataset,
        rasterizer: Rasterizer | WindowRasterizer | None,
        perturbation: Perturbation | None = None,
        agents_mask: NumericArray | None = None,
        min_frame_history: int = AGENT_MIN_FRAME_HISTORY,
        min_frame_future: int = AGENT_MIN_FRAME_FUTURE,
        *,
        strict_mask: bool = False,
    ) -> None:
        if perturbation is not None:
            raise InvalidArgumentError(f"AgentDataset takes no perturbation, got {perturbation!r}; pass None")
        super().__init__(cfg, zarr_dataset, rasterizer, perturbation)
        self._take_agents(
            agents_mask,
            min_frame_history=min_frame_history,
            min_frame_future=min_frame_future,
            strict_mask=strict_mask,
        )
