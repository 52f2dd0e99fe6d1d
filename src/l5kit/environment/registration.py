"""Registration of the environment's id with Gymnasium, which is done on import, where Gymnasium is installed."""

import importlib.util

ENVIRONMENT_ID = "L5-CLE-v0"
"""What ``gymnasium.make`` takes, as in L5Kit 1.5."""


def _register() -> None:
    """Register the id, unless somebody has."""
    import gymnasium

    if ENVIRONMENT_ID not in gymnasium.registry:
        gymnasium.register(
            id=ENVIRONMENT_ID,
            entry_point="l5kit.environment.envs.l5_env:L5Env",
            vector_entry_point="l5kit.environment.envs.vector_making:make_vector_env",
        )


if importlib.util.find_spec("gymnasium") is not None:
    _register()
