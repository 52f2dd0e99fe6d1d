"""Environments for reinforcement learning; importing this registers their id with Gymnasium, where it is."""

from l5kit.environment.registration import ENVIRONMENT_ID

__all__ = ["ENVIRONMENT_ID"]
