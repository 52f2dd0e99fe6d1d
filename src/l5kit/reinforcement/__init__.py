"""Reinforcement learning of a driver: PPO in many environments, with checkpoints and evaluations."""

from l5kit.reinforcement.run import DriverTraining, train_driver

__all__ = ["DriverTraining", "train_driver"]
