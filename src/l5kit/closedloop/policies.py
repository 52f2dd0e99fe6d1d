"""Policies of reinforcement learning as planners: the files that ``l5kit train-rl`` writes."""

from pathlib import Path
from typing import Final

from l5kit.simulation.engine.scene_simulation import EgoSeat

__all__ = ["is_policy", "open_policy"]

_FILES: Final = ("driver.zip", "best.zip", "first.zip", "step_*.zip")
"""Files of a training, or of its checkpoints, that tell its folder apart from those of networks."""


def is_policy(path: str) -> bool:
    """Return whether a path is that of a policy, by names only: a ``.zip``, or the folder of its training."""
    place = Path(path)
    if place.is_dir():
        return any(any(place.glob(name)) for name in _FILES)
    return place.suffix == ".zip" and place.is_file()


def open_policy(path: str) -> tuple[EgoSeat, str]:
    """Return a policy in its seat, and its digest.

    Raises:
        ModuleNotFoundError: The extra ``rl`` is not installed.
        FileNotFoundError: The training has not ended.
        InvalidArgumentError: The file is broken, or no policy.
        UnsupportedValueError: It was trained with observations or actions that it cannot drive with.
    """
    from l5kit.environment.policy_driver import PolicyDriver  # only policies need stable-baselines3

    driver = PolicyDriver.load(path)
    return driver.seat, driver.digest
