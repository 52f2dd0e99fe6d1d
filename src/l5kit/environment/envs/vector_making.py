"""Making of vector environments for ``gymnasium.make_vec``: on the processor, or on a device."""

import inspect
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.errors import UnsupportedValueError


def make_vector_env(*args: Any, device: object = None, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return many environments that step in one call.

    Args:
        *args: Those of the class of the environments.
        device: ``cuda`` or ``cpu`` for a :class:`~l5kit.environment.device.device_env.DeviceVectorEnv`, with tensors in
            and out; None for a :class:`~l5kit.environment.envs.vector_env.L5VectorEnv`, with arrays of NumPy.
        **kwargs: Those of the class of the environments.

    Raises:
        UnsupportedValueError: Something is asked for that environments on a device do not have.
    """
    if device is None:
        return L5VectorEnv(*args, **kwargs)
    from l5kit.environment.device.device_env import DeviceVectorEnv

    # arguments of the other class are left out where they have its usual value, and refused where they ask for more
    known = inspect.signature(DeviceVectorEnv).parameters
    elsewhere = inspect.signature(L5VectorEnv).parameters
    for name in [name for name in kwargs if name in elsewhere and name not in known]:
        value = kwargs.pop(name)
        usual = elsewhere[name].default
        if value != usual and not (name == "autoreset_mode" and value == AutoresetMode.NEXT_STEP.value):
            raise UnsupportedValueError(
                f"{name} is {value!r}, but environments on a device have {usual!r} only; leave it out, or leave device "
                "out for environments on the processor"
            )
    return DeviceVectorEnv(*args, device=device, **kwargs)
