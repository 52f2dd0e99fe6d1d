"""A described city, the folder of a training, and stores at services that run here."""

import shutil
import sys

import pytest

from l5kit.data.artifact import describe_dataset
from support.artifacts import make_training
from support.http_server import served


@pytest.fixture(scope="session")
def described(city):
    """Facts of the small city."""
    return describe_dataset(city)


@pytest.fixture
def training(tmp_path):
    """Folder that looks like that of a training, with a space in its name."""
    return make_training(tmp_path / "my planner")


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    """Store in a folder, kept by the real library."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    from l5kit.artifacts.mlflow_store import MLflowStore

    return MLflowStore("driving")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Content of the hub server."""
    from support.hub_server import HubServer

    return HubServer()


@pytest.fixture
def hub_store(hub, monkeypatch, tmp_path):
    """Store at a server of the hub in this process."""
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars

    from l5kit.artifacts.hub_store import HubStore

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    disable_progress_bars()
    with served(hub.answer) as address:
        yield HubStore("team", endpoint=address)


@pytest.fixture
def copied_city(city, tmp_path):
    """A copy of the small city to change."""
    return shutil.copytree(city, tmp_path / "copied")


@pytest.fixture(params=["mlflow_store", "hub_store"])
def store(request):
    """Each store that needs no separate process."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def wandb_folder(tmp_path, monkeypatch):
    """Folder for all that wandb writes."""
    for name in ("DIR", "CACHE_DIR", "DATA_DIR", "CONFIG_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path / "wb"))
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    (tmp_path / "wb").mkdir()
    yield tmp_path / "wb"
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()
