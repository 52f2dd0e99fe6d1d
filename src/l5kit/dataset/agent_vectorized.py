"""Dataset of vector samples of agents that qualify as training targets."""

from collections.abc import Callable

from l5kit._types import JsonObject, NumericArray, Sample
from l5kit.configs.parameters import VectorSamplingParams
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.ego_vectorized import EgoDatasetVectorized, leave_row_for_av
from l5kit.dataset.masked_agents import AgentRowsDataset
from l5kit.dataset.sample_indices import ego_extent_of
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.sampling.samplers import AgentVectorSampler
from l5kit.vectorization.vectorizer import Vectorizer


class AgentDatasetVectorized(AgentRowsDataset, EgoDatasetVectorized):
    """Vector samples of agents, one for each selected agent row.

    The rows are those of :class:`~l5kit.dataset.agent.AgentDataset`; ``history_num_frames_ego`` counts the past steps
    of the agent. The first of the ``other_agents_num`` rows of other agents is the AV, with track -1 and the class of a
    car. That row is empty, with track and class 0, if the AV is ``max_agents_distance`` or more away, and in samples of
    the AV itself, which ``get_frame`` returns if no track is given.

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        vectorizer: Vectorizes the surroundings of the agent; the dataset uses a copy with one row fewer.
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
        vectorizer: Vectorizer,
        perturbation: Perturbation | None = None,
        *,
        agents_mask: NumericArray | None = None,
        min_frame_history: int = AGENT_MIN_FRAME_HISTORY,
        min_frame_future: int = AGENT_MIN_FRAME_FUTURE,
        strict_mask: bool = False,
    ) -> None:
        if perturbation is not None:
            raise InvalidArgumentError(f"AgentDatasetVectorized takes no perturbation, got {perturbation!r}; pass None")
        super().__init__(cfg, zarr_dataset, leave_row_for_av(vectorizer))
        self._take_agents(
            agents_mask,
            min_frame_history=min_frame_history,
            min_frame_future=min_frame_future,
            strict_mask=strict_mask,
        )

    def _get_sample_function(self) -> Callable[..., Sample]:
        params = VectorSamplingParams.from_cfg(self.cfg)
        return AgentVectorSampler(params, self.vectorizer, None, ego_extent_of(self.dataset))
