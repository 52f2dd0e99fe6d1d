"""Opening of artifact stores by the name of a service."""

from typing import Final

from l5kit.artifacts.file_store import FileStore
from l5kit.configs.texts import did_you_mean
from l5kit.errors import MissingDependencyError, UnsupportedValueError, install_command

_LIBRARIES: Final = {
    "wandb": ("wandb", "the wandb library"),
    "mlflow": ("mlflow", "MLflow"),
    "hub": ("huggingface_hub", "huggingface-hub"),
}
"""Module of the library of each service, and the library's display name."""

STORES: Final = tuple(_LIBRARIES)
"""Names of the services: Weights & Biases, MLflow, the Hugging Face hub."""


def open_store(service: str, project: str) -> FileStore:
    """Return the store of a project at a service, without contacting it.

    Args:
        service: One of :data:`STORES`. Its address and credentials come from its own environment variables
            (``WANDB_BASE_URL``, ``MLFLOW_TRACKING_URI``, ``HF_ENDPOINT``, ...) or from its login.
        project: Project, with or without its owner (``ENTITY/PROJECT``), at W&B; experiment at MLflow; user or
            organization at the hub.

    Raises:
        UnsupportedValueError: There is no such service.
        InvalidArgumentError: The name of the project is invalid.
        MissingDependencyError: The library of the service is not installed.
    """
    if service not in STORES:
        raise UnsupportedValueError(
            f"service is {service!r}{did_you_mean(service, STORES)}; it must be one of {', '.join(STORES)}"
        )
    library, called = _LIBRARIES[service]
    try:
        if service == "wandb":
            from l5kit.artifacts.wandb_store import WandbStore

            return WandbStore(project)
        if service == "mlflow":
            from l5kit.artifacts.mlflow_store import MLflowStore

            return MLflowStore(project)
        from l5kit.artifacts.hub_store import HubStore

        return HubStore(project)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise MissingDependencyError(f"this store needs {called}: {install_command(service)}") from error
