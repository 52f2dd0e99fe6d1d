"""Network driver: a trained network drives AVs or agents, whose samples it takes as in L5Kit 1.5."""

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
"""Takes a batch of samples and returns what the network gets of it."""


def whole_batch(batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """Return a batch as it is, with what the log says of the future, as simulations of L5Kit 1.5 hand it on."""
    return batch


class NetworkDriver:
    """A network that drives: AVs, or agents, by which seat of the simulation it has.

    It gets the samples of all actors as a batch, sees nothing of the future unless it is told to, and plans poses at
    the steps that it was trained with. Gradients are off. Actors of which the dataset makes no sample, as their label
    does not pass its filter in this frame, go straight on as fast as they are. Outputs that are not finite are left to
    the engine.

    In one step plans agree to 1e-5 for any number of samples at once, as far as torch does; where networks look at
    rasters, such differences can grow from step to step. With ``max_batch=1`` a scene is driven alike in any batch.

    Args:
        model: Takes a batch as a dictionary of tensors and gives what :func:`l5kit.planning.network_plans.read_plans`
            reads. It is moved to the device. One in training mode is left so, after a ``RuntimeWarning``.
        dataset: Makes the samples, of AVs and agents alike; of its log nothing is read but the facts. A perturbation
            is left out, with a ``RuntimeWarning``.
        device: Where the network runs.
        inputs: What the network gets of a batch; :func:`whole_batch` for all of it.
        headings: ``path`` for a network that gives no headings.
        max_batch: Samples that are made, and handed to the network, at once; it bounds memory.

    Attributes:
        model: Takes a batch as a dictionary of tensors and gives what :func:`l5kit.planning.network_plans.read_plans`
            reads.
        dataset: Makes the samples, of AVs and agents alike.
        device: Where the network runs.
        step_time_s: Seconds between two planned poses.

    Raises:
        InvalidArgumentError: ``max_batch`` is below 1, or ``headings`` none of the above.
        UnsupportedValueError: The dataset makes its samples one by one, as it or its parts have methods of their own.
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
            raise InvalidArgumentError(f"max_batch is {max_batch}; take at least 1 sample at once")
        if headings not in ("network", "path"):
            raise InvalidArgumentError(f"headings is {headings!r}; it must be 'network' or 'path'")
        if not dataset.makes_columns:
            raise UnsupportedValueError(
                f"dataset {dataset!r} makes its samples one by one, as it, its rasterizer or its vectorizer has "
                "methods of its own, and a network that drives needs batches: give it a WindowRasterizer "
                "(docs/own_rasterizer.md), or drive with l5kit.simulation.unroll.ClosedLoopSimulator"
            )
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.dataset: BaseEgoDataset = unperturbed(dataset, stacklevel=3)
        params = getattr(dataset.sample_function, "params", None)
        if not isinstance(params, SamplingParams | VectorSamplingParams):
            raise UnsupportedValueError(
                f"dataset {dataset!r} has no parameters of samples, so that nothing says how far apart the steps of a "
                "plan lie; use one of l5kit.dataset"
            )
        self.step_time_s = params.step_time_s * params.future_step_size
        self._inputs, self._headings, self._max_batch = inputs, headings, max_batch
        warn_of_training("model", model, stacklevel=3)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self.model).__name__} on {self.device}>"

    def drive(self, state: TrafficState) -> Actions:
        """Return the plans of the network in the world, (K, T, 3).

        Raises:
            InvalidArgumentError: The network gives no plans; the message names the key.
        """
        firsts = range(0, len(state), self._max_batch)
        parts = [self._plan(state, slice(first, first + self._max_batch)) for first in firsts]
        poses = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return Actions(poses, self.step_time_s * np.arange(1.0, poses.shape[1] + 1))

    def _plan(self, state: TrafficState, among: slice) -> Float64Array:
        """Return the plans for some of the actors."""
        columns = state.samples(self.dataset, among=among, missing="mask")
        # copies, as a network may write into its batch, which says nothing of where the actors are
        world_from_agent, yaws_rad = np.array(columns["world_from_agent"]), np.array(columns["yaw"])
        with torch.no_grad():
            outputs = self.model(tensors_on(self.device, self._inputs(tensors_of(columns.arrays))))
        plans = read_plans(outputs, columns.num_samples, headings=self._headings)
        poses = plans.in_world(world_from_agent, yaws_rad)
        if not columns.is_made.all():
            # who has no sample goes straight on
            states = state.actor_states.taken(among).taken(~columns.is_made)
            poses[~columns.is_made] = poses_ahead(states, self.step_time_s * np.arange(1, poses.shape[1] + 1))
        return poses
