"""Fits of drivable trajectories, and perturbed initial states made with them."""

from l5kit.kinematic.ackerman_perturbation import AckermanPerturbation
from l5kit.kinematic.ackerman_steering_model import fit_ackerman_model_approximate, fit_ackerman_model_exact
from l5kit.kinematic.perturbation import Perturbation
from l5kit.kinematic.recovery import RecoveryCounts, RecoveryLimits, RecoveryPerturbation

__all__ = [
    "AckermanPerturbation",
    "Perturbation",
    "RecoveryCounts",
    "RecoveryLimits",
    "RecoveryPerturbation",
    "fit_ackerman_model_approximate",
    "fit_ackerman_model_exact",
]
