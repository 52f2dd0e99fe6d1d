"""Train your own model, named by its class path, and test it in open loop.

Run ``python examples/own_model.py`` with a synthetic city, which takes a minute or two. The trained model also works
with commands: ``PYTHONPATH=examples l5kit evaluate own-model-out/training-1 --data own-model-out/city``.
"""

import common
import torch
from open_loop import test_open_loop

from l5kit.training import train
from l5kit.visualization import write_png

NUM_STEPS = 300


class PastPlanner(torch.nn.Module):
    """Planner that extrapolates the mean velocity of the AV and adds a small learned correction."""

    def __init__(self, future_num_frames: int, history_num_frames_ego: int, width: int = 64) -> None:
        super().__init__()
        self.num_steps = future_num_frames
        self.num_past = history_num_frames_ego + 1
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3 * self.num_past, width), torch.nn.ReLU(), torch.nn.Linear(width, 3 * future_num_frames)
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return positions (B, T, 2) and yaws (B, T, 1), also in training, as the loss is a separate class."""
        past = torch.cat([batch["history_positions"], batch["history_yaws"]], dim=-1)[:, : self.num_past]
        step_m = (past[:, 0, :2] - past[:, -1, :2]) / max(self.num_past - 1, 1)
        steps = torch.arange(1, self.num_steps + 1, device=past.device)
        learned = self.layers(past.flatten(1)).unflatten(1, (self.num_steps, 3))
        return {"positions": learned[..., :2] + step_m[:, None] * steps[:, None], "yaws": learned[..., 2:]}


class PoseError(torch.nn.Module):
    """Mean error of positions and yaws over the known steps."""

    def forward(self, outputs: dict[str, torch.Tensor], batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss, a scalar."""
        known = batch["target_availabilities"].float()
        errors_m = torch.nn.functional.smooth_l1_loss(
            outputs["positions"], batch["target_positions"], reduction="none"
        ).sum(-1)
        errors_rad = (outputs["yaws"] - batch["target_yaws"]).abs().squeeze(-1)
        return {"loss": ((errors_m + errors_rad) * known).sum() / known.sum().clamp(min=1)}


def main() -> None:
    """Train the model and test it."""
    options = common.make_parser("Train a model of your own.", out="own-model-out").parse_args()
    cfg, data_folder = common.set_up("vector_planner", options, num_steps=NUM_STEPS)
    cfg["model_params"] |= {
        "model": {"class_path": "own_model.PastPlanner", "init_args": {"width": 128}},
        "loss": "own_model.PoseError",
        "velocity_residual": False,
    }
    cfg["train_params"] |= {"optimizer": {"class_path": "NAdam"}, "learning_rate": 1e-3}
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)

    planner, samples = common.load_trained(cfg, result.weights, data_folder)
    picture = options.out / "own_model.png"
    write_png(picture, test_open_loop(planner, samples, cfg, data_folder))
    print(f"weights in {result.weights}, pictures in {picture}")


if __name__ == "__main__":
    main()
