"""Closed-loop evaluation: metrics of simulated scenes, validators, composite metrics and plans that run them."""
