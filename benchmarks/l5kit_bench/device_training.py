"""Row of training on a GPU: the share of the time in which the GPU is busy."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from l5kit.dataset.base import BaseEgoDataset
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.sampling.samplers import AgentSampler

__all__ = ["measure_busy", "share_of"]

_WARM_STEPS: Final = 10
"""Warm-up steps, which compile kernels and allocate memory."""

_VALUES_PER_STEP: Final = 3

Span = tuple[float, float]
"""Begin and end of an interval, in any unit of time."""


def measure_busy(
    batches: Iterable[dict[str, torch.Tensor]], samples: BaseEgoDataset, device: str, num_steps: int
) -> tuple[float, float]:
    """Return the shares of the time of a training in which a GPU was busy, and made samples."""
    params, sampler = samples.cfg["model_params"], samples.sample_function
    assert isinstance(sampler, AgentSampler)
    assert isinstance(sampler.rasterizer, Rasterizer)
    torch.manual_seed(0)
    network: Any = RasterizedPlanningModel(
        params["model_architecture"],
        sampler.rasterizer.num_channels(),
        _VALUES_PER_STEP * params["future_num_frames"],
        [1.0, 1.0, 1.0],
        torch.nn.MSELoss(reduction="none"),
        pretrained=False,
    ).to(device)
    network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    steps = iter(batches)
    for batch in itertools.islice(steps, _WARM_STEPS):
        _train(network, optimizer, batch)
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for batch in itertools.islice(steps, num_steps):
            _train(network, optimizer, batch)
        torch.cuda.synchronize(device)
    return _shares(profiled)


def _train(network: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> None:
    """Run one training step."""
    with torch.autocast("cuda", torch.bfloat16):
        loss = network(batch)["loss"]
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def _shares(profiled: Any) -> tuple[float, float]:
    """Return the shares of the time of a profile in which a GPU was busy, and busy for l5kit."""
    on_device = [event for event in profiled.events() if event.device_type == DeviceType.CUDA]
    spans = [(event.time_range.start, event.time_range.end) for event in on_device]
    own = [(event.time_range.start, event.time_range.end) for event in on_device if "l5kit_" in event.name]
    if not spans:
        return 0.0, 0.0
    whole = min(begin for begin, _ in spans), max(end for _, end in spans)
    return share_of(spans, whole), share_of(own, whole)


def share_of(spans: Sequence[Span], whole: Span) -> float:
    """Return the share of a span that other spans cover, which may overlap."""
    covered, end = 0.0, whole[0]
    for begin, stop in sorted(spans):
        covered += max(min(stop, whole[1]) - max(begin, end), 0.0)
        end = max(end, stop)
    return covered / (whole[1] - whole[0])
