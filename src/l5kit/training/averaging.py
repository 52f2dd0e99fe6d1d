"""Averaged weights of a training: an exponential moving average over its steps (EMA)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn


class WeightAverage:
    """The exponential moving average of the weights of a network.

    After step t, counted from 1, ``average = d * average + (1 - d) * weight`` with
    ``d = min(decay, (1 + t) / (10 + t))``, so that the first weights, which have learned nothing, are soon forgotten;
    before the first step the average is the weights. Buffers, such as the statistics of batch normalisation, are not
    averaged: they are those of the last step, and so are weights that are no floating-point numbers.

    Args:
        model: The network; it is not changed but within :meth:`swapped_in`.
        decay: Share of the average that stays in each step, between 0 and 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self._averages = {name: value.detach().clone() for name, value in _averaged_of(model).items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after a step, counted from 1, into the average."""
        decay = min(self._decay, (1 + step) / (10 + step))
        for name, value in _averaged_of(self._model).items():
            self._averages[name].lerp_(value.detach(), 1.0 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Let the network have the averaged weights in the block."""
        kept = {name: value.detach().clone() for name, value in _averaged_of(self._model).items()}
        self._fill(self._averages)
        try:
            yield
        finally:
            self._fill(kept)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the averages by name."""
        return dict(self._averages)

    def load_state_dict(self, averages: Mapping[str, torch.Tensor]) -> None:
        """Take what :meth:`state_dict` gave, on the devices of the weights."""
        for name, value in self._averages.items():
            value.copy_(averages[name])

    @torch.no_grad()
    def _fill(self, values: Mapping[str, torch.Tensor]) -> None:
        for name, value in _averaged_of(self._model).items():
            value.copy_(values[name])


def _averaged_of(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights that are averaged, by name; those of one memory once."""
    return {name: value for name, value in model.named_parameters() if value.is_floating_point()}
