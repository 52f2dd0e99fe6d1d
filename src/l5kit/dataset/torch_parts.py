"""Parts of torch that datasets need, with replacements if torch is not installed.

Samples are arrays, so looking at a log needs no torch. Tensors, loaders and samplers need it, and raise an error on
use.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

from l5kit.errors import MissingDependencyError

__all__ = ["Dataset", "Sampler", "get_worker_info", "require_torch"]

if TYPE_CHECKING:
    from torch.utils.data import Dataset, Sampler, get_worker_info

    is_torch_missing = False
else:
    try:
        import torch  # noqa: F401 - on its own, so that a broken torch is not taken for a missing one
        from torch.utils.data import Dataset, Sampler, get_worker_info

        is_torch_missing = False
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        is_torch_missing = True
        _Item = TypeVar("_Item", covariant=True)

        class Dataset(Generic[_Item]):
            """Replacement of ``torch.utils.data.Dataset``."""

        class Sampler(Generic[_Item]):
            """Replacement of ``torch.utils.data.Sampler``."""

        def get_worker_info() -> None:
            """Return None: only torch's ``DataLoader`` has workers."""


def require_torch(what: str) -> None:
    """Raise an error if torch is not installed.

    Args:
        what: Name of the requested object, which starts the message.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    if is_torch_missing:
        raise MissingDependencyError(
            f"{what} needs torch, which is not installed: pip install torch (on Linux, for the processor alone: "
            "pip install torch --index-url https://download.pytorch.org/whl/cpu)"
        )
