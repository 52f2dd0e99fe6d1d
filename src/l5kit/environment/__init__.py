"""Closed-loop environments for reinforcement learning."""
