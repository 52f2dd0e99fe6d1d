"""Environments for reinforcement learning; importing this package registers their id with Gymnasium, if installed."""

import lazy_loader

from l5kit.environment.registration import ENVIRONMENT_ID as ENVIRONMENT_ID

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
