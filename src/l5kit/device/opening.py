"""Opening devices by name."""

import functools

from l5kit.device.backend import Backend
from l5kit.device.processor import ProcessorBackend
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command


def open_backend(device: object, *, num_threads: int = 1) -> Backend:
    """Return the backend of a device.

    Args:
        device: ``cpu``, ``cuda`` (the current GPU), ``cuda:1`` if that is the current one, or a ``torch.device``.
        num_threads: CPU threads that run kernels in parallel; ignored on a GPU.

    Raises:
        InvalidArgumentError: There is no such device, or it is not the current one of torch in this thread.
        MissingDependencyError: It is a GPU, and torch, a torch with CUDA, or numba-cuda is missing.
    """
    name = str(device)
    if name == "cpu":
        return _processor(num_threads)
    if name != "cuda" and not (name.startswith("cuda:") and name.removeprefix("cuda:").isdecimal()):
        raise InvalidArgumentError(f"device is {name!r}; use 'cpu', 'cuda' or 'cuda:' and a number")
    # check that torch sees a GPU before importing numba-cuda
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(f"device is {name!r}, which needs torch: pip install torch") from error
    if not torch.cuda.is_available():
        raise MissingDependencyError(
            f"device is {name!r}, but torch {torch.__version__} sees no GPU; install a torch with CUDA and a driver, "
            "or leave device out, or pass 'cpu', to use the processor"
        )
    # numba-cuda runs kernels on the GPU that is current when a thread first uses it
    number = name.removeprefix("cuda").removeprefix(":")
    if number and int(number) >= torch.cuda.device_count():
        raise InvalidArgumentError(
            f"device is {name!r}, but there are {torch.cuda.device_count()} GPUs, counted from 0"
        )
    if number and int(number) != torch.cuda.current_device():
        raise InvalidArgumentError(
            f"device is {name!r}, but the current GPU of torch is {torch.cuda.current_device()}, and numba-cuda keeps "
            f"to the first one that a thread uses; call torch.cuda.set_device({int(number)}) first"
        )
    try:
        from l5kit.device.cuda import CudaBackend
    except ImportError as error:
        raise MissingDependencyError(f"device is {name!r}, which needs numba-cuda: {install_command('gpu')}") from error
    return CudaBackend(name)


@functools.cache
def _processor(num_threads: int) -> Backend:
    return ProcessorBackend(num_threads)
