"""Utilities of environments: scales of actions, and pictures of observations."""

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
    """Scales of actions that are the next pose: -1 and 1 are ten standard deviations from the mean.

    Attributes:
        x_mu: Mean of x of the next pose in the frame of the AV, metres.
        x_scale: Ten standard deviations of x.
        y_mu: Mean of y.
        y_scale: Ten standard deviations of y.
        yaw_mu: Mean of the heading, radians.
        yaw_scale: Ten standard deviations of the heading.
    """

    x_mu: float
    x_scale: float
    y_mu: float
    y_scale: float
    yaw_mu: float
    yaw_scale: float


class KinematicActionRescaleParams(NamedTuple):
    """Scales of actions that are steering and acceleration: values of the actions -1 and 1.

    Attributes:
        steer_scale: Turn in a step, radians.
        acc_scale: Speed change in a step.
    """

    steer_scale: float
    acc_scale: float


def calculate_non_kinematic_rescale_params(sim_dataset: SimulationDataset) -> NonKinematicActionRescaleParams:
    """Return the scales of the logged steps: mean and ten times the standard deviation of each value, in float32.

    Args:
        sim_dataset: The scenes; their first and last frames are not used.

    Raises:
        InvalidArgumentError: No frame is left.
    """
    frames = range(1, len(sim_dataset) - 1)
    if not frames:
        raise InvalidArgumentError(
            f"the scenes to measure steps in have {len(sim_dataset)} frames; at least 3 are needed, take a larger "
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
    """Write an observed image as the next free ``input0.png``, ``input1.png``, ... of a folder, up to a limit.

    Args:
        rasterizer: Rasterizer of the image.
        image: The image, (C, H, W).
        num_images: Largest number of pictures in the folder; nothing is written beyond it.
        output_folder: Folder, created if missing.
    """
    folder = Path(output_folder)
    folder.mkdir(parents=True, exist_ok=True)
    free = next((index for index in range(num_images) if not (folder / f"input{index}.png").exists()), None)
    if free is not None:
        picture = rasterizer.to_rgb(image.detach().cpu().numpy().transpose(1, 2, 0))
        Image.fromarray(np.ascontiguousarray(picture)).save(folder / f"input{free}.png")
