"""Training samples, models, simulations and scores from logs of self-driving cars."""

__version__ = "2.0.0"
