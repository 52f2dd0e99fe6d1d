"""Network driver: a trained network drives AVs or agents on the same samples as in L5Kit 1.5."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from l5kit._types import Float64Array
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import tensors_of
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.planning.network_inputs import network_inputs, tensors_on, warn_of_training
from l5kit.planning.network_plans import Headings, read_plans
from l5kit.simulation.drivers.simple import poses_ahead
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.buffer_samples import unperturbed
from l5kit.simulation.engine.traffic_state import TrafficState

InputsOf = Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]
"""Maps a batch of samples to the inputs of the network."""


def whole_batch(batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """Return the whole batch, including the logged future, like simulations of L5Kit 1.5."""
    return batch


class NetworkDriver:
    """Driver with a network, for AVs or for agents, depending on its seat in the simulation.

    The network gets the samples of all actors as a batch, by default without the future, and plans poses at the steps
    of its training. Gradients are off. Actors without a sample, because their label does not pass the filter of the
    dataset in this frame, drive straight at constant speed. Outputs that are not finite are passed on to the engine.

    In one step, plans agree to 1e-5 for any batch size, as far as torch does; for networks on rasters, such differences
    can grow from step to step. With ``max_batch=1`` a scene is driven identically in any batch.

    Args:
        model: Takes a batch as a dictionary of tensors and returns the outputs read by
            :func:`l5kit.planning.network_plans.read_plans`. It is moved to the device. A model in training mode stays
            in it, with a ``RuntimeWarning``.
        dataset: Builds samples of AVs and agents; only the facts of its log are used. A perturbation is skipped, with a
            ``RuntimeWarning``.
        device: Device of the network.
        inputs: Selects the inputs of the network from a batch; :func:`whole_batch` for all.
        headings: ``path`` for a network without headings.
        max_batch: Largest number of samples that are built and passed to the network at once; it bounds memory.

    Attributes:
        model: The network on the device.
        dataset: Builds samples of AVs and agents, without perturbation.
        device: Device of the network.
        step_time_s: Seconds between two planned poses.

    Raises:
        InvalidArgumentError: ``max_batch`` is below 1, or ``headings`` is invalid.
        UnsupportedValueError: The dataset builds its samples one by one, because it or its parts override methods.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: BaseEgoDataset,
        *,
        device: torch.device | str = "cpu",
        inputs: InputsOf = network_inputs,
        headings: Headings = "network",
        max_batch: int = 128,
    ) -> None:
        if max_batch < 1:
            raise InvalidArgumentError(f"max_batch is {max_batch}; it must be at least 1")
        if headings not in ("network", "path"):
            raise InvalidArgumentError(f"headings is {headings!r}; it must be 'network' or 'path'")
        if not dataset.makes_columns:
            raise UnsupportedValueError(
                f"dataset {dataset!r} makes its samples one by one, as it, its rasterizer or its vectorizer "
                "overrides methods, but a driving network needs batches: use a WindowRasterizer "
                "(docs/own_rasterizer.md), or drive with l5kit.simulation.unroll.ClosedLoopSimulator"
            )
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.dataset: BaseEgoDataset = unperturbed(dataset, stacklevel=3)
        params = getattr(dataset.sample_function, "params", None)
        if not isinstance(params, SamplingParams | VectorSamplingParams):
            raise UnsupportedValueError(
                f"dataset {dataset!r} has no sampling parameters, which define the time between the steps of a "
                "plan; use one of l5kit.dataset"
            )
        self.step_time_s = params.step_time_s * params.future_step_size
        self._inputs, self._headings, self._max_batch = inputs, headings, max_batch
        warn_of_training("model", model, stacklevel=3)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self.model).__name__} on {self.device}>"

    def drive(self, state: TrafficState) -> Actions:
        """Return the plans of the network in the world frame, (K, T, 3).

        Raises:
            InvalidArgumentError: The network gives no plans; the message names the key.
        """
        firsts = range(0, len(state), self._max_batch)
        parts = [self._plan(state, slice(first, first + self._max_batch)) for first in firsts]
        poses = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return Actions(poses, self.step_time_s * np.arange(1.0, poses.shape[1] + 1))

    def _plan(self, state: TrafficState, among: slice) -> Float64Array:
        """Return the plans of a slice of the actors."""
        columns = state.samples(self.dataset, among=among, missing="mask")
        # copies, as a network may modify its batch
        world_from_agent, yaws_rad = np.array(columns["world_from_agent"]), np.array(columns["yaw"])
        with torch.no_grad():
            outputs = self.model(tensors_on(self.device, self._inputs(tensors_of(columns.arrays))))
        plans = read_plans(outputs, columns.num_samples, headings=self._headings)
        poses = plans.in_world(world_from_agent, yaws_rad)
        if not columns.is_made.all():
            # actors without a sample drive straight
            states = state.actor_states.taken(among).taken(~columns.is_made)
            poses[~columns.is_made] = poses_ahead(states, self.step_time_s * np.arange(1, poses.shape[1] + 1))
        return poses
