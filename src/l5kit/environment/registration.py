"""Registration of the environment with Gymnasium, done on import if it is installed, and the ``make_vec`` entry."""

import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from l5kit.errors import UnsupportedValueError

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

ENVIRONMENT_ID = "L5-CLE-v0"
"""Id for ``gymnasium.make``, as in L5Kit 1.5."""


def make_vector_env(*args: Any, device: object = None, **kwargs: Any) -> "VectorEnv[Any, Any, Any]":
    """Return many environments that are stepped in one call.

    Args:
        *args: Arguments of the environment class.
        device: ``cuda`` or ``cpu`` for a :class:`~l5kit.environment.device.device_env.DeviceVectorEnv`, with tensors in
            and out; None for a :class:`~l5kit.environment.envs.vector_env.L5VectorEnv`, with arrays of NumPy.
        **kwargs: Arguments of the environment class.

    Raises:
        UnsupportedValueError: An argument is not supported on a device.
    """
    from l5kit.environment.envs.vector_env import L5VectorEnv  # imported here to avoid a cycle

    if device is None:
        return L5VectorEnv(*args, **kwargs)
    from gymnasium.vector import AutoresetMode

    from l5kit.environment.device.device_env import DeviceVectorEnv

    # drop arguments of the other class that have its default, raise for other values
    known = inspect.signature(DeviceVectorEnv).parameters
    elsewhere = inspect.signature(L5VectorEnv).parameters
    for name in [name for name in kwargs if name in elsewhere and name not in known]:
        value = kwargs.pop(name)
        usual = elsewhere[name].default
        if value != usual and not (name == "autoreset_mode" and value == AutoresetMode.NEXT_STEP.value):
            raise UnsupportedValueError(
                f"{name} is {value!r}, but environments on a device only support {usual!r}; leave it out, or leave "
                "device out for environments on the processor"
            )
    return DeviceVectorEnv(*args, device=device, **kwargs)


if importlib.util.find_spec("gymnasium") is not None:
    import gymnasium

    # unless it is registered already
    if ENVIRONMENT_ID not in gymnasium.registry:
        gymnasium.register(
            id=ENVIRONMENT_ID,
            entry_point="l5kit.environment.envs.l5_env:L5Env",
            vector_entry_point="l5kit.environment.registration:make_vector_env",
        )
