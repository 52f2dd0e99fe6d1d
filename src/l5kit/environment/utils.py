"""Scales of actions, and pictures of what a policy sees."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.dataset import SimulationDataset

if TYPE_CHECKING:
    import torch

__all__ = [
    "KinematicActionRescaleParams",
    "NonKinematicActionRescaleParams",
    "calculate_non_kinematic_rescale_params",
    "save_input_raster",
]


class NonKinematicActionRescaleParams(NamedTuple):
    """What the actions -1 and 1 stand for where they are the next pose: a mean and, each way, ten deviations.

    Attributes:
        x_mu: Mean of x of the next pose as seen from the AV, metres.
        x_scale: Ten standard deviations of it.
        y_mu: Mean of y.
        y_scale: Ten standard deviations of it.
        yaw_mu: Mean of the heading, radians.
        yaw_scale: Ten standard deviations of it.
    """

    x_mu: float
    x_scale: float
    y_mu: float
    y_scale: float
    yaw_mu: float
    yaw_scale: float


class KinematicActionRescaleParams(NamedTuple):
    """What the actions -1 and 1 stand for where they are steering and acceleration.

    Attributes:
        steer_scale: Turn in a step, radians.
        acc_scale: Change of speed in a step.
    """

    steer_scale: float
    acc_scale: float


def calculate_non_kinematic_rescale_params(sim_dataset: SimulationDataset) -> NonKinematicActionRescaleParams:
    """Return the scales of the steps that the log takes: mean and ten times the standard deviation of each value.

    Args:
        sim_dataset: The scenes; their first and last frames are left out. Means and deviations are float32.

    Raises:
        InvalidArgumentError: No frame is left.
    """
    frames = range(1, len(sim_dataset) - 1)
    if not frames:
        raise InvalidArgumentError(
            f"the scenes to measure steps in have {len(sim_dataset)} frames; 3 are the fewest, take a larger "
            "num_simulation_steps"
        )
    # x, y and heading of the next pose of the AV of each scene, frame by frame
    parts = []
    for frame in frames:
        targets = sim_dataset.ego_targets(frame)
        parts.append(np.concatenate([targets["target_positions"][:, 0], targets["target_yaws"][:, 0]], axis=-1))
    steps = np.concatenate(parts)
    columns = [np.ascontiguousarray(column) for column in steps.T]
    scales = [(float(column.mean()), float(10 * column.std())) for column in columns]
    return NonKinematicActionRescaleParams(*(number for pair in scales for number in pair))


def save_input_raster(
    rasterizer: Any, image: "torch.Tensor", num_images: int = 20, output_folder: str = "raster_inputs"
) -> None:
    """Write what a policy sees as the next ``input0.png``, ``input1.png``, ... of a folder, up to a number of pictures.

    Args:
        rasterizer: Has made the image.
        image: (C, H, W).
        num_images: Where the folder has so many, nothing is written any more.
        output_folder: Folder, which is made.
    """
    folder = Path(output_folder)
    folder.mkdir(parents=True, exist_ok=True)
    free = next((index for index in range(num_images) if not (folder / f"input{index}.png").exists()), None)
    if free is not None:
        picture = rasterizer.to_rgb(image.detach().cpu().numpy().transpose(1, 2, 0))
        Image.fromarray(np.ascontiguousarray(picture)).save(folder / f"input{free}.png")
