"""Environments for reinforcement learning; importing this registers their id with Gymnasium, where it is."""

import importlib.util

ENVIRONMENT_ID = "L5-CLE-v0"

if importlib.util.find_spec("gymnasium") is not None:
    import gymnasium

    if ENVIRONMENT_ID not in gymnasium.registry:
        gymnasium.register(id=ENVIRONMENT_ID, entry_point="l5kit.environment.envs.l5_env:L5Env")
