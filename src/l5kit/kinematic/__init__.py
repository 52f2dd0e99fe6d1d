"""Fits of drivable trajectories, and perturbed starts made with them."""

from l5kit.kinematic.ackerman_perturbation import AckermanPerturbation
from l5kit.kinematic.ackerman_steering_model import fit_ackerman_model_approximate, fit_ackerman_model_exact
from l5kit.kinematic.perturbation import Perturbation

__all__ = [
    "AckermanPerturbation",
    "Perturbation",
    "fit_ackerman_model_approximate",
    "fit_ackerman_model_exact",
]
