"""Making of vector environments for ``gymnasium.make_vec``: on the processor, or on a device."""

from typing import Any

from gymnasium.vector import VectorEnv

from l5kit.environment.envs.vector_env import L5VectorEnv

__all__ = ["make_vector_env"]


def make_vector_env(*args: Any, device: object = None, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return many environments that step in one call.

    Args:
        *args: Those of the class of the environments.
        device: ``cuda`` or ``cpu`` for a :class:`~l5kit.environment.device.device_env.DeviceVectorEnv`, with tensors in
            and out; None for a :class:`~l5kit.environment.envs.vector_env.L5VectorEnv`, with arrays of NumPy.
        **kwargs: Those of the class of the environments.
    """
    if device is None:
        return L5VectorEnv(*args, **kwargs)
    from l5kit.environment.device.device_env import DeviceVectorEnv

    return DeviceVectorEnv(*args, device=device, **kwargs)
