"""Straight model: constant steps ahead, to measure the closed loop without the cost of a network."""

import torch

from l5kit_bench.row import Work

_NUM_STEPS = 12


class StraightModel(torch.nn.Module):
    """Model that predicts the same straight steps for each sample.

    Args:
        step_m: Length of a step, metres.
    """

    def __init__(self, step_m: float) -> None:
        super().__init__()
        self.step_m = step_m
        self.eval()

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return ``positions`` (B, 12, 2) and ``yaws`` (B, 12, 1)."""
        size = len(batch["track_id"])
        positions = torch.zeros(size, _NUM_STEPS, 2)
        positions[..., 0] = self.step_m * torch.arange(1, _NUM_STEPS + 1)
        return {"positions": positions, "yaws": torch.zeros(size, _NUM_STEPS, 1)}


def on_one_thread(work: Work) -> int:
    """Run the work of a row with torch on one thread, like the reference."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work()
    finally:
        torch.set_num_threads(num_threads)
