"""Models of closed-loop tests that follow a rule and have nothing to learn: three steps straight on along a pose."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

Batch = Mapping[str, torch.Tensor]
Step = tuple[Any, Any, Any]
NUM_STEPS = 3


class RuleModel(torch.nn.Module):
    """Drives the step (x, y, yaw) that a rule of ``simulation.json`` gives, once, twice and three times."""

    def __init__(self, rule: str, **params: Any) -> None:
        super().__init__()
        self.rule, self.params = _RULES[rule], params
        self.has_extra = params.pop("extra", False)

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        length = len(batch["track_id"])
        x, y, yaw = (
            torch.as_tensor(value, dtype=torch.float32).expand(length) for value in self.rule(batch, **self.params)
        )
        times = torch.arange(1, NUM_STEPS + 1, dtype=torch.float32)
        positions = torch.stack([x, y], dim=-1)[:, None] * times[:, None]
        outputs = {"positions": positions, "yaws": yaw[:, None, None] * times[:, None]}
        return outputs | ({"extra": 2 * positions} if self.has_extra else {})


def _constant(batch: Batch, *, dx: float, dy: float, dyaw: float) -> Step:
    return dx, dy, dyaw


def _image_mean(batch: Batch, *, channels: list[int], bias: float, gain: float, pivot: float, yaw_gain: float) -> Step:
    mean = (torch.round(255 * batch["image"][:, channels]).double() / 255).mean(dim=(1, 2, 3))
    return bias + gain * mean, 0, yaw_gain * (mean - pivot)


def _history(batch: Batch, *, gain: float, yaw_gain: float, default_dx: float) -> Step:
    has_past = (batch["history_availabilities"][:, 1] > 0).float()
    x, y = batch["history_positions"][:, 1].T
    yaw = batch["history_yaws"][:, 1, 0]
    return -has_past * gain * x + (1 - has_past) * default_dx, -has_past * gain * y, -has_past * yaw_gain * yaw


def _track(batch: Batch, *, base: float, slope: float, modulus: int, yaw_slope: float, centre: float) -> Step:
    rest = batch["track_id"] % modulus
    return base + slope * rest, 0, yaw_slope * (rest - centre)


def _frame_table(batch: Batch, *, table: list[list[float]]) -> Step:
    x, y, yaw = torch.tensor(table)[batch["frame_index"] % len(table)].T
    return x, y, yaw


def _target(batch: Batch, *, scale: float) -> Step:
    factor = scale * (batch["target_availabilities"][:, 0] > 0).float()
    x, y = batch["target_positions"][:, 0].T
    return factor * x, factor * y, factor * batch["target_yaws"][:, 0, 0]


def _neighbours(batch: Batch, *, base: float, slope: float, yaw_slope: float, centre: float) -> Step:
    count = batch["all_other_agents_history_availability"][:, :, 0].float().sum(dim=1)
    return base + slope * count, 0, yaw_slope * (count - centre)


def _lanes(batch: Batch, *, base: float, slope: float, yaw_gain: float) -> Step:
    is_there = batch["lanes_mid_availabilities"].float()
    count = is_there.sum(dim=(1, 2))
    mean_y = (batch["lanes_mid"][..., 1] * is_there).sum(dim=(1, 2)) / count.clamp(min=1)
    return base + slope * count / 100, 0, yaw_gain * mean_y


_RULES: dict[str, Callable[..., Step]] = {
    "constant": _constant,
    "image_mean": _image_mean,
    "history": _history,
    "track": _track,
    "frame_table": _frame_table,
    "target": _target,
    "neighbours": _neighbours,
    "lanes": _lanes,
}


def step_model(dx: float = 0.0, dy: float = 0.0, dyaw: float = 0.0) -> RuleModel:
    """Return a model that drives the same step always."""
    return RuleModel("constant", dx=dx, dy=dy, dyaw=dyaw)


class ScriptedSteps(torch.nn.Module):
    """Drives the same step once and twice, and can be written as TorchScript."""

    def __init__(self, dx: float, dy: float = 0.0, dyaw: float = 0.0) -> None:
        super().__init__()
        self.dx, self.dy, self.dyaw = dx, dy, dyaw

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        num = batch["yaw"].shape[0]
        steps = torch.tensor([1.0, 2.0])
        positions = torch.stack([steps * self.dx, steps * self.dy], dim=-1)
        yaws = (steps * self.dyaw)[:, None]
        return {"positions": positions.repeat(num, 1, 1), "yaws": yaws.repeat(num, 1, 1)}
